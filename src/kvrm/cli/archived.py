"""The commit of a source tree that `git archive` made, which has no repository to ask."""

COMMIT = "$Format:%H$"
