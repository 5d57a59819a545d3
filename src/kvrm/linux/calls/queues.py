"""System V message queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.ipc import READ, WRITE, Permissions
from kvrm.linux.layout import BILLION, MSQID, SIGNED
from kvrm.linux.sysv import QUEUE_ROOM, Letter, Queue
from kvrm.linux.waiting import wait_for_ever

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_LARGEST: Final = 8192


def msgget(process: Process, key: int, flags: int) -> int:
    """The message queue with a key, or a new one."""

    def make(permissions: Permissions) -> Queue:
        return Queue(permissions, changed=process.kernel.realtime // BILLION)

    return process.kernel.ipc.queues.get(process, key, flags, make, lambda known: True)


def msgsnd(process: Process, number: int, message: int, size: int, flags: int) -> int:
    """Put a message into a queue."""
    kind = SIGNED.unpack(process.memory.read(message, SIGNED.size))[0]
    if size > _LARGEST or number < 0 or kind < 1:
        raise Failure(Errno.EINVAL)
    text = process.memory.read(message + SIGNED.size, size)
    queue = process.kernel.ipc.queues.find(number)
    queue.permissions.require(process, WRITE)
    if queue.size + size > queue.room or len(queue.letters) >= queue.room:
        if not flags & abi.IPC_NOWAIT:
            wait_for_ever(process, "it sends to a full message queue that nothing else receives from")
        raise Failure(Errno.EAGAIN)
    queue.letters.append(Letter(kind, text))
    queue.sender, queue.sent = process.pid, process.kernel.realtime // BILLION
    return 0


def msgrcv(process: Process, number: int, message: int, size: int, kind: int, flags: int) -> int:
    """Take a message of some type out of a queue, or look at the one with a place in it."""
    if number < 0 or size >> 63:
        raise Failure(Errno.EINVAL)
    copies = bool(flags & abi.MSG_COPY)
    if copies and (flags & abi.MSG_EXCEPT or not flags & abi.IPC_NOWAIT):
        raise Failure(Errno.EINVAL)
    queue = process.kernel.ipc.queues.find(number)
    queue.permissions.require(process, READ)
    found = _choose(queue.letters, kind, flags)
    if found is None:
        if not flags & abi.IPC_NOWAIT:
            wait_for_ever(process, "it receives from a message queue that nothing else sends to")
        raise Failure(Errno.ENOMSG)
    if len(found.text) > size and not flags & abi.MSG_NOERROR:
        raise Failure(Errno.E2BIG)
    if not copies:
        queue.letters.remove(found)
        queue.receiver, queue.received = process.pid, process.kernel.realtime // BILLION
    text = found.text[:size]
    process.memory.write(message, SIGNED.pack(found.kind) + text)
    return len(text)


def _choose(letters: list[Letter], kind: int, flags: int) -> Letter | None:
    """The message that is asked for."""
    if flags & abi.MSG_COPY:
        return letters[kind] if 0 <= kind < len(letters) else None
    if kind < 0:
        return min(
            (letter for letter in letters if letter.kind <= -kind),
            key=lambda letter: letter.kind,
            default=None,
        )
    wanted = (
        letter for letter in letters if not kind or (letter.kind == kind) != bool(flags & abi.MSG_EXCEPT)
    )
    return next(wanted, None)


def msgctl(process: Process, number: int, command: int, pointer: int) -> int:
    """Look at a message queue, set or remove it."""
    if number < 0 or command < 0:
        raise Failure(Errno.EINVAL)
    queues = process.kernel.ipc.queues
    queue = queues.find(number)
    match command:
        case abi.IPC_STAT:
            queue.permissions.require(process, READ)
            process.memory.write(pointer, queue.packed())
        case abi.IPC_SET:
            data = process.memory.read(pointer, len(queue.packed()))
            room = MSQID.unpack_from(data, len(data) - MSQID.size)[5]
            permissions = queue.permissions.changed(process, data)
            if room > QUEUE_ROOM:
                raise Failure(Errno.EPERM)
            queue.permissions, queue.room = permissions, room
            queue.changed = process.kernel.realtime // BILLION
        case abi.IPC_RMID:
            queue.permissions.require_owner(process)
            queues.remove(number)
        case _:
            raise Failure(Errno.EINVAL)
    return 0
