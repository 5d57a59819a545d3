"""Files that lanes map on the device, against the same lanes on the CPU (see `test_files`)."""

from __future__ import annotations

import errno as E
import struct
from pathlib import Path

import pytest

from cuda_tools import (
    ANONYMOUS,
    PAGE,
    READ,
    WRITE,
    Away,
    Op,
    forks,
    lanes,
    mapping,
    opening,
    run,
    scratch,
    script,
)
from kvrm import Stop
from kvrm.linux import mapped
from mapped_lanes import (
    EMPTY,
    FIXED,
    IN_STEP,
    LARGE,
    MAPS,
    NAMES,
    NO_REPLACE,
    OPEN,
    OPENED,
    OTHER,
    PAGES,
    PRIVATE,
    SHARED,
    SHOWN,
    TEXT,
    USE,
    VALIDATE,
    apart,
    at,
    of_file,
)

pytestmark = pytest.mark.usefixtures("place", "files_to_map")


def test_what_mappings_show(calls: Path, away: Away) -> None:
    """All of a file, and parts of it; in several lanes, which are in step until one ends."""
    ops: list[Op | bytes] = [
        of_file(TEXT, NAMES["text"]),
        of_file(OTHER, 1, READ, SHARED),
        of_file(PAGES, 2 * PAGE, READ, VALIDATE),
        of_file(LARGE, 10 * PAGE, READ | WRITE),
        of_file(LARGE, 3 * PAGE - 1, READ, PRIVATE, 2 * PAGE),
        of_file(LARGE, 2 * PAGE, READ, PRIVATE, 8 * PAGE),
        of_file(TEXT, 3 * PAGE, READ, SHARED | 0x8000),
    ]
    sizes = (3, 1, 2, 10, 3, 2, 3)
    ops += [("write", 1, at(n), size * PAGE) for n, size in enumerate(sizes)]
    ops += [("load", at(0, PAGE * k + 5)) for k in range(3)]
    results = lanes(calls, *([*OPEN, *ops[:n]] for n in (len(ops), 5, 9, 13, len(ops))), [])
    assert not away
    shown = results.stdout[0][8 * (OPENED + len(sizes)) :]
    text, zeros = Path("text").read_bytes(), bytes(PAGE)
    assert shown.startswith(text + zeros[: 3 * PAGE - len(text)])
    assert results.stdout[0] == results.stdout[4]


BEYOND: dict[str, list[Op | bytes]] = {
    "a file's last page": [of_file(LARGE, 20 * PAGE), ("load", at(0, 9 * PAGE + 1))],
    "a read": [of_file(LARGE, 20 * PAGE), ("load", at(0, 10 * PAGE))],
    "a write": [of_file(LARGE, 20 * PAGE, READ | WRITE), ("store", at(0, 10 * PAGE))],
    "a write to shared memory": [of_file(EMPTY, PAGE, READ, SHARED), ("store", at(0), 1)],
    "all of a mapping": [of_file(LARGE, PAGE, READ, PRIVATE, 10 * PAGE), ("load", at(0))],
    "an empty file": [of_file(EMPTY, PAGE), ("load", at(0))],
    "from a call": [of_file(LARGE, 20 * PAGE), ("write", 1, at(0, 10 * PAGE), 1)],
    "to a call": [of_file(EMPTY, PAGE, READ | WRITE), ("clock_gettime", 1, at(0))],
}
"""What is done past the end of a file."""


def test_past_the_end(calls: Path, away: Away) -> None:
    """The CPU does it: a page that the file does not have gives SIGBUS, and calls fail."""
    results = lanes(calls, *([*OPEN, *ops] for ops in BEYOND.values()), [*OPEN])
    found = {name: results.lane(n) for n, name in enumerate(BEYOND)}
    ended = {name: lane.signal for name, lane in found.items() if lane.stop is Stop.FAULT}
    bus = ["a read", "a write", "all of a mapping", "an empty file"]
    assert ended == {**dict.fromkeys(bus, 7), "a write to shared memory": 11}
    for name in ("from a call", "to a call"):
        assert int.from_bytes(found[name].stdout[-8:], "little", signed=True) == -E.EFAULT
    assert [lane for lane, _ in away] == [1, 2, 3, 4, 5, 6, 7]


def test_lanes_that_begin_past_the_end(calls: Path) -> None:
    before, after = [*OPEN, of_file(LARGE, 20 * PAGE)], ("load", at(0, 10 * PAGE))
    results = forks(calls, before, [after], [("munmap", at(0), 20 * PAGE)], [])
    assert results.lane(0).signal == 7 and results.stops == {Stop.FAULT: 1, Stop.EXIT: 2}


