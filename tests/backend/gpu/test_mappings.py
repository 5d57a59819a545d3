"""Files that lanes map on the device, against the same lanes on the CPU (see `test_files`)."""

from __future__ import annotations

import errno as E
import random
import struct
from pathlib import Path

import numpy as np
import pytest

import kvrm
from cuda_tools import (
    ANONYMOUS,
    KEEP,
    PAGE,
    READ,
    WRITE,
    Away,
    Op,
    alike,
    begun,
    forks,
    lanes,
    mapping,
    opening,
    result,
    run,
    scratch,
    script,
)
from kvrm import Stop
from kvrm.linux import mapped

pytestmark = pytest.mark.usefixtures("place")

SHARED, PRIVATE, VALIDATE, FIXED, NO_REPLACE = 1, 2, 3, 0x10, 0x100000
NAMES = {"text": 2 * PAGE + 900, "other": PAGE + 100, "empty": 0, "pages": 2 * PAGE, "large": 9 * PAGE + 1}
"""Files and their sizes; they are opened in this order, as descriptors from 3 on."""
TEXT, OTHER, EMPTY, PAGES, LARGE = range(3, 8)
OPEN = [op for name in NAMES for op in opening(name)]
IN_STEP = (*[20] * 200, None)
"""Budgets with which no lane does two calls while another does none; on a GPU lanes are in step anyway."""
OPENED = 2 * len(NAMES)
"""Operations before those of a test."""
MAPS: list[Op | bytes] = [
    ("umask", 0),
    *opening("/proc/self/maps"),
    ("dup", 20),
    ("read", 3, scratch(3000), 9000),
    ("write", 1, scratch(3000), 9000),
]
"""Has the CPU show all mappings, by descriptor 3."""


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with files."""
    monkeypatch.chdir(tmp_path)
    for name, size in NAMES.items():
        data = np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()
        (tmp_path / name).write_bytes(data)
        (tmp_path / name).read_bytes()
    return tmp_path


def of_file(fd: int, length: int, prot: int = READ, flags: int = PRIVATE, offset: int = 0) -> Op:
    return "mmap", 0, length, prot, flags, fd, offset


def at(number: int, offset: int = 0) -> int:
    """The result of operation `number` of a test, and something added."""
    return result(OPENED + number, offset)


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


def test_paths_and_vectors_in_a_file(calls: Path, work: Path, away: Away) -> None:
    start = int.from_bytes(run("cpu", calls, stdin=[script([mapping(PAGE)])]).stdout[0][:8], "little")
    (work / "other").write_bytes(b"text\0".ljust(16) + struct.pack("<4Q", start + 2, 9, start, 4))
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


USE: list[Op | bytes] = [
    of_file(TEXT, 3 * PAGE, READ | WRITE),
    of_file(LARGE, 8 * PAGE, READ, SHARED, PAGE),
    ("store", at(0, PAGE + 70), 5),
    mapping(2 * PAGE),
    ("store", at(3, 100), 6),
    of_file(LARGE, 2 * PAGE, READ | WRITE, PRIVATE, 8 * PAGE),
    ("store", at(5, PAGE + 70), 5),
    ("close", LARGE),
    ("munmap", at(1, 2 * PAGE), PAGE),
    *opening("other"),
    of_file(LARGE, 2 * PAGE, READ | WRITE),
    ("store", at(11, 3), 7),
    ("mprotect", at(1, 6 * PAGE), PAGE, 0),
    ("mprotect", at(1, 6 * PAGE), PAGE, READ),
    ("munmap", at(11), 2 * PAGE),
    of_file(TEXT, 2 * PAGE, READ, SHARED, PAGE),
    ("mprotect", at(0, 2 * PAGE), PAGE, 0),
    ("dup3", OTHER, TEXT, 0),
    of_file(TEXT, 2 * PAGE, READ, SHARED),
]
"""Mappings that come and go, of descriptors that do, too."""
SHOWN: list[Op | bytes] = [
    ("write", 1, at(0), 2 * PAGE),
    ("write", 1, at(1), 2 * PAGE),
    ("write", 1, at(1, 3 * PAGE), 5 * PAGE),
    ("write", 1, at(3), 2 * PAGE),
    ("write", 1, at(5), 2 * PAGE),
    ("write", 1, at(16), 2 * PAGE),
    ("write", 1, at(19), 2 * PAGE),
]


def apart(*ops: list[Op | bytes]) -> list[list[Op | bytes]]:
    """Each lane in a group of its own."""
    return [one for first in ops for one in (first, *[[]] * 31)]


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


CLAIMS: dict[str, tuple[list[list[Op | bytes]], list[int]]] = {
    "different files": ([[of_file(fd, PAGE)] for fd in (TEXT, OTHER, TEXT)], [1]),
    "different parts": ([[of_file(LARGE, PAGE, offset=at)] for at in (0, PAGE, 0, 9 * PAGE)], [1, 3]),
    "parts that meet": ([[of_file(LARGE, n * PAGE, offset=(9 - n) * PAGE)] for n in (3, 5, 1)], []),
    "memory first": ([[mapping(PAGE)], [of_file(TEXT, PAGE)], [mapping(2 * PAGE)]], [1]),
    "a file first": ([[of_file(TEXT, PAGE)], [mapping(2 * PAGE)], [of_file(TEXT, PAGE)]], [1]),
    "past files": ([[of_file(EMPTY, PAGE), ("brk", 0)], [mapping(PAGE)], [of_file(OTHER, 3 * PAGE)]], [1]),
    "beyond the first": ([[of_file(TEXT, PAGE)], [of_file(OTHER, 3 * PAGE)], [mapping(PAGE)]], [1, 2]),
    "one after the other": (
        [[of_file(fd, PAGE), ("write", 1, at(0), PAGE), ("munmap", at(0), PAGE)] for fd in (TEXT, OTHER)],
        [],
    ),
    "memory after files": (
        [[of_file(fd, PAGE), ("munmap", at(0), 1), mapping(1), ("load", at(2))] for fd in (TEXT, OTHER)],
        [1],
    ),
    "files after memory": (
        [[mapping(PAGE), ("store", at(0), 1), ("munmap", at(0), 1), of_file(TEXT, PAGE), ("load", at(3))]],
        [],
    ),
}
"""What lanes of a group map at the same addresses, and those of them that cannot."""


@pytest.mark.parametrize("name", CLAIMS)
def test_one_page_for_a_group(calls: Path, name: str, place: str, away: Away) -> None:
    """On a GPU any of the lanes may be the first, and two that are at the same time may both be refused."""
    ops, gone = CLAIMS[name]
    ends: list[Op | bytes] = [("write", 1, at(0), PAGE)]
    texts = [[*OPEN, *of_lane, *(ends if len(of_lane) == 1 else [])] for of_lane in ops]
    lanes(calls, *texts)
    if place == "host":
        assert [lane for lane, _ in away] == gone
    assert {name for _, name in away} <= {"mmap"}


def test_all_lanes_of_groups(calls: Path, away: Away) -> None:
    """They map at the same moment, and none is refused."""
    ops: list[Op | bytes] = [of_file(LARGE, 10 * PAGE, READ | WRITE), ("store", at(0, PAGE), 3)]
    ops += [("load", at(0, PAGE + k)) for k in (0, 1)]
    ops += [("munmap", at(0), 10 * PAGE), mapping(5 * PAGE), ("load", at(5, PAGE)), of_file(TEXT, PAGE)]
    results = lanes(calls, *([*OPEN, *ops] for _ in range(75)), budgets=IN_STEP)
    assert not away and len(set(results.stdout)) == 1


def test_lanes_that_want_the_same_page_at_the_same_time(calls: Path, place: str, away: Away) -> None:
    """For different things, again and again; none ever sees what another has there."""
    rng, texts = random.Random(3), []
    for _ in range(32 if place == "host" else 1024):
        ops = list(OPEN)
        for iteration in range(20):
            fd, offset = rng.choice([TEXT, TEXT, TEXT, PAGES]), rng.choice([0, 0, 0, PAGE])
            of_this = of_file(fd, 2 * PAGE, READ | WRITE, offset=offset)
            ops.append(rng.choice([of_this, of_this, of_this, mapping(2 * PAGE)]))
            ops += [
                (name, at(4 * iteration, PAGE // 2), value)
                for name, value in (("load", 0), ("store", iteration))
            ]
            ops.append(("munmap", at(4 * iteration), 2 * PAGE))
        texts.append(ops)
    lanes(calls, *texts)
    assert not away or place == "gpu"
    assert {name for _, name in away} <= {"mmap"} and len(away) < len(texts)


def test_memory_limit(calls: Path, away: Away) -> None:
    """Only what a lane has written counts."""
    touches: list[Op | bytes] = [("store", at(0, page * PAGE), 1) for page in range(9)]
    reads: list[Op | bytes] = [("load", at(0, page * PAGE)) for page in range(9)]
    again: list[Op | bytes] = [of_file(LARGE, 9 * PAGE, READ | WRITE), *reads, *touches[:6]]
    again.append(("munmap", at(0), 9 * PAGE))
    whole = of_file(LARGE, 9 * PAGE, READ | WRITE)
    texts: list[list[Op | bytes]] = [[*OPEN, whole, *reads, *touches[:n]] for n in range(0, 10, 2)]
    texts += [[*OPEN, *again, whole, *reads, *touches[:n]] for n in range(0, 9, 3)]
    results = lanes(calls, *texts, memory_limit=11 * PAGE)
    assert results.stops[Stop.OUT_OF_MEMORY] and results.stops[Stop.EXIT]
    assert all(name in ("read", "write") for _, name in away)


def test_too_many_bytes_of_files(calls: Path, away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    text = [*OPEN, *(of_file(LARGE, 4 * PAGE, offset=PAGE) for _ in range(4))]
    image = Path(calls).stat().st_size
    for room, gone in ((1 << 20, 0), (16 * PAGE + image, 0), (15 * PAGE, 1)):
        monkeypatch.setattr(mapped, "_FILE_LIMIT", room)
        away.clear()
        lanes(calls, text)
        assert len(away) == gone


def test_memory_that_is_kept(calls: Path, away: Away) -> None:
    """What a lane has not mapped is zeros, whatever others have there."""
    gone: Op = ("munmap", result(0), 3 * PAGE)
    whole = of_file(TEXT, 3 * PAGE, READ | WRITE)
    ops: list[list[Op | bytes]] = [
        [gone, whole, ("store", at(2, PAGE), 1)],
        [gone],
        [gone, whole, ("munmap", at(2, PAGE), PAGE), ("mprotect", at(2), PAGE, 0)],
        [gone, whole],
    ]
    found = []
    for target in ("cpu", "cuda"):
        machine = begun(calls, [mapping(3 * PAGE), *OPEN], target)
        start = int.from_bytes(machine.run(max_instructions=0).stdout[:8], "little")
        fork, span = machine.fork(32), slice(start + 5, start + 3 * PAGE)
        fork.stdin, fork.keep = [script(o) for o in ops] * 8, (*KEEP, span)
        for budget in IN_STEP:
            results = fork.run(max_instructions=budget)
        found.append((results, results.memory[span].tobytes()))
    alike(found[0][0], found[1][0])
    text, size = Path("text").read_bytes().ljust(3 * PAGE, b"\0")[5:], 3 * PAGE - 5
    rows = [found[1][1][i : i + size] for i in range(0, 4 * size, size)]
    assert rows[1] == bytes(size) and rows[3] == text
    assert rows[0] == text[: PAGE - 5] + b"\1" + text[PAGE - 4 :]
    assert rows[2] == text[: PAGE - 5] + bytes(PAGE) + text[2 * PAGE - 5 :]
    assert found[0][1] == found[1][1] and not away


def test_reset(calls: Path, work: Path, away: Away) -> None:
    """Nothing of a lane is left, and files are as they are then."""
    leaves: list[Op | bytes] = [of_file(LARGE, 9 * PAGE), ("umask", 0), ("write", 1, at(0), PAGE)]
    texts = [[*OPEN, *USE, *SHOWN], [*OPEN, mapping(12 * PAGE), ("write", 1, at(0), 12 * PAGE)]]
    texts.append([*OPEN, *leaves])
    fork = kvrm.Machine(calls, target="cuda").fork(96)
    found = []
    for change, order in enumerate((texts, texts[::-1], texts)):
        if change == 2:
            (work / "large").write_bytes(bytes(range(256)) * 145)
        inputs = [script(o) for o in apart(*order)]
        fork.reset()
        fork.stdin, fork.keep = inputs, KEEP
        found.append(alike(run("cpu", calls, stdin=inputs), fork.run()).stdout)
    assert found[0][0] == found[1][64] != found[2][0] and away == [(k, "umask") for k in (64, 0, 64)]


def test_what_lanes_begin_with(calls: Path, away: Away) -> None:
    """A machine that has mapped files and opened some; what it mapped is the CPU's to unmap."""
    before: list[Op | bytes] = [*OPEN, of_file(TEXT, 3 * PAGE, READ | WRITE), of_file(LARGE, 5 * PAGE)]
    ops: list[Op | bytes] = [
        of_file(TEXT, 3 * PAGE, READ | WRITE),
        ("store", at(2, 9), 5),
        ("write", 1, at(2), 3 * PAGE),
        ("munmap", at(2, PAGE), PAGE),
        of_file(LARGE, 2 * PAGE, READ, SHARED, 8 * PAGE),
        ("close", LARGE),
        ("write", 1, at(6), 2 * PAGE),
    ]
    forks(calls, before, ops, ops[:2], ops)
    assert not away
    forks(calls, before, *([*ops[:n], *MAPS] for n in range(len(ops))))
    assert {name for _, name in away} == {"umask"}
    away.clear()
    forks(calls, before, [*ops[:3], ("munmap", at(2), 4 * PAGE), *MAPS], [])
    assert away == [(0, "munmap")]


