"""What Linux answers to the programs in `probes`, KVRM answers too.

Each `NAME.c` is built for this machine and for AArch64 and run on both in an empty directory, and what they
print is compared line by line. `NAME.pins` has what KVRM answers otherwise: lines as the program prints them,
below a comment that gives the reason. Where `WRITABLE` has the name, the guest is run a second time with its
directory from the host (`rw`), and `NAME-writable.pins` counts. Probes may run as root: they leave alone what
is not theirs.
"""

from __future__ import annotations

import platform
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import cross
import kvrm
from patience import SECONDS

SOURCES = Path(__file__).with_name("probes")
WRITABLE = (
    "append",
    "descriptors",
    "faults",
    "file_size",
    "holes",
    "links",
    "locks",
    "offsets",
    "paths",
    "xattrs",
)
UNLIKE = 77
"""How a probe ends on a machine that it cannot compare with."""
PROBES = sorted(path.stem for path in SOURCES.glob("*.c"))
MOST_INSTRUCTIONS = 10**9


def built(name: str, compiler: str, directory: Path) -> Path:
    options = ["-O1", "-static", "-Wall", "-Wextra", "-Werror"]
    return cross.build(SOURCES / f"{name}.c", directory / compiler, *options, compiler=compiler)


def answers(output: str) -> dict[str, str]:
    """The lines by question; one that comes again has its number after it."""
    asked: Counter[str] = Counter()
    found = {}
    for line in output.splitlines():
        question, _, answer = line.partition(" = ")
        asked[question] += 1
        found[f"{question} ({asked[question]})" if asked[question] > 1 else question] = answer
    return found


def pins(name: str) -> dict[str, str]:
    """KVRM's own answers by question."""
    path = SOURCES / f"{name}.pins"
    lines = path.read_text().splitlines() if path.exists() else []
    assert not lines or lines[0].startswith("# "), f"{path.name}: the first pin has no reason"
    return dict(line.split(" = ", 1) for line in lines if line and not line.startswith("# "))


@pytest.mark.parametrize(
    ("name", "writable"), [*((name, False) for name in PROBES), *((name, True) for name in WRITABLE)]
)
def test_as_on_linux(name: str, writable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if platform.system() != "Linux":
        pytest.skip("the machine has no Linux to compare with")
    here, there = tmp_path / "host", tmp_path / "guest"
    here.mkdir()
    there.mkdir()
    native, guest = (built(name, compiler, tmp_path) for compiler in ("gcc", cross.COMPILER))
    host = subprocess.run(
        # the tests may have been started in the background, where a shell has signals ignored
        ["env", "--default-signal=HUP,INT,QUIT", native],
        cwd=here,
        input=b"",
        stdout=subprocess.PIPE,
        timeout=SECONDS,
        start_new_session=True,
        umask=0o022,
    )
    if host.returncode == UNLIKE:
        pytest.skip("the probe says that this machine has other rules")
    assert host.returncode == 0
    monkeypatch.chdir(there)
    result = kvrm.Machine(guest, rw=there if writable else None).run(max_instructions=MOST_INSTRUCTIONS)
    assert (result.stop, result.exit_code) == (kvrm.Stop.EXIT, 0), result
    expected, found = answers(host.stdout.decode()), answers(result.stdout.decode())
    assert list(found) == list(expected)
    pinned = pins(f"{name}-writable" if writable else name)
    assert pinned.keys() <= found.keys(), "a pinned question is not asked"
    expected |= pinned
    wrong = [f"{q} = {found[q]}, not {expected[q]}" for q in found if found[q] != expected[q]]
    assert not wrong, "\n".join([f"{len(wrong)} answers differ:", *wrong])
