"""Test suites of other projects, under KVRM and QEMU: `python -m suites` in `tests/`."""