def test_private_changes(calls: Path, away: Away) -> None:
    """No other lane sees them, nor does another mapping of the same lane; calls make them too."""
    ops: list[Op | bytes] = [
        of_file(TEXT, 3 * PAGE, READ | WRITE),
        of_file(TEXT, 3 * PAGE, READ, SHARED),
        of_file(TEXT, 3 * PAGE, READ | WRITE),
        ("store", at(0, 7), 99),
        ("store", at(0, 2 * PAGE + 2000), 98),
        ("store", at(2, PAGE), 97),
        ("read", OTHER, at(0, PAGE - 50), 100),
        ("pread64", TEXT, at(2, 10), 2 * PAGE, 5),
        ("clock_gettime", 1, at(0, 300)),
        ("getrandom", at(0, 400), 9),
        ("mprotect", at(0), PAGE, READ),
        *(("write", 1, at(n), 3 * PAGE) for n in range(3)),
    ]
    lanes(calls, [*OPEN, *ops], [*OPEN, *ops[:3], *ops[-3:]], [*OPEN, *ops[:6], *ops[-3:]])
    assert not away


def test_paths_and_vectors_in_a_file(calls: Path, files_to_map: Path, away: Away) -> None:
    start = int.from_bytes(run("cpu", calls, stdin=[script([mapping(PAGE)])]).stdout[0][:8], "little")
    (files_to_map / "other").write_bytes(b"text\0".ljust(16) + struct.pack("<4Q", start + 2, 9, start, 4))
    ops: list[Op | bytes] = [
        of_file(OTHER, PAGE),
        ("openat", -100, at(0), 0, 0),
        ("writev", 1, at(0, 16), 2),
        ("fstat", 8, scratch()),
        ("write", 1, scratch(), 128),
    ]
    lanes(calls, [*OPEN, *ops], [*OPEN, *ops])
    assert not away


