"""System V semaphores. Nothing but the process changes them: a wait ends by its time limit or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.ipc import READ, WRITE, Permissions
from kvrm.linux.layout import BILLION, HALFWORD, SEMBUF
from kvrm.linux.sysv import SemaphoreSet
from kvrm.linux.waiting import wait_until

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_MOST: Final = 32767
"""What a semaphore can count to."""
_IN_SET: Final = 32000
_IN_ALL: Final = 1 << 20
_OPERATIONS: Final = 500
_ONE: Final = (abi.GETVAL, abi.GETPID, abi.GETNCNT, abi.GETZCNT, abi.SETVAL)
"""Commands on one semaphore of a set."""


def semget(process: Process, key: int, count: int, flags: int) -> int:
    """The set of semaphores with a key, or a new one."""
    if not 0 <= count <= _IN_SET:
        raise Failure(Errno.EINVAL)

    sets = process.kernel.ipc.semaphores

    def make(permissions: Permissions) -> SemaphoreSet:
        if not count:
            raise Failure(Errno.EINVAL)
        if sum(len(known.values) for known in sets.objects.values()) + count > _IN_ALL:
            raise Failure(Errno.ENOSPC)
        return SemaphoreSet(permissions, [0] * count, [0] * count, changed=process.kernel.realtime // BILLION)

    return sets.get(process, key, flags, make, lambda known: count <= len(known.values))


def semop(process: Process, number: int, operations: int, count: int) -> int:
    """Change several semaphores of a set at once, as soon as all of it is possible."""
    return semtimedop(process, number, operations, count, 0)


def semtimedop(process: Process, number: int, operations: int, count: int, timeout: int) -> int:
    """Change several semaphores of a set at once, as soon as all of it is possible, with a time limit."""
    limit = process.timespec(timeout) if timeout else None
    if not count or number < 0:
        raise Failure(Errno.EINVAL)
    if count > _OPERATIONS:
        raise Failure(Errno.E2BIG)
    asked = list(SEMBUF.iter_unpack(process.memory.read(operations, count * SEMBUF.size)))
    known = process.kernel.ipc.semaphores.find(number)
    if max(nth for nth, _, _ in asked) >= len(known.values):
        raise Failure(Errno.EFBIG)
    known.permissions.require(process, WRITE if any(change != 0 for _, change, _ in asked) else READ)
    values = known.values.copy()
    for nth, change, flags in asked:
        values[nth] += change
        if values[nth] < 0 or (change == 0 and values[nth]):
            if not flags & abi.IPC_NOWAIT:
                deadline = None if limit is None else process.kernel.uptime + limit
                wait_until(process, deadline, "a semaphore that nothing else changes")
            raise Failure(Errno.EAGAIN)
        if values[nth] > _MOST:
            raise Failure(Errno.ERANGE)
    for nth, _, _ in asked:
        known.pids[nth] = process.pid
    known.values, known.operated = values, process.kernel.realtime // BILLION
    return 0


def semctl(process: Process, number: int, nth: int, command: int, argument: int) -> int:
    """Look at a set of semaphores, set or remove it."""
    if number < 0:
        raise Failure(Errno.EINVAL)
    value = (argument & 0xFFFFFFFF) - (argument >> 31 & 1) * (1 << 32)
    if command == abi.SETVAL and not 0 <= value <= _MOST:
        raise Failure(Errno.ERANGE)
    known = process.kernel.ipc.semaphores.find(number)
    if command in _ONE and not 0 <= nth < len(known.values):
        raise Failure(Errno.EINVAL)
    match command:
        case abi.IPC_RMID:
            known.permissions.require_owner(process)
            process.kernel.ipc.semaphores.remove(number)
        case abi.IPC_SET:
            data = process.memory.read(argument, len(known.packed()))
            known.permissions = known.permissions.changed(process, data)
            known.changed = process.kernel.realtime // BILLION
        case abi.IPC_STAT:
            known.permissions.require(process, READ)
            process.memory.write(argument, known.packed())
        case abi.SETVAL | abi.SETALL:
            known.permissions.require(process, WRITE)
            _set(process, known, nth, value if command == abi.SETVAL else None, argument)
        case abi.GETALL:
            known.permissions.require(process, READ)
            process.memory.write(argument, b"".join(map(HALFWORD.pack, known.values)))
        case abi.GETVAL | abi.GETPID | abi.GETNCNT | abi.GETZCNT:
            known.permissions.require(process, READ)
            return {abi.GETVAL: known.values[nth], abi.GETPID: known.pids[nth]}.get(command, 0)
        case _:
            raise Failure(Errno.EINVAL)
    return 0


def _set(process: Process, known: SemaphoreSet, nth: int, value: int | None, pointer: int) -> None:
    """Set one semaphore, or all from an array."""
    if value is None:
        data = process.memory.read(pointer, len(known.values) * HALFWORD.size)
        values = [number for (number,) in HALFWORD.iter_unpack(data)]
        if min(values) < 0:
            raise Failure(Errno.ERANGE)
        known.values = values
        known.pids = [process.pid] * len(values)
    else:
        known.values[nth], known.pids[nth] = value, process.pid
    known.changed = process.kernel.realtime // BILLION
