"""What a start of a program that was run before does not import: each takes longer than the guest."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

NOT_IMPORTED = (
    "concurrent.futures",
    "llvmlite.binding",
    "llvmlite.ir",
    "numpy",
    "rich",
    "kvrm.backend",
    "kvrm.engine.reference",
    "kvrm.engine.translator.background",
    "kvrm.engine.translator.region",
    "kvrm.isa.a64",
    "kvrm.isa.definition",
    "kvrm.linux.calls.xattr",
    "kvrm.machine.lanes",
    "kvrm.neural",
    "kvrm.observe.profile",
    "kvrm.observe.trace",
    "kvrm.staging.emitter",
    "kvrm.staging.llvm",
    "kvrm.staging.translation",
)
START = """
import sys
from kvrm.cli import main
sys.argv = ["kvrm", "run", *sys.argv[1:]]
try:
    main()
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


def imported(program: Path, *options: str) -> set[str]:
    """The modules that a run has imported, once nothing is to be compiled any more."""
    for _ in range(2):
        command = [sys.executable, "-c", START, *options, str(program)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_what_a_start_does_not_import(examples: Path) -> None:
    found = imported(examples / "hello")
    assert {"kvrm", "kvrm.linux.process", "kvrm.staging.native"} <= found
    assert not {name for name in NOT_IMPORTED if name in found}


@pytest.mark.parametrize("name", NOT_IMPORTED)
def test_names_are_those_of_modules(name: str) -> None:
    """A module that has been renamed would never be found."""
    importlib.import_module(name)
