"""What Linux answers to the programs in `probes`, KVRM answers too.

Each probe is built for this machine and for AArch64 and run on both in an empty directory. What they print
is compared one by one. A difference that stays has its reason in `PROBES`.
"""

from __future__ import annotations

import platform
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import cross
import kvrm

SOURCES = Path(__file__).with_name("probes")
MOST_INSTRUCTIONS = 10**9


@dataclass(frozen=True)
class Probe:
    """A program of `probes`.

    In a `writable` run the guest has its directory from the host (`rw`), else its files stay in memory.
    `pinned` has for a question KVRM's own answer and the reason for it.
    """

    name: str
    writable: bool = False
    pinned: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name + ("-writable" if self.writable else "")


OWN_MOUNT = "a writable directory is a mount of its own, whose top the guest does not change"
PROBES = [
    Probe(
        "advice",
        pinned={
            "all_advice: advice 9 on a shared file": ("-1 EOPNOTSUPP", "what is mapped of a file is a copy"),
        },
    ),
    Probe("limits"),
    Probe("memory"),
    Probe("prctl"),
    Probe("privileges"),
    Probe("processes"),
    Probe("scheduling"),
    Probe("seccomp"),
    Probe("paths"),
    Probe(
        "paths",
        writable=True,
        pinned={
            f"one_path: {call} {path}": (f"-1 {answer}", OWN_MOUNT)
            for answer, calls, paths in (
                ("EXDEV", "link_from link_follow rename_from rename_file_to rename_directory_to", "/ //"),
                ("EXDEV", "rename_noreplace_to", "/ //"),
                ("EPERM", "chmod chown lchown utimes utimes_nofollow", ".. ../"),
            )
            for call in calls.split()
            for path in paths.split()
        },
    ),
    Probe("offsets"),
    Probe("offsets", writable=True),
    Probe("signals"),
    Probe("clocks"),
    Probe("timers"),
    Probe("events"),
    Probe("futexes"),
    Probe("sysv"),
    Probe("mqueues"),
    Probe("sockets"),
    Probe("connections"),
    Probe("epoll"),
]


def built(name: str, compiler: str, directory: Path) -> Path:
    options = ["-O1", "-static", "-Wall", "-Wextra", "-Werror"]
    return cross.build(SOURCES / f"{name}.c", directory / compiler, *options, compiler=compiler)


def answers(output: bytes) -> dict[str, str]:
    """The lines by question; one that comes again has its number after it."""
    asked: Counter[str] = Counter()
    found = {}
    for line in output.decode().splitlines():
        question, _, answer = line.partition(" = ")
        asked[question] += 1
        found[f"{question} ({asked[question]})" if asked[question] > 1 else question] = answer
    return found


@pytest.mark.parametrize("probe", PROBES, ids=str)
def test_as_on_linux(probe: Probe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if platform.system() != "Linux":
        pytest.skip("the machine has no Linux to compare with")
    here, there = tmp_path / "host", tmp_path / "guest"
    here.mkdir()
    there.mkdir()
    native, guest = (built(probe.name, compiler, tmp_path) for compiler in ("gcc", cross.COMPILER))
    host = subprocess.run(
        [native],
        cwd=here,
        input=b"",
        stdout=subprocess.PIPE,
        timeout=100,
        start_new_session=True,
        umask=0o022,
    )
    assert host.returncode == 0
    monkeypatch.chdir(there)
    machine = kvrm.Machine(guest, rw=there if probe.writable else None)
    result = machine.run(max_instructions=MOST_INSTRUCTIONS)
    assert (result.stop, result.exit_code) == (kvrm.Stop.EXIT, 0), result
    expected, found = answers(host.stdout), answers(result.stdout)
    assert list(found) == list(expected)
    pinned = {question: answer for question, (answer, _) in probe.pinned.items()}
    assert pinned.keys() <= found.keys(), "a pinned question is not asked"
    expected |= pinned
    wrong = [f"{q}: {found[q]}, not {expected[q]}" for q in found if found[q] != expected[q]]
    assert not wrong, "\n".join([f"{len(wrong)} answers differ:", *wrong])
