"""Test suites that nobody here wrote, under KVRM and QEMU: `python -m suites` in `tests/`."""
