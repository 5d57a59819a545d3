"""Scheduling: the process gets back what it has set, and runs alone on its one processor all the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import Struct
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import DOUBLEWORD, INT, WORD, timespec
from kvrm.memory import PAGE

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_POLICIES: Final = frozenset(
    {abi.SCHED_OTHER, abi.SCHED_FIFO, abi.SCHED_RR, abi.SCHED_BATCH, abi.SCHED_IDLE, abi.SCHED_DEADLINE}
)
_REAL_TIME: Final = (abi.SCHED_FIFO, abi.SCHED_RR)
_HIGHEST: Final = 99
_SLICE: Final = 4_000_000
_ATTRIBUTES: Final = Struct("<IIQiIQQQII")
_OLD_ATTRIBUTES: Final = 48
"""Bytes of the first struct sched_attr, which has no utilization bounds."""
_MASK_BYTES: Final = 8
_LEVELS: Final = 8


@dataclass(frozen=True, slots=True)
class Scheduling:
    """What the process has set: policy, priority and nice value of the processor's time, and of disks'."""

    policy: int = abi.SCHED_OTHER
    nice: int = 0
    resets_on_fork: bool = False
    io_priority: int = 0


def require_process(process: Process, pid: int, change: bool = False) -> None:
    """ESRCH unless there is a process of this number, or 0; EPERM if it is to `change` and is another one."""
    if pid not in (0, process.pid, abi.INIT):
        raise Failure(Errno.ESRCH)
    if change and pid == abi.INIT:
        raise Failure(Errno.EPERM)


def sched_get_priority_max(process: Process, policy: int) -> int:
    """The highest priority of a policy."""
    return _bound(policy, _HIGHEST)


def sched_get_priority_min(process: Process, policy: int) -> int:
    """The lowest priority of a policy."""
    return _bound(policy, 1)


def _bound(policy: int, bound: int) -> int:
    if policy not in _POLICIES:
        raise Failure(Errno.EINVAL)
    return bound if policy in _REAL_TIME else 0


def sched_getscheduler(process: Process, pid: int) -> int:
    """The policy."""
    _require_pid(pid)
    scheduling = _of(process, pid)
    return scheduling.policy | (abi.SCHED_RESET_ON_FORK if scheduling.resets_on_fork else 0)


def sched_setscheduler(process: Process, pid: int, policy: int, pointer: int) -> int:
    """Set the policy: one of those of ordinary processes."""
    if policy < 0:
        raise Failure(Errno.EINVAL)
    return _set_parameters(process, pid, policy, pointer)


def sched_setparam(process: Process, pid: int, pointer: int) -> int:
    """Set the priority, which is 0 without a real-time policy."""
    return _set_parameters(process, pid, None, pointer)


def _set_parameters(process: Process, pid: int, policy: int | None, pointer: int) -> int:
    _require_pid(pid, pointer)
    priority = INT.unpack(process.memory.read(pointer, INT.size))[0]
    before = _of(process, pid)
    resets = before.resets_on_fork if policy is None else bool(policy & abi.SCHED_RESET_ON_FORK)
    chosen = before.policy if policy is None else policy & ~abi.SCHED_RESET_ON_FORK
    _set(process, pid, replace(before, policy=chosen, resets_on_fork=resets), priority)
    return 0


def _set(process: Process, pid: int, wanted: Scheduling, priority: int) -> None:
    """What an ordinary user may set (`__sched_setscheduler` of Linux)."""
    before = _of(process, pid)
    if wanted.policy not in _POLICIES or wanted.policy == abi.SCHED_DEADLINE:
        raise Failure(Errno.EINVAL)
    if not 0 <= priority <= _HIGHEST or (wanted.policy in _REAL_TIME) != (priority != 0):
        raise Failure(Errno.EINVAL)
    leaves_idle = before.policy == abi.SCHED_IDLE != wanted.policy
    if (
        wanted.policy in _REAL_TIME
        or (wanted.nice < before.nice and not _may_be_nice(process, wanted.nice))
        or (leaves_idle and not _may_be_nice(process, before.nice))
        or (before.resets_on_fork and not wanted.resets_on_fork)
    ):
        raise Failure(Errno.EPERM)
    require_process(process, pid, change=True)
    process.task.scheduling = wanted


def sched_getparam(process: Process, pid: int, pointer: int) -> int:
    """The priority: 0 without a real-time policy."""
    _require_pid(pid, pointer)
    require_process(process, pid)
    process.memory.write(pointer, INT.pack(0))
    return 0


def sched_rr_get_interval(process: Process, pid: int, pointer: int) -> int:
    """The time slice: 4 ms."""
    _require_pid(pid)
    require_process(process, pid)
    process.memory.write(pointer, timespec(_SLICE))
    return 0


def sched_getattr(process: Process, pid: int, pointer: int, size: int, flags: int) -> int:
    """Policy and nice value."""
    if not pointer or pid < 0 or not _OLD_ATTRIBUTES <= size <= PAGE or flags:
        raise Failure(Errno.EINVAL)
    scheduling = _of(process, pid)
    size = min(size, _ATTRIBUTES.size)
    resets = abi.SCHED_FLAG_RESET_ON_FORK if scheduling.resets_on_fork else 0
    packed = _ATTRIBUTES.pack(size, scheduling.policy, resets, scheduling.nice, 0, 0, 0, 0, 0, 0)
    process.memory.write(pointer, packed[:size])
    return 0


def sched_setattr(process: Process, pid: int, pointer: int, flags: int) -> int:
    """Set policy and nice value."""
    if not pointer or pid < 0 or flags:
        raise Failure(Errno.EINVAL)
    size = WORD.unpack(process.memory.read(pointer, WORD.size))[0] or _OLD_ATTRIBUTES
    data = process.memory.read(pointer, size) if _OLD_ATTRIBUTES <= size <= PAGE else b""
    if not data or any(data[_ATTRIBUTES.size :]):
        process.memory.write(pointer, WORD.pack(_ATTRIBUTES.size))
        raise Failure(Errno.E2BIG)
    fields = _ATTRIBUTES.unpack(data[: _ATTRIBUTES.size].ljust(_ATTRIBUTES.size, b"\0"))
    _, policy, options, nice, priority, *_ = fields
    before = _of(process, pid)
    if policy >> 31 or options & ~abi.SCHED_FLAG_ALL:
        raise Failure(Errno.EINVAL)
    if options & abi.SCHED_FLAG_UTIL_CLAMP:
        raise Failure(Errno.EOPNOTSUPP)
    resets = bool(options & abi.SCHED_FLAG_RESET_ON_FORK)
    if options & abi.SCHED_FLAG_KEEP_POLICY:
        policy, resets = before.policy, before.resets_on_fork
    if options & abi.SCHED_FLAG_KEEP_PARAMS:
        nice, priority = before.nice, 0
    nice = before.nice if policy in _REAL_TIME else max(-20, min(nice, 19))
    wanted = Scheduling(policy, nice, resets, before.io_priority)
    _set(process, pid, wanted, priority)
    return 0


def sched_getaffinity(process: Process, pid: int, size: int, mask: int) -> int:
    """One processor."""
    if not size or size % _MASK_BYTES:
        raise Failure(Errno.EINVAL)
    require_process(process, pid)
    process.memory.write(mask, DOUBLEWORD.pack(1))
    return _MASK_BYTES


def sched_setaffinity(process: Process, pid: int, size: int, mask: int) -> int:
    """Run on the one processor."""
    wanted = process.memory.read(mask, min(size, _MASK_BYTES))
    require_process(process, pid, change=True)
    if not wanted[:1] or not wanted[0] & 1:
        raise Failure(Errno.EINVAL)
    return 0


def getcpu(process: Process, cpu: int, node: int, cache: int) -> int:
    """Processor 0."""
    for pointer in (cpu, node):
        if pointer:
            process.memory.write(pointer, WORD.pack(0))
    return 0


# Nice values, and priorities of input and output


def getpriority(process: Process, which: int, who: int) -> int:
    """20 less the nice value."""
    _require_who(process, which, who, abi.PRIO_PROCESS)
    return 20 - _of(process, who if which == abi.PRIO_PROCESS else 0).nice


def setpriority(process: Process, which: int, who: int, nice: int) -> int:
    """Set the nice value; without RLIMIT_NICE it can only become larger."""
    _require_who(process, which, who, abi.PRIO_PROCESS)
    if which != abi.PRIO_USER:
        require_process(process, who, change=True)
    nice = max(-20, min(nice, 19))
    if nice < process.task.scheduling.nice and not _may_be_nice(process, nice):
        raise Failure(Errno.EACCES)
    process.task.scheduling = replace(process.task.scheduling, nice=nice)
    return 0


def ioprio_get(process: Process, which: int, who: int) -> int:
    """The priority of input and output."""
    _require_who(process, which, who, abi.IOPRIO_WHO_PROCESS)
    return process.task.scheduling.io_priority


def ioprio_set(process: Process, which: int, who: int, priority: int) -> int:
    """Set the priority of input and output."""
    kind, level = priority >> 13, priority & (1 << 13) - 1
    if kind == abi.IOPRIO_CLASS_RT:
        raise Failure(Errno.EPERM)
    if kind > abi.IOPRIO_CLASS_IDLE or kind < 0 or level >= (_LEVELS if kind == abi.IOPRIO_CLASS_BE else 1):
        raise Failure(Errno.EINVAL)
    _require_who(process, which, who, abi.IOPRIO_WHO_PROCESS)
    if which != abi.IOPRIO_WHO_USER:
        require_process(process, who, change=True)
    process.task.scheduling = replace(process.task.scheduling, io_priority=priority)
    return 0


def _require_who(process: Process, which: int, who: int, first: int) -> None:
    """EINVAL unless `which` is a process (`first`), a group or a user; ESRCH if there is no `who`."""
    if not first <= which <= first + 2:
        raise Failure(Errno.EINVAL)
    if which < first + 2:
        require_process(process, who)
    elif who not in (0, process.credentials.uid):
        raise Failure(Errno.ESRCH)


def _may_be_nice(process: Process, nice: int) -> bool:
    return 20 - nice <= process.limit(abi.RLIMIT_NICE)[0]


def _require_pid(pid: int, pointer: int = 1) -> None:
    if pid < 0 or not pointer:
        raise Failure(Errno.EINVAL)


def _of(process: Process, pid: int) -> Scheduling:
    require_process(process, pid)
    return Scheduling() if pid == abi.INIT else process.task.scheduling
