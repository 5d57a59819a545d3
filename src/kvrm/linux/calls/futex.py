"""Futexes of a process whose only thread nothing else can wake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import DOUBLEWORD, WORD
from kvrm.linux.waiting import wait_until

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_ROBUST_HEAD: Final = 24
_FLAGS: Final = abi.FUTEX_PRIVATE | abi.FUTEX_CLOCK_REALTIME
_REAL_TIME: Final = (abi.FUTEX_WAIT_BITSET, abi.FUTEX_WAIT_REQUEUE_PI, abi.FUTEX_LOCK_PI2)
"""Commands that may have FUTEX_CLOCK_REALTIME."""
_WAITS: Final = (abi.FUTEX_WAIT, abi.FUTEX_WAIT_BITSET, abi.FUTEX_WAIT_REQUEUE_PI)
_LOCKS: Final = (abi.FUTEX_LOCK_PI, abi.FUTEX_LOCK_PI2, abi.FUTEX_TRYLOCK_PI)
_REQUEUES: Final = (abi.FUTEX_REQUEUE, abi.FUTEX_CMP_REQUEUE, abi.FUTEX_CMP_REQUEUE_PI)
_OWNER: Final = 0x3FFF_FFFF
_OWNER_DIED: Final = 0x4000_0000
_WAITERS: Final = 0x8000_0000
_COMPARISONS: Final = 6


def futex(
    process: Process, address: int, operation: int, value: int, timeout: int, second: int, third: int
) -> int:
    """Wait on a word: nothing can wake the only thread, so a wait ends by its time limit or not at all."""
    command, private = operation & ~_FLAGS, bool(operation & abi.FUTEX_PRIVATE)
    limited = command in _WAITS or command in (abi.FUTEX_LOCK_PI, abi.FUTEX_LOCK_PI2)
    limit = process.timespec(timeout) if limited and timeout else None
    if operation & abi.FUTEX_CLOCK_REALTIME and command not in _REAL_TIME:
        raise Failure(Errno.ENOSYS)
    if command == abi.FUTEX_WAIT_BITSET and not third:
        raise Failure(Errno.EINVAL)
    if command in _WAITS:
        if command == abi.FUTEX_WAIT_REQUEUE_PI and address == second:
            raise Failure(Errno.EINVAL)
        if _word(process, address) != value:
            raise Failure(Errno.EAGAIN)
        if limit is not None:
            relative, real = command == abi.FUTEX_WAIT, operation & abi.FUTEX_CLOCK_REALTIME
            kernel = process.kernel
            limit += kernel.uptime if relative else kernel.uptime - kernel.realtime if real else 0
        wait_until(process, limit, "a futex that no other thread can wake")
        raise Failure(Errno.ETIMEDOUT)
    if command in _REQUEUES:
        _requeue(process, command, private, address, value, timeout, second, third)
    elif command == abi.FUTEX_WAKE_OP:
        _require(process, address, private)
        _operate(process, second, third)
    elif command in _LOCKS:
        _lock(process, address)
    elif command == abi.FUTEX_UNLOCK_PI:
        if _word(process, address) & _OWNER != process.task.tid:
            raise Failure(Errno.EPERM)
        process.memory.write(address, WORD.pack(0))
    else:
        raise Failure(Errno.ENOSYS)
    return 0


def get_robust_list(process: Process, pid: int, head: int, length: int) -> int:
    """List of locks to release at the end."""
    if pid not in (0, process.task.tid):
        raise Failure(Errno.ESRCH)
    process.memory.write(length, DOUBLEWORD.pack(_ROBUST_HEAD))
    process.memory.write(head, DOUBLEWORD.pack(process.task.robust_list))
    return 0


def _word(process: Process, address: int) -> int:
    if address % 4:
        raise Failure(Errno.EINVAL)
    return int(WORD.unpack(process.memory.read(address, 4))[0])


def _require(process: Process, address: int, private: bool) -> None:
    """Whether a word can be a futex: one that processes share must be in memory."""
    if address % 4:
        raise Failure(Errno.EINVAL)
    if not private:
        process.memory.read(address, 4)


def _requeue(
    process: Process, command: int, private: bool, address: int, wake: int, move: int, second: int, third: int
) -> None:
    priority = command == abi.FUTEX_CMP_REQUEUE_PI
    if (wake | move) >> 31 & 1 or (priority and (wake != 1 or address == second)):
        raise Failure(Errno.EINVAL)
    _require(process, address, private)
    _require(process, second, private)
    if command != abi.FUTEX_REQUEUE and _word(process, address) != third:
        raise Failure(Errno.EAGAIN)


def _operate(process: Process, address: int, code: int) -> None:
    """What FUTEX_WAKE_OP does to its second word. The comparison is of no consequence."""
    operand = _signed(code >> 12 & 0xFFF)
    if code >> 31 & 1:
        operand = 1 << (operand & 31)
    old, operation = _word(process, address), code >> 28 & 7
    results = (operand, old + operand, old | operand, old & ~operand, old ^ operand)
    if operation >= len(results):
        raise Failure(Errno.ENOSYS)
    process.memory.write(address, WORD.pack(results[operation] & 0xFFFF_FFFF))
    if code >> 24 & 0xF >= _COMPARISONS:
        raise Failure(Errno.ENOSYS)


def _lock(process: Process, address: int) -> None:
    """Own a lock that has no owner. One that has is marked, before it is seen that no such thread exists."""
    word = _word(process, address)
    owner = word & _OWNER
    if owner == process.task.tid:
        raise Failure(Errno.EDEADLK)
    if owner:
        process.memory.write(address, WORD.pack(word | _WAITERS))
        raise Failure(Errno.ESRCH)
    process.memory.write(address, WORD.pack(word & _OWNER_DIED | process.task.tid))


def _signed(value: int) -> int:
    """A number of 12 bits."""
    return value - (value >> 11 << 12)
