"""What a process sets about itself: snapshots have it, and no two processes share it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kvrm.lane.state import State
from kvrm.linux.lane import LaneProcess
from kvrm.memory import Memory
from linux_tools import BUFFER, Guest

Read = Callable[[Guest], object]


def option(number: int) -> Read:
    """What prctl returns."""
    return lambda guest: guest.call("prctl", number, 0, 0, 0, 0)


def told(number: int) -> Read:
    """What prctl writes."""
    return lambda guest: (guest.call("prctl", number, BUFFER, 0, 0, 0), guest.unpack("<i"))


def bytes_of(size: int, name: str, *arguments: int) -> Read:
    """What a call writes to BUFFER."""
    return lambda guest: (guest.call(name, *arguments), guest.bytes(size))


def allow_all(guest: Guest) -> int:
    """Set a filter that allows every call."""
    guest.call("prctl", 38, 1, 0, 0, 0)
    guest.memory.write(BUFFER, struct.pack("<HxxxxxxQHBBI", 1, BUFFER + 16, 6, 0, 0, 0x7FFF0000))
    return guest.call("seccomp", 1, 0, BUFFER)


def calling(name: str, *arguments: int | bytes) -> Callable[[Guest], int]:
    """A call, and what it returns."""
    return lambda guest: guest.call(name, *arguments)


STATES: dict[str, tuple[Callable[[Guest], int], Read]] = {
    "name": (calling("prctl", 15, b"new", 0, 0, 0), bytes_of(16, "prctl", 16, BUFFER, 0, 0, 0)),
    "signal of the parent's end": (calling("prctl", 1, 15, 0, 0, 0), told(2)),
    "dumpable": (calling("prctl", 4, 0, 0, 0, 0), option(3)),
    "kept capabilities": (calling("prctl", 8, 1, 0, 0, 0), option(27)),
    "timer slack": (calling("prctl", 29, 777, 0, 0, 0), option(30)),
    "subreaper": (calling("prctl", 36, 1, 0, 0, 0), told(37)),
    "no new privileges": (calling("prctl", 38, 1, 0, 0, 0), option(39)),
    "no huge pages": (calling("prctl", 41, 1, 0, 0, 0), option(42)),
    "memory errors": (calling("prctl", 33, 1, 1, 0, 0), option(34)),
    "tagged addresses": (calling("prctl", 55, 1, 0, 0, 0), option(56)),
    "word of the thread": (calling("set_tid_address", 0x1234), bytes_of(8, "prctl", 40, BUFFER, 0, 0, 0)),
    "policy": (calling("sched_setscheduler", 0, 3, bytes(4)), calling("sched_getscheduler", 0)),
    "nice value": (calling("setpriority", 0, 0, 7), calling("getpriority", 0, 0)),
    "priority of disks": (calling("ioprio_set", 1, 0, 3 << 13), calling("ioprio_get", 1, 0)),
    "limit": (
        calling("setrlimit", 1, struct.pack("<2Q", 5, 6)),
        bytes_of(16, "getrlimit", 1, BUFFER),
    ),
    "limit of processor time": (
        calling("setrlimit", 0, struct.pack("<2Q", 5, 6)),
        lambda guest: guest.process.due,
    ),
    "memory policy": (
        calling("set_mempolicy", 2, struct.pack("<Q", 1), 64),
        bytes_of(4, "get_mempolicy", BUFFER, 0, 0, 0, 0),
    ),
    "score": (
        lambda guest: guest.put("/proc/self/oom_score_adj", b"5"),
        lambda guest: guest.contents("/proc/self/oom_score_adj"),
    ),
    "what is dumped": (
        lambda guest: guest.put("/proc/self/coredump_filter", b"1"),
        lambda guest: guest.contents("/proc/self/coredump_filter"),
    ),
    "tracing": (
        calling("ptrace", 0, 0, 0, 0),
        lambda guest: b"TracerPid:\t1" in guest.contents("/proc/self/status"),
    ),
    "personality": (calling("personality", 0x40000), calling("personality", 0xFFFFFFFF)),
    "filters": (allow_all, option(21)),
    "barriers": (calling("membarrier", 16, 0, 0), calling("membarrier", 8, 0, 0)),
}
every_state = pytest.mark.parametrize("name", STATES)


@every_state
def test_snapshots_have_it(name: str, tmp_path: Path) -> None:
    change, read = STATES[name]
    guest = Guest(tmp_path)
    first = read(guest)
    before = guest.process.snapshot()
    assert change(guest) >= 0
    second = read(guest)
    assert second != first == read(Guest(tmp_path))
    after = guest.process.snapshot()
    for snapshot, expected in ((before, first), (after, second), (before, first)):
        guest.process.restore(snapshot)
        assert read(guest) == expected


class Lane(Guest):
    """A lane that begins as another guest is."""

    def __init__(self, origin: Guest) -> None:
        self.memory, self.state, self.retired = Memory(), State(), 0
        self.memory.restore(origin.memory.snapshot())
        snapshot = origin.process.snapshot()
        self.process = LaneProcess(origin.process, self.memory, self.state, snapshot)  # type: ignore[assignment]


@every_state
def test_lanes_do_not_share_it(name: str, tmp_path: Path) -> None:
    change, read = STATES[name]
    origin = Guest(tmp_path)
    one, other = Lane(origin), Lane(origin)
    first = read(one)
    assert change(one) >= 0
    assert read(one) != first == read(other) == read(origin)


NOT_SAVED = (
    {"files", "random", "stdout", "stderr", "streams", "features"},
    {"kernel", "task", "memory", "pid", "program", "cwd", "descriptors", "mapped", "_trace_from", "lent"},
    {"state", "tid"},
)
"""What a snapshot has in a form of its own, or what is the machine's and never changes."""


def test_no_attribute_of_kernel_process_and_task_is_forgotten(tmp_path: Path) -> None:
    process = Guest(tmp_path).process
    for part, known in zip((process.kernel, process, process.task), NOT_SAVED, strict=True):
        saved = (*part.SAVED, *part.LINKED)
        assert sorted(vars(part)) == sorted((*saved, *known))
