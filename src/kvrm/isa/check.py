"""Mistakes in definitions fail at import; the full check runs once per version of the sources."""

from __future__ import annotations

from kvrm import cache
from kvrm.isa import probe
from kvrm.isa.definition import DefinitionError, definitions, overlaps
from kvrm.isa.execution import class_table


def check_all() -> None:
    """Every variant passes the probe, and no two definitions claim one word; DefinitionError otherwise.

    Nor do two definitions differ in class and not in the bits that decide it.
    """
    probe.check(definitions)
    class_table()
    if found := overlaps():
        raise DefinitionError("\n".join(found))


def check_once() -> None:
    """`check_all`, unless these very sources passed it before on this machine."""
    passed = cache.versioned_directory("checked", cache.package_hash()) / "passed"
    if cache.read_checked(passed) is None:
        check_all()
        cache.write_checked(passed, b"ok")
