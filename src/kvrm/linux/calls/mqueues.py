"""POSIX message queues. Nothing but the process uses them: a wait ends by its time limit or not at all."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final, NoReturn

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.mounts import QUEUES
from kvrm.linux.files.mqueue import Letter, MessageQueue, Notice, QueueFile, room_of
from kvrm.linux.files.nodes import Special
from kvrm.linux.layout import MQ_ATTR, SIGEVENT, WORD
from kvrm.linux.waiting import wait_until

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_DEFAULT_MOST, _DEFAULT_SIZE = 10, 8192
_HARD_MOST, _HARD_SIZE = 65536, 1 << 24
"""What a privileged process may ask for."""
_PRIORITIES: Final = 32768
_STATUS_SIZE: Final = 80
"""What fstat says of every queue."""
_OPEN: Final = abi.O_ACCMODE | abi.O_NONBLOCK
_WANTED: Final = (abi.R_OK, abi.W_OK, abi.R_OK | abi.W_OK)


def mq_open(process: Process, name: int, flags: int, mode: int, attributes: int) -> int:
    """Open or make a message queue."""
    asked = MQ_ATTR.unpack(process.memory.read(attributes, MQ_ATTR.size)) if attributes else None
    text = _name(process, name)
    known = process.kernel.mqueues.find(text)
    if known is None and not flags & abi.O_CREAT:
        raise Failure(Errno.ENOENT)
    if known is not None and flags & abi.O_CREAT and flags & abi.O_EXCL:
        raise Failure(Errno.EEXIST)
    access = flags & abi.O_ACCMODE
    if access == abi.O_ACCMODE:
        raise Failure(Errno.EINVAL)
    if known is None:
        known = _new(process, asked[1:3] if asked else (_DEFAULT_MOST, _DEFAULT_SIZE), mode)
        process.kernel.mqueues.add(text, known)
    else:
        process.credentials.require(known.node, _WANTED[access])
    return process.open(QueueFile(flags & _OPEN, text, known), cloexec=True)


def mq_unlink(process: Process, name: int) -> int:
    """Remove the name of a message queue."""
    process.kernel.mqueues.remove(_name(process, name))
    return 0


def mq_timedsend(process: Process, fd: int, message: int, size: int, priority: int, timeout: int) -> int:
    """Put a message into a queue."""
    limit = process.timespec(timeout) if timeout else None
    if priority >= _PRIORITIES:
        raise Failure(Errno.EINVAL)
    file = _queue(process, fd)
    if not file.writable:
        raise Failure(Errno.EBADF)
    queue = file.contents
    if size > queue.size:
        raise Failure(Errno.EMSGSIZE)
    text = process.memory.read(message, size)
    if len(queue.letters) >= queue.most:
        _wait(process, file, limit, "it sends to a full message queue that nothing else receives from")
    queue.put(process, Letter(priority, text))
    return 0


def mq_timedreceive(process: Process, fd: int, message: int, size: int, priority: int, timeout: int) -> int:
    """Take the most urgent message out of a queue."""
    limit = process.timespec(timeout) if timeout else None
    file = _queue(process, fd)
    if not file.readable:
        raise Failure(Errno.EBADF)
    queue = file.contents
    if size < queue.size:
        raise Failure(Errno.EMSGSIZE)
    if not queue.letters:
        _wait(process, file, limit, "it receives from a message queue that nothing else sends to")
    letter = queue.take()
    if priority:
        process.memory.write(priority, WORD.pack(letter.priority))
    process.memory.write(message, letter.text)
    return len(letter.text)


def mq_notify(process: Process, fd: int, event: int) -> int:
    """Have a signal sent when a message comes into an empty queue."""
    data = process.memory.read(event, SIGEVENT.size) if event else bytes(SIGEVENT.size)
    value, signal, notify, _ = SIGEVENT.unpack(data)
    if notify not in (abi.SIGEV_SIGNAL, abi.SIGEV_NONE) or not 0 <= signal <= abi.NSIG:
        raise Failure(Errno.EINVAL)
    file = _queue(process, fd)
    queue = file.contents
    if event and queue.notice is not None:
        raise Failure(Errno.EBUSY)
    queue.notice = Notice(file, 0 if notify == abi.SIGEV_NONE else signal, value) if event else None
    return 0


def mq_getsetattr(process: Process, fd: int, new: int, old: int) -> int:
    """What a queue holds at most, and whether its descriptor waits."""
    flags = MQ_ATTR.unpack(process.memory.read(new, MQ_ATTR.size))[0] if new else 0
    if flags & ~abi.O_NONBLOCK:
        raise Failure(Errno.EINVAL)
    file = _queue(process, fd)
    queue, before = file.contents, file.flags & abi.O_NONBLOCK
    if new:
        file.flags = file.flags & ~abi.O_NONBLOCK | flags
    if old:
        process.memory.write(old, MQ_ATTR.pack(before, queue.most, queue.size, len(queue.letters)))
    return 0


def _name(process: Process, pointer: int) -> bytes:
    name = process.path(pointer)
    if not name:
        raise Failure(Errno.ENOENT)
    if len(name) > abi.NAME_MAX:
        raise Failure(Errno.ENAMETOOLONG)
    if b"/" in name or name in (b".", b".."):
        raise Failure(Errno.EACCES)
    return name


def _new(process: Process, asked: tuple[int, int], mode: int) -> MessageQueue:
    most, size = asked
    privileged = process.credentials.uid == 0
    largest = (_HARD_MOST, _HARD_SIZE) if privileged else (_DEFAULT_MOST, _DEFAULT_SIZE)
    if not 0 < most <= largest[0] or not 0 < size <= largest[1]:
        raise Failure(Errno.EINVAL)
    if process.kernel.mqueues.size + room_of(most, size) > process.limit(abi.RLIMIT_MSGQUEUE)[0]:
        raise Failure(Errno.EMFILE)
    mode = stat.S_IFREG | mode & 0o7777 & ~process.umask
    status = process.kernel.files.status(mode, QUEUES, size=_STATUS_SIZE)
    return MessageQueue(Special(status), most, size)


def _queue(process: Process, fd: int) -> QueueFile:
    file = process.file(fd)
    if not isinstance(file, QueueFile):
        raise Failure(Errno.EBADF)
    return file


def _wait(process: Process, file: QueueFile, limit: int | None, reason: str) -> NoReturn:
    """EAGAIN, or ETIMEDOUT once a time of the real-time clock has come; the run ends if there is none."""
    if file.flags & abi.O_NONBLOCK:
        raise Failure(Errno.EAGAIN)
    kernel = process.kernel
    wait_until(process, None if limit is None else kernel.uptime + limit - kernel.realtime, reason)
    raise Failure(Errno.ETIMEDOUT)
