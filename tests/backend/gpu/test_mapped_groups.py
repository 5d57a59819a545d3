"""Files that lanes of a group map at the same addresses; limits, resets, random calls (`test_mappings`)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import kvrm
from cuda_tools import (
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
    result,
    run,
    script,
)
from kvrm import Stop
from kvrm.linux import mapped
from mapped_lanes import (
    EMPTY,
    IN_STEP,
    LARGE,
    MAPS,
    OPEN,
    OTHER,
    PAGES,
    PRIVATE,
    SHARED,
    SHOWN,
    TEXT,
    USE,
    apart,
    at,
    of_file,
)

pytestmark = pytest.mark.usefixtures("place", "files_to_map")


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


def test_reset(calls: Path, files_to_map: Path, away: Away) -> None:
    """Nothing of a lane is left, and files are as they are then."""
    leaves: list[Op | bytes] = [of_file(LARGE, 9 * PAGE), ("umask", 0), ("write", 1, at(0), PAGE)]
    texts = [[*OPEN, *USE, *SHOWN], [*OPEN, mapping(12 * PAGE), ("write", 1, at(0), 12 * PAGE)]]
    texts.append([*OPEN, *leaves])
    fork = kvrm.Machine(calls, target="cuda").fork(96)
    found = []
    for change, order in enumerate((texts, texts[::-1], texts)):
        if change == 2:
            (files_to_map / "large").write_bytes(bytes(range(256)) * 145)
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
def test_random_calls(calls: Path, seed: int, place: str, away: Away) -> None:
    """Groups of lanes that do the same up to some point; in the last, each does something else.

    How many leave is only known on the host: on a GPU two that are at the same time may both be refused.
    """
    rng = random.Random(seed)
    texts: list[list[Op | bytes]] = []
    for _ in range(3):
        common = random_ops(rng)
        texts += [common[: rng.choice([len(common), rng.randrange(len(OPEN), 100)])] for _ in range(32)]
    texts += [random_ops(rng) for _ in range(32)]
    lanes(calls, *texts, budgets=(*[50] * 100, None))
    assert {name for _, name in away}
    assert place == "gpu" or len({lane for lane, _ in away}) < len(texts) * 3 // 4