FAULTS: dict[str, Op] = {
    "a write to shared memory": ("store", at(0, PAGE + 3), 1),
    "a write to private memory": ("store", at(1, 9), 1),
    "a read of what is forbidden": ("load", at(2)),
    "a read past the end": ("load", at(0, 3 * PAGE)),
    "a read of what is gone": ("load", at(3, PAGE)),
    "a write to what is gone": ("store", at(3, PAGE), 1),
    "a write that was allowed": ("store", at(4), 1),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults(calls: Path, name: str, away: Away) -> None:
    ops: list[Op | bytes] = [
        of_file(TEXT, 3 * PAGE, READ, SHARED),
        of_file(PAGES, 2 * PAGE),
        of_file(OTHER, PAGE, 0),
        of_file(LARGE, 3 * PAGE, READ | WRITE),
        of_file(TEXT, PAGE, READ | WRITE),
        ("store", at(3, PAGE), 5),
        ("munmap", at(3, PAGE), PAGE),
        ("store", at(4), 5),
        ("mprotect", at(4), PAGE, READ),
        ("load", at(4)),
    ]
    faulty = FAULTS[name]
    # the mapping that is highest ends where something else may begin
    results = lanes(calls, [*OPEN, *ops, faulty], [*OPEN, *ops], [*OPEN, *ops, faulty])
    assert results.stops == {Stop.FAULT: 2, Stop.EXIT: 1} and not away


def test_failures(calls: Path, away: Away) -> None:
    fails: list[Op | bytes] = [
        of_file(9, PAGE),
        of_file(-1, PAGE),
        of_file(100, PAGE),
        of_file(1, PAGE),
        of_file(2, PAGE, READ | WRITE, SHARED),
        of_file(0, PAGE),
        of_file(0, PAGE, WRITE),
        of_file(0, PAGE, WRITE, SHARED),
        of_file(TEXT, PAGE, WRITE, SHARED),
        of_file(TEXT, PAGE, READ | WRITE, VALIDATE),
        of_file(TEXT, 0),
        of_file(TEXT, PAGE, READ, PRIVATE, 100),
        of_file(TEXT, PAGE, READ, 0),
        of_file(TEXT, PAGE, READ, 4),
        of_file(9, 0, READ, 5, 7),
        ("mmap", 0, 0, READ, ANONYMOUS, -1, 0),
        ("mmap", 0, PAGE, READ, ANONYMOUS, -1, 1),
        ("mmap", 0, PAGE, READ | WRITE, ANONYMOUS ^ 3, -1, 0),
    ]
    results = lanes(calls, [*OPEN, *fails], [*OPEN, *fails])
    found = struct.unpack_from(f"<{len(fails)}q", results.stdout[0], 8 * OPENED)
    assert not away and all(-100 < errno < 0 for errno in found[:-1])


def test_mappings_that_come_and_go(calls: Path, away: Away) -> None:
    text, less = [*OPEN, *USE, *SHOWN], [*OPEN, *USE[:9]]
    lanes(calls, *apart(text, less))
    lanes(calls, text, less, text, less, budgets=IN_STEP)
    assert not away


def test_on_the_cpu_afterwards(calls: Path, away: Away) -> None:
    """A lane has the same mappings there, with the same names, and what it has written."""
    cut = [n for n, op in enumerate(USE) if not isinstance(op, bytes) and n > 3]
    lanes(calls, *apart(*([*OPEN, *USE[:n], ("umask", 0), *USE[n:], *SHOWN, *MAPS] for n in cut)))
    assert {name for _, name in away} == {"umask"} and len(away) == len(cut)


def test_lanes_that_leave_share_a_copy(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host reads a file once for all lanes that have mapped it alike; others have copies of their own."""
    made: list[bytes] = []
    real = mapped.Image
    monkeypatch.setattr(mapped, "Image", lambda data, *a, **kw: made.append(data) or real(data, *a, **kw))
    first = of_file(TEXT, PAGE)
    seconds = first, of_file(OTHER, 2 * PAGE), of_file(TEXT, PAGE, offset=2 * PAGE)
    texts = [script([*OPEN, first, second, ("umask", 0)]) for second in seconds for _ in range(32)]
    assert run("cuda", calls, stdin=texts, engine="interpreter").stops == {Stop.EXIT: 96}
    assert sorted(map(len, made)) == [NAMES["text"] - 2 * PAGE, PAGE, PAGE, PAGE + 100]


ELSEWHERE: dict[str, list[Op | bytes]] = {
    "a hint": [("mmap", at(0), PAGE, READ, PRIVATE, TEXT, 0)],
    "an address": [("mmap", at(0), PAGE, READ, PRIVATE | FIXED, TEXT, 0)],
    "an address where something is": [("mmap", at(0), PAGE, READ, PRIVATE | NO_REPLACE, TEXT, 0)],
    "too much": [of_file(TEXT, 1 << 40)],
    "more than there are entries for": [of_file(TEXT, 50 << 20)],
    "far away": [of_file(TEXT, PAGE, offset=-PAGE)],
    "a length that is none": [of_file(TEXT, -1)],
    "a file to write": [*opening("other", 2), of_file(8, PAGE, READ | WRITE, SHARED)],
    "a device": [*opening("/dev/zero"), of_file(8, PAGE, READ | WRITE)],
    "a directory": [*opening("."), of_file(8, PAGE)],
    "a hole to fill": [("munmap", at(0, PAGE), PAGE), of_file(OTHER, PAGE)],
    "larger": [("mremap", at(0), 3 * PAGE, 5 * PAGE, 1)],
    "as it was": [("madvise", at(0), 3 * PAGE, 4)],
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_on_the_cpu(calls: Path, name: str, away: Away) -> None:
    before: list[Op | bytes] = [*OPEN, of_file(TEXT, 3 * PAGE, READ | WRITE), ("store", at(0, 5), 77)]
    after: list[Op | bytes] = [("write", 1, at(0), PAGE), *MAPS]
    lanes(calls, [*before, *ELSEWHERE[name], *after], before)
    assert [lane for lane, _ in away] == [0] and away[0][1] != "umask"


def test_what_is_shared_stays_read_only_on_the_cpu(calls: Path, away: Away) -> None:
    ops: list[Op | bytes] = [*OPEN, of_file(TEXT, 2 * PAGE, READ, SHARED), ("umask", 0)]
    results = lanes(calls, [*ops, ("mprotect", at(0), PAGE, READ | WRITE), *MAPS])
    assert away == [(0, "umask")]
    assert struct.unpack_from("<q", results.stdout[0], 8 * (OPENED + 2)) == (-E.EACCES,)


def test_code_in_a_file(calls: Path, away: Away) -> None:
    """It may be mapped to be executed; here it is only read."""
    ops: list[Op | bytes] = [of_file(TEXT, 3 * PAGE, READ | 4), ("write", 1, at(0), 3 * PAGE)]
    lanes(calls, [*OPEN, *ops], [*OPEN, *ops])
    assert not away