def random_ops(rng: random.Random) -> list[Op | bytes]:
    """Calls that change memory, and accesses to what they changed."""
    ops: list[Op | bytes] = [("brk", 0), of_file(LARGE, 9 * PAGE, READ | WRITE)]
    made = [(1, 9)]
    for _ in range(rng.randrange(60)):
        (number, pages), fd = rng.choice(made), rng.randrange(TEXT, LARGE + 1)
        page = rng.randrange(pages + (rng.random() < 0.02))
        some, length = at(number, page * PAGE), rng.randrange(1, max(pages - page, 1) * PAGE + 1)
        prot, flags = rng.choice([READ, *[READ | WRITE] * 4]), rng.choice([SHARED, *[PRIVATE] * 3])
        choices: list[Op] = [
            ("brk", at(0, rng.randrange(20 * PAGE))),
            ("mprotect", some, length, rng.choice([0, prot, prot])),
            ("read", fd, some, rng.randrange(100)),
            ("write", 2, some, length),
            ("dup3", fd, rng.randrange(TEXT, LARGE + 1), 0),
            ("load", some + rng.randrange(PAGE)),
            ("store", some + rng.randrange(PAGE), rng.randrange(256)),
        ]
        what = rng.random()
        if what < 0.3:
            pages = rng.randrange(1, 12)
            new = of_file(fd, pages * PAGE - rng.randrange(9), prot, flags, rng.randrange(4) * PAGE)
            made.append((len(ops), pages))
            ops.append(rng.choice([new, new, mapping(pages * PAGE)]))
        elif what < 0.45 and len(made) > 1:
            number, pages = made.pop()
            ops.append(("munmap", at(number), pages * PAGE))
        else:
            ops.append(("munmap", some, length) if what > 0.97 else rng.choice(choices))
    return [*OPEN, *ops, *(MAPS if rng.random() < 0.3 else [])]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_random_calls(calls: Path, seed: int, away: Away) -> None:
    """Groups of lanes that do the same up to some point; in the last, each does something else."""
    rng = random.Random(seed)
    texts: list[list[Op | bytes]] = []
    for _ in range(3):
        common = random_ops(rng)
        texts += [common[: rng.choice([len(common), rng.randrange(len(OPEN), 100)])] for _ in range(32)]
    texts += [random_ops(rng) for _ in range(32)]
    lanes(calls, *texts, budgets=(*[50] * 100, None))
    assert {name for _, name in away} and len({lane for lane, _ in away}) < len(texts) * 3 // 4
