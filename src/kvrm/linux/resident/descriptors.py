"""The staged system calls on descriptors, and what open files these refer to."""

from __future__ import annotations

from kvrm.linux import abi
from kvrm.linux.errno import Errno
from kvrm.linux.resident.asking import answer, answer_to
from kvrm.linux.resident.lane_view import U32, Lane
from kvrm.linux.resident.layout import DESCRIPTORS, FLAGS, KINDS, LEAVE, Answer, Ask, Fixed, Stream, Word
from kvrm.staging.host import below, load

CHANGES = abi.O_CREAT | abi.O_TRUNC
"""Flags of open that change files."""
INDIFFERENT = abi.O_LARGEFILE | abi.O_CLOEXEC | abi.O_NOCTTY
"""Flags that make no difference to what is opened."""


def open_file(lane: Lane, fd: int) -> int:
    """The number of the open file that a descriptor below DESCRIPTORS refers to; 0 if there is none."""
    return lane.word(Word.DESCRIPTOR + fd) & U32


def kind_of(lane: Lane, fd: int) -> int:
    """What that is: a `Stream`."""
    opened = lane.word(Word.OPENED + open_file(lane, fd)) & U32
    if opened:
        return load(answer(lane, opened) + 8 * Answer.KIND)
    return lane.fixed(KINDS + open_file(lane, fd))


def stream(lane: Lane, fd: int) -> int:
    """The same of any descriptor; -EBADF if it is none, and those that are not known are for the CPU."""
    if not below(fd, DESCRIPTORS):
        return LEAVE if lane.fixed(Fixed.BEYOND) else -Errno.EBADF
    kind = kind_of(lane, fd)
    if kind == Stream.OTHER:
        return LEAVE
    return -Errno.EBADF if kind == Stream.NONE else kind


def answer_of(lane: Lane, file: int) -> int:
    """The address of the answer that an open file was made by, number 0 if there is none.

    0 if the file has become too large since.
    """
    found = answer(lane, lane.word(Word.OPENED + file) & U32)
    return 0 if load(found + 8 * Answer.RESULT) else found


def openat(lane: Lane, directory: int, path: int, flags: int, mode: int) -> int:
    """Open a file for reading, or fail to open one."""
    if flags & CHANGES or flags & abi.O_ACCMODE == abi.O_ACCMODE or not lane.fixed(Fixed.MAY_OPEN):
        return LEAVE
    if (number := answer_to(lane, (flags & ~INDIFFERENT) << 32 | Ask.OPEN, directory, path)) < 0:
        return number
    used = 1
    for fd in range(DESCRIPTORS):
        used |= 1 << open_file(lane, fd)
    file = 0
    while used >> file & 1:
        file += 1
    fd = refer(lane, 0, file, flags & abi.O_CLOEXEC)
    if fd >= 0:
        kept = flags & ~(abi.O_NOCTTY | abi.O_EXCL | abi.O_CLOEXEC) | abi.O_LARGEFILE
        lane.put(Word.OPENED + file, number | kept << 32)
        lane.put(Word.OFFSET + file, 0)
    return fd


def refer(lane: Lane, least: int, file: int, cloexec: int) -> int:
    """The lowest descriptor from `least` on that is free, which then refers to the open file."""
    if not lane.fixed(Fixed.MAY_OPEN) or not below(least, DESCRIPTORS):
        return LEAVE
    for fd in range(least, DESCRIPTORS):
        if open_file(lane, fd) == 0:
            return set_descriptor(lane, fd, file, cloexec)
    return LEAVE


def set_descriptor(lane: Lane, fd: int, file: int, cloexec: int) -> int:
    """Have a descriptor refer to an open file; the descriptor."""
    lane.put(Word.DESCRIPTOR + fd, file | (1 if cloexec else 0) << 32)
    return fd


def dup(lane: Lane, fd: int) -> int:
    """Another descriptor of the same open file."""
    kind = stream(lane, fd)
    return kind if kind < 0 else refer(lane, 0, open_file(lane, fd), 0)


def dup3(lane: Lane, old: int, new: int, flags: int) -> int:
    """Make a descriptor one of another's open file."""
    if flags & ~abi.O_CLOEXEC or old == new:
        return -Errno.EINVAL
    if not lane.fixed(Fixed.MAY_OPEN) or not below(new, DESCRIPTORS):
        return LEAVE
    if (kind := stream(lane, old)) < 0:
        return kind
    if kind_of(lane, new) == Stream.OTHER:
        return LEAVE
    return set_descriptor(lane, new, open_file(lane, old), flags & abi.O_CLOEXEC)


def close(lane: Lane, fd: int) -> int:
    """Close a descriptor."""
    if (kind := stream(lane, fd)) < 0:
        return kind
    lane.put(Word.DESCRIPTOR + fd, 0)
    return 0


def fcntl(lane: Lane, fd: int, command: int, argument: int) -> int:
    """Duplicate a descriptor; its flags, and the status flags as they are."""
    if (kind := stream(lane, fd)) < 0:
        return kind
    file = open_file(lane, fd)
    if answer_of(lane, file) == 0:
        return LEAVE
    if command == abi.F_GETFD:
        return lane.word(Word.DESCRIPTOR + fd) >> 32
    if command == abi.F_GETFL:
        return lane.word(Word.OPENED + file) >> 32 & U32 if kind < Stream.INPUT else lane.fixed(FLAGS + file)
    if command == abi.F_SETFD:
        set_descriptor(lane, fd, file, argument & abi.FD_CLOEXEC)
        return 0
    if command not in (abi.F_DUPFD, abi.F_DUPFD_CLOEXEC):
        return LEAVE
    return refer(lane, argument, file, command == abi.F_DUPFD_CLOEXEC)


def ioctl(lane: Lane, fd: int, request: int, argument: int) -> int:
    """No file is a terminal."""
    if (kind := stream(lane, fd)) < 0:
        return kind
    if kind == Stream.RANDOM or request in (abi.FIOCLEX, abi.FIONCLEX, abi.FIONBIO, abi.FIONREAD):
        return LEAVE
    return -Errno.ENOTTY
