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
CLOEXEC = 31
STATUS_FLAGS = (1 << CLOEXEC) - 1
"""Where what `Lane.descriptor` says has the flag of the descriptor, and those of its open file."""


def open_file(lane: Lane, fd: int) -> int:
    """The number of the open file that a descriptor below DESCRIPTORS refers to; 0 if there is none."""
    return lane.word(Word.DESCRIPTOR + fd) & U32


def kind_of(lane: Lane, file: int) -> int:
    """What an open file is: a `Stream`."""
    opened = lane.word(Word.OPENED + file) & U32
    return load(answer(lane, opened) + 8 * Answer.KIND) if opened else lane.fixed(KINDS + file)


def stream(lane: Lane, fd: int) -> int:
    """What a descriptor refers to; below 0 what a call returns if that is none, or not known here."""
    if (found := descriptor(lane, fd)) < 0:
        return found
    kind = kind_of(lane, found >> 32)
    return kind if kind != Stream.OTHER else LEAVE


def answer_of(lane: Lane, file: int) -> int:
    """The address of the answer that an open file was made by, number 0 if there is none.

    0 if the file has become too large since.
    """
    found = answer(lane, lane.word(Word.OPENED + file) & U32)
    return 0 if load(found + 8 * Answer.RESULT) else found


# -- operations of a lane whose descriptors are words ----------------------------------------------------
def descriptor(lane: Lane, fd: int) -> int:
    """As `Lane.descriptor`."""
    if not below(fd, DESCRIPTORS):
        return LEAVE if lane.fixed(Fixed.BEYOND) else -Errno.EBADF
    file = open_file(lane, fd)
    if kind_of(lane, file) == Stream.NONE:
        return -Errno.EBADF
    opened = lane.word(Word.OPENED + file)
    flags = opened >> 32 & U32 if opened else lane.fixed(FLAGS + file)
    return file << 32 | lane.word(Word.DESCRIPTOR + fd) >> 32 << CLOEXEC | flags


def lowest(lane: Lane, least: int) -> int:
    """As `Lane.lowest`."""
    fd = least
    while below(fd, DESCRIPTORS) and open_file(lane, fd):
        fd += 1
    if not below(fd, lane.fixed(Fixed.DESCRIPTOR_LIMIT)):
        return -Errno.EMFILE
    return fd if below(fd, DESCRIPTORS) else LEAVE


def refer(lane: Lane, fd: int, file: int, cloexec: int) -> int:
    """As `Lane.refer`."""
    if not below(fd, DESCRIPTORS):
        return LEAVE
    before = open_file(lane, fd)
    if before != file and kind_of(lane, before) == Stream.OTHER:
        return LEAVE
    lane.put(Word.DESCRIPTOR + fd, file | (1 if cloexec else 0) << 32)
    return fd


# -- the calls -------------------------------------------------------------------------------------------
def openat(lane: Lane, directory: int, path: int, flags: int, mode: int) -> int:
    """Open a file for reading, or fail to open one."""
    fd = lowest(lane, 0)
    if fd < 0 or flags & CHANGES or flags & abi.O_ACCMODE == abi.O_ACCMODE:
        return LEAVE
    if (number := answer_to(lane, (flags & ~INDIFFERENT) << 32 | Ask.OPEN, directory, path)) < 0:
        return number
    used = 1
    for other in range(DESCRIPTORS):
        used |= 1 << open_file(lane, other)
    file = 0
    while used >> file & 1:
        file += 1
    kept = flags & ~(abi.O_NOCTTY | abi.O_EXCL | abi.O_CLOEXEC) | abi.O_LARGEFILE
    lane.put(Word.OPENED + file, number | kept << 32)
    lane.put(Word.OFFSET + file, 0)
    return refer(lane, fd, file, flags & abi.O_CLOEXEC)


def dup(lane: Lane, fd: int) -> int:
    """Another descriptor of the same open file."""
    return copied(lane, lane.descriptor(fd), 0, 0)


def copied(lane: Lane, found: int, least: int, cloexec: int) -> int:
    """The lowest free descriptor from `least` on, which then refers to what a found one does."""
    fd = lane.lowest(least) if found >= 0 else found
    return fd if fd < 0 else lane.refer(fd, found >> 32, cloexec)


def dup3(lane: Lane, old: int, new: int, flags: int) -> int:
    """Make a descriptor one of another's open file."""
    if flags & ~abi.O_CLOEXEC or old == new:
        return -Errno.EINVAL
    if not below(new, lane.fixed(Fixed.DESCRIPTOR_LIMIT)):
        return -Errno.EBADF
    found = lane.descriptor(old)
    return found if found < 0 else lane.refer(new, found >> 32, flags & abi.O_CLOEXEC)


def close(lane: Lane, fd: int) -> int:
    """Close a descriptor."""
    found = lane.descriptor(fd)
    return found if found < 0 else min(lane.refer(fd, 0, 0), 0)


def fcntl(lane: Lane, fd: int, command: int, argument: int) -> int:
    """Descriptor and status flags, locks, seals, the room of a pipe."""
    if (found := lane.descriptor(fd)) < 0:
        return found
    if command == abi.F_GETFD:
        return found >> CLOEXEC & 1
    if command == abi.F_GETFL:
        return found & STATUS_FLAGS
    if command == abi.F_SETFD:
        return min(lane.refer(fd, found >> 32, argument & abi.FD_CLOEXEC), 0)
    if command not in (abi.F_DUPFD, abi.F_DUPFD_CLOEXEC):
        return LEAVE
    if not below(argument, lane.fixed(Fixed.DESCRIPTOR_LIMIT)):
        return -Errno.EINVAL
    return copied(lane, found, argument, command == abi.F_DUPFD_CLOEXEC)


def ioctl(lane: Lane, fd: int, request: int, argument: int) -> int:
    """No file is a terminal."""
    if (kind := stream(lane, fd)) < 0:
        return kind
    if kind == Stream.RANDOM or request in (abi.FIOCLEX, abi.FIONCLEX, abi.FIONBIO, abi.FIONREAD):
        return LEAVE
    return -Errno.ENOTTY
