"""What lanes cost when they end by themselves, by a fault, or on the CPU: columns, however many there are.

How often the host reads from the device is counted where it reads, for few lanes and for many.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cross
import kvrm
from cuda_tools import EXECUTE, PAGE, READ, WRITE, Op, alike, mapping, result, script
from kvrm import Stop
from kvrm.backend.gpu import device_lanes, driver, leaving, runner
from lane_tools import CODE, DATA, FIXED, LAST, OWN, REGISTERS, SPANS, Do, facts, lanes_of, machine

BUDGET = 2000
FEW, MANY = 32, 512
COLUMNS = 192
"""Bytes that are read of a lane, at most, where results hold as little as they can: some words, and more each
time that the pool of pages grows. The state of a lane alone has 1,500, that of its group 47,000."""

pytestmark = pytest.mark.usefixtures("place")


@dataclass
class Reads:
    """How often the host has read from the device, how much, and the most at a time."""

    number: int = 0
    total: int = 0
    largest: int = 0


@contextmanager
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reads]:
    """Counted while the block runs."""
    buffer, seen = type(driver.device().allocate(16)), Reads()
    read = buffer.read

    def counted(self: Any, out: Any, offset: int = 0) -> Any:
        seen.number, seen.total = seen.number + 1, seen.total + out.nbytes
        seen.largest = max(seen.largest, out.nbytes)
        return read(self, out, offset)

    with monkeypatch.context() as patched:
        patched.setattr(buffer, "read", counted)
        yield seen


def counted(make: Callable[[int], kvrm.Lanes], monkeypatch: pytest.MonkeyPatch) -> list[Reads]:
    """What is read when few lanes run, and when many do; everything compiled is there."""
    make(FEW).run(BUDGET)
    found = []
    for number in (FEW, MANY):
        gc.collect()  # lanes that are no longer used may still have memory of the device
        many = make(number)
        many.keep = ()
        with reads(monkeypatch) as seen:
            many.run(BUDGET)
        found.append(seen)
    return found


def bare(target: str, what: list[Do], numbers: list[int], **options: Any) -> kvrm.Lanes:
    """Lanes of `lane_tools`, each with one of these to do, in turn."""
    count = options.pop("count")
    m = machine("interpreter", target=target, **options)
    return lanes_of(m, np.resize(what, count), np.resize(np.array(numbers, np.uint64), count))


TAGGED = 0x5A << 56
WILD = [0, 2, 1 << 40, 1 << 63, (1 << 56) - 4, (1 << 39) - 4, TAGGED | 4, TAGGED | 6, DATA, DATA + 2, FIXED]
"""Where nothing can be executed."""
UNREADABLE = [0, 1 << 34, (1 << 39) - 1, TAGGED | 8, (1 << 63) | (1 << 55), (1 << 64) - 9, FIXED + 0xFFB]
ENDS: dict[str, tuple[list[Do], list[int]]] = {
    "breakpoint": ([Do.COUNT], [5]),
    "a load": ([Do.READ], UNREADABLE),
    "a store": ([Do.WRITE], [7]),
    "a jump": ([Do.LOST], WILD),
    "pages": ([Do.MANY], [1]),
    "all": ([Do.COUNT, Do.READ, Do.WRITE, Do.LOST, Do.BREAK, Do.UNDEFINED, Do.CALL], [8]),
}
"""Ways to end on the device: what lanes do, and the numbers that they do it with."""


@pytest.mark.parametrize("name", ENDS)
def test_reads_do_not_grow_with_lanes_that_stop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(count: int) -> kvrm.Lanes:
        return bare("cuda", *ENDS[name], count=count, memory_limit=64 * PAGE)

    few, many = counted(make, monkeypatch)
    assert few.number == many.number < 30
    assert many.total - few.total <= COLUMNS * (MANY - FEW)


@pytest.mark.parametrize("name", ENDS)
def test_lanes_that_stop_are_as_on_the_cpu(name: str) -> None:
    want, got = (bare(target, *ENDS[name], count=77, memory_limit=64 * PAGE) for target in ("cpu", "cuda"))
    for _ in range(2):
        one, other = want.run(BUDGET), got.run(BUDGET)
        for lane in range(77):
            assert facts(other, lane) == facts(one, lane)
    assert got.left_device == 0


def test_lanes_begin_where_nothing_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for target in ("cpu", "cuda"):
        many = machine("interpreter", target=target).fork(len(WILD))
        many.registers["pc"], many.keep = np.array(WILD, np.uint64), (*REGISTERS, *SPANS)
        results = many.run(BUDGET)
        found.append([facts(results, lane) for lane in range(len(WILD))])
    assert found[0] == found[1] and many.left_device == 0


@pytest.mark.parametrize("budget", range(3, 8))
def test_a_run_that_ends_with_the_jump(budget: int) -> None:
    """Where it led is found out by the next run, which passes a breakpoint there; in a run that stops it."""
    want, got = (bare(target, [Do.LOST], WILD, count=3 * len(WILD)) for target in ("cpu", "cuda"))
    for many in (want, got):
        many.breakpoints.update((0, DATA))
    for limit in (budget, 1, BUDGET):
        one, other = want.run(limit), got.run(limit)
        for lane in range(len(one)):
            assert facts(other, lane) == facts(one, lane)
        for many in (want, got):
            many.breakpoints.add(1 << 40)
    assert Stop.FAULT in other.stops and (Stop.BREAKPOINT in other.stops) == (budget not in (4, 5))


def test_a_tag_hides_no_code() -> None:
    """Lanes go on after a jump whose target has one: on the CPU, which takes it off."""
    what, numbers = [Do.LOST], [TAGGED | CODE + 0x48, TAGGED | OWN, TAGGED | LAST]
    want, got = (bare(target, what, numbers, count=9).run(BUDGET) for target in ("cpu", "cuda"))
    assert [facts(got, lane) for lane in range(9)] == [facts(want, lane) for lane in range(9)]


def test_messages_are_those_of_a_machine() -> None:
    """But for one that no column tells: an address that is not aligned may be past a file's end as well."""
    for what, number in [(Do.READ, number) for number in UNREADABLE] + [(Do.LOST, number) for number in WILD]:
        one = machine("interpreter")
        one.x[0], one.x[1] = what, number
        alone = one.run(BUDGET)
        lane = bare("cuda", [what], [number], count=3).run(BUDGET).lane(2)
        expected = alone.message.replace("not aligned", "not aligned, or past the end of the mapped file")
        assert (lane.stop, lane.message) == (Stop.FAULT, expected)


