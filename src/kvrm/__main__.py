"""`python -m kvrm` is the `kvrm` command."""

from kvrm.cli import main

main()
