"""Test suites that nobody here wrote, run under KVRM and compared with QEMU: `python -m suites` in `tests/`."""