# -- lanes that the CPU goes on with ---------------------------------------------------------------------
def program(calls: Path, target: str, count: int, kinds: list[list[Op]], **options: Any) -> kvrm.Lanes:
    """Lanes of a program that each do one of these, in turn."""
    texts = [script(kinds[lane % len(kinds)]) for lane in range(count)]
    m = kvrm.Machine(calls, stdin=texts, lanes=count, target=target, engine="interpreter", **options)
    return m.lanes


KINDS: list[list[Op]] = [
    [("write", 1, 0x40_0000, 8)],
    [mapping(3 * PAGE), ("store", result(0, PAGE), 7), ("load", 8)],
    [mapping(PAGE), ("store", result(0), 9), ("umask", 0o22), ("load", result(0))],
    [("umask", 0o77), ("load", 16)],
    [("kill", 0, 6)],
]
"""They exit, fault, leave and exit, leave and fault, leave and end by a signal."""


def test_reads_do_not_grow_with_lanes_that_leave(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = counted(lambda count: program(calls, "cuda", count, KINDS), monkeypatch)
    assert few.number == many.number < 40
    wanted, got = (program(calls, target, MANY, KINDS) for target in ("cpu", "cuda"))
    for budget in (250, 1, 90, None):
        results = alike(wanted.run(budget), got.run(budget))
    assert set(results.stops) == {Stop.EXIT, Stop.FAULT, Stop.SIGNAL}


def test_groups_that_differ(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole groups fault, leave or exit, and of one group a single lane does."""
    order = [0] * 32 + [1] * 32 + [2] * 32 + [3] * 32 + [0] * 31 + [3]
    kinds = [KINDS[number] for number in order]
    with reads(monkeypatch) as seen:
        got = program(calls, "cuda", len(order), kinds).run()
    assert seen.number < 40
    alike(program(calls, "cpu", len(order), kinds).run(), got)


def test_a_small_buffer_means_more_batches(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No copy is larger than it, unless it is a column."""
    room = 8 * PAGE
    monkeypatch.setattr(device_lanes, "ROWS_MOST", room)
    sizes = []
    take = leaving.batches

    def batches(*arguments: Any) -> Iterator[Any]:
        for batch in take(*arguments):
            sizes.append(len(batch))
            yield batch

    monkeypatch.setattr(runner, "batches", batches)
    wide = [
        mapping(20 * PAGE),
        *[("store", result(0, page * PAGE), page) for page in range(20)],
        ("umask", 0),
    ]
    kinds = [*KINDS, wide]
    want, got = (program(calls, target, 60, kinds) for target in ("cpu", "cuda"))
    got.run(1)
    sizes.clear()
    with reads(monkeypatch) as seen:
        results = got.run()
    alike(want.run(), results)
    assert sum(sizes) == 40 and max(sizes) > 1 and min(sizes) == 1
    assert seen.largest <= max(room, 8 * 64) and seen.number < 12 * len(sizes) + 10 * 3 + 30


def test_inputs_in_device_memory(calls: Path) -> None:
    """Lanes that leave take theirs along, and go on reading it."""
    ops: list[list[Op]] = [[("umask", n), ("getppid",), ("load", 8 * (n % 2))] for n in range(6)]
    texts = kvrm.Texts.of([script(o) for o in ops])
    results = []
    for target in ("cpu", "cuda"):
        m = kvrm.Machine(calls, lanes=6, target=target, engine="interpreter", stdin=[b""] * 6)
        m.lanes.stdin = texts
        if target == "cuda":
            m.lanes.stdin = kvrm.Texts(device_copy(texts.data), texts.lengths)
        results.append(m.run())
    alike(*results)
    assert m.lanes.left_device == 6


def device_copy(data: np.ndarray) -> Any:
    from kvrm.backend.gpu.arrays import DeviceArray

    buffer = driver.device().upload(data)
    return DeviceArray(buffer.address, data.shape, np.uint8, buffer)


def test_cancelled_before_the_cpu_takes_them(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are where they were at their system calls, and the next run goes on with them."""
    got, take = program(calls, "cuda", 40, KINDS), leaving.batches

    def cancelled(*arguments: Any) -> Iterator[Any]:
        got.cancel()
        yield from take(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(runner, "batches", cancelled)
        first = got.run()
    assert first.stops == {Stop.CANCELLED: 24, Stop.EXIT: 8, Stop.FAULT: 8}
    waiting = np.flatnonzero(first.stop == Stop.CANCELLED.code)
    one = program(calls, "cpu", 40, KINDS)
    one.run(int(first.retired[waiting[0]]))
    assert first.pc[waiting[0]] == one._job.outputs.pc[waiting[0]]
    alike(program(calls, "cpu", 40, KINDS).run(), got.run())


OWN_CODE = """
    .global _start
_start: mov x1, 4096; mov x2, x19; mov x3, 0x22; mov x4, -1; mov x8, 222; svc 0   // mmap
    mov x21, x0
    tbz x19, 1, 1f
    ldr x9, 3f; str x9, [x21]
1:  cbz x20, 2f
    mov x1, 4096; mov x2, x20; mov x8, 226; svc 0                                 // mprotect
2:  add x9, x21, x22; blr x9
    mov x8, 94; svc 0
    .balign 8
3:  mov x0, 7; ret
"""
"""Maps a page with the permissions in x19, writes a function to it, gives it those in x20, and jumps there,
x22 bytes further."""
ALL = READ | WRITE | EXECUTE
JUMPS = [
    (READ | WRITE, READ | EXECUTE, 0, Stop.EXIT, True),
    (ALL, 0, 0, Stop.EXIT, True),
    (READ | EXECUTE, 0, 0, Stop.UNDEFINED, True),
    (READ | WRITE, 0, 0, Stop.FAULT, False),
    (READ | WRITE, READ, 4, Stop.FAULT, False),
    (ALL, 0, PAGE << 20, Stop.FAULT, False),
    (ALL, 0, 2, Stop.FAULT, False),
]
"""Permissions, how far, why the lane stops, and whether on the CPU."""


def test_jumps_to_memory_of_the_lanes_own(tmp_path: Path) -> None:
    """A lane that has made some executable runs it on the CPU; to any other such a jump is a fault."""
    source = tmp_path / "jumps.s"
    source.write_text(OWN_CODE)
    jumps = cross.build(source, tmp_path / "jumps", *cross.BARE)
    found = []
    for target in ("cpu", "cuda"):
        m = kvrm.Machine(jumps, lanes=len(JUMPS), target=target, engine="interpreter")
        for name, values in zip(("x19", "x20", "x22"), zip(*JUMPS, strict=True), strict=False):
            m.lanes.registers[name] = np.array(values, np.uint64)
        found.append(m.run())
    results = alike(*found)
    assert [results.lane(lane).stop for lane in range(len(JUMPS))] == [stop for *_, stop, _ in JUMPS]
    assert m.lanes.left_device == sum(leaves for *_, leaves in JUMPS)
