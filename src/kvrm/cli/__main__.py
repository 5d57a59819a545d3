"""`python -m kvrm.cli` is the `kvrm` command."""

from kvrm.cli import main

main()
