"""The staged system calls on descriptors: standard streams, and files whose contents the host has told."""

from __future__ import annotations

from kvrm.linux import abi
from kvrm.linux.errno import Errno
from kvrm.linux.files.content import MAX_SIZE
from kvrm.linux.resident.asking import answer, answer_to
from kvrm.linux.resident.lane_view import U32, Lane, fixed, give, is_user, is_writable, place, take
from kvrm.linux.resident.layout import (
    DESCRIPTORS,
    FLAGS,
    KINDS,
    LEAVE,
    RANDOM,
    RANDOM_MOST,
    STAT_BYTES,
    STATS,
    Answer,
    Ask,
    Fixed,
    Stream,
    Word,
)
from kvrm.staging.host import address as address_of
from kvrm.staging.host import below, load, load_byte, load_four, local, store_byte

PIECES = 16
"""Buffers of a readv or writev."""
CHANGES = abi.O_CREAT | abi.O_TRUNC
"""Flags of open that change files."""
INDIFFERENT = abi.O_LARGEFILE | abi.O_CLOEXEC | abi.O_NOCTTY
"""Flags that make no difference to what is opened."""


# -- descriptors and open files --------------------------------------------------------------------------
def open_file(lane: Lane, fd: int) -> int:
    """The number of the open file that a descriptor below DESCRIPTORS refers to; 0 if there is none."""
    return lane.word(Word.DESCRIPTOR + fd) & U32


def kind_of(lane: Lane, fd: int) -> int:
    """What that is: a `Stream`."""
    opened = lane.word(Word.OPENED + open_file(lane, fd)) & U32
    if opened:
        return load(answer(lane, opened) + 8 * Answer.KIND)
    return fixed(lane, KINDS + open_file(lane, fd))


def stream(lane: Lane, fd: int) -> int:
    """The same of any descriptor; -EBADF if it is none, and those that are not known are for the CPU."""
    if not below(fd, DESCRIPTORS):
        return LEAVE if fixed(lane, Fixed.BEYOND) else -Errno.EBADF
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


def content_at(found: int, offset: int) -> int:
    """The address of an answer's content from an offset on."""
    return load(found + 8 * Answer.CONTENT) + min(offset, load(found + 8 * Answer.SIZE))


def bytes_left(found: int, offset: int) -> int:
    """How many bytes there are."""
    return max(load(found + 8 * Answer.SIZE) - offset, 0)


def openat(lane: Lane, directory: int, path: int, flags: int, mode: int) -> int:
    """Open a file for reading, or fail to open one."""
    if flags & CHANGES or flags & abi.O_ACCMODE == abi.O_ACCMODE or not fixed(lane, Fixed.MAY_OPEN):
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
    if not fixed(lane, Fixed.MAY_OPEN) or not below(least, DESCRIPTORS):
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
    if not fixed(lane, Fixed.MAY_OPEN) or not below(new, DESCRIPTORS):
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
        return lane.word(Word.OPENED + file) >> 32 & U32 if kind < Stream.INPUT else fixed(lane, FLAGS + file)
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


# -- reading ---------------------------------------------------------------------------------------------
def random_bytes(lane: Lane, address: int, count: int) -> int:
    """Write the bytes of `Random.randbytes`, whole words and the high bytes of another one; how many."""
    taken = lane.word(Word.RANDOM)
    if not below(count, 4 * RANDOM_MOST) or (count + 3) // 4 + taken > RANDOM_MOST:
        return LEAVE
    if not is_writable(lane, address, count):
        return LEAVE
    word = local(1)
    for i in range((count + 3) // 4):
        size = min(count - 4 * i, 4)
        word[0] = load_four(place(lane, RANDOM) + 4 * (taken + i)) >> 8 * (4 - size)
        if lane.write(address + 4 * i, size, address_of(word)):
            return LEAVE
    lane.put(Word.RANDOM, taken + (count + 3) // 4)
    return count


def read(lane: Lane, fd: int, buffer: int, count: int) -> int:
    """Read what a stream or file has next."""
    kind = stream(lane, fd)
    if kind == Stream.RANDOM:
        return random_bytes(lane, buffer, count)
    piece = local(2)
    piece[0] = buffer
    piece[1] = count
    return read_pieces(lane, fd, kind, address_of(piece), 1)


def readv(lane: Lane, fd: int, vector: int, count: int) -> int:
    """Read into several buffers."""
    kind = stream(lane, fd)
    pieces = local(2 * PIECES)
    if 0 < kind < Stream.STDOUT and take_pieces(lane, vector, count, address_of(pieces)):
        return LEAVE
    return read_pieces(lane, fd, kind, address_of(pieces), count)


def read_pieces(lane: Lane, fd: int, kind: int, pieces: int, count: int) -> int:
    """Read from a stream or file of this kind into buffers, given by address and size."""
    if kind < 0:
        return kind
    if kind >= Stream.STDOUT:
        return -Errno.EBADF
    if kind == Stream.RANDOM:
        return LEAVE
    at = lane.word(Word.INPUT)
    end = lane.word(Word.INPUT_END)
    where = Word.OFFSET + open_file(lane, fd)
    offset = lane.word(where)
    if kind == Stream.FILE:
        found = answer_of(lane, open_file(lane, fd))
        # near the end of its range the host's own kernel has a say
        if found == 0 or offset >> 62:
            return LEAVE
        at = content_at(found, offset)
        end = at + bytes_left(found, offset)
    done = 0
    for i in range(count):
        more = read_piece(lane, load(pieces + 16 * i), load(pieces + 16 * i + 8), at + done, end)
        if more < 0:
            return LEAVE
        done += more
    if kind == Stream.FILE:
        lane.put(where, offset + done)
    else:
        lane.put(Word.INPUT, at + done)
    return done


def read_piece(lane: Lane, address: int, size: int, at: int, end: int) -> int:
    """Read into one buffer what there is between two addresses: how much, or LEAVE."""
    count = min(size, end - at)
    return LEAVE if not is_user(address, size) or give(lane, address, count, at) else count


def pread64(lane: Lane, fd: int, buffer: int, count: int, offset: int) -> int:
    """Read from a file at an offset."""
    if offset < 0:
        return -Errno.EINVAL
    kind = stream(lane, fd)
    if kind != Stream.FILE:
        return kind if kind < 0 else LEAVE
    found = answer_of(lane, open_file(lane, fd))
    if found == 0 or offset >> 62:
        return LEAVE
    at = content_at(found, offset)
    return read_piece(lane, buffer, count, at, at + bytes_left(found, offset))


def take_pieces(lane: Lane, vector: int, count: int, to: int) -> int:
    """Copy an iovec array, which is checked before any of its buffers is touched: 0 or LEAVE."""
    if not below(count - 1, PIECES) or lane.read(vector, 16 * count, to):
        return LEAVE
    for i in range(count):
        if load(to + 16 * i + 8) < 0:
            return LEAVE
    return 0


def lseek(lane: Lane, fd: int, offset: int, whence: int) -> int:
    """Move a file's offset; streams have none."""
    if (kind := stream(lane, fd)) < 0:
        return kind
    if kind == Stream.RANDOM:
        return LEAVE
    if kind != Stream.FILE:
        return -Errno.ESPIPE
    file = open_file(lane, fd)
    found = answer_of(lane, file)
    if found == 0 or whence > abi.SEEK_END:
        return LEAVE
    new = offset
    if whence == abi.SEEK_CUR:
        new += lane.word(Word.OFFSET + file)
    if whence == abi.SEEK_END:
        new += load(found + 8 * Answer.SIZE)
    if below(MAX_SIZE, new):
        return -Errno.EINVAL
    return lane.put(Word.OFFSET + file, new)


# -- writing ---------------------------------------------------------------------------------------------
def write(lane: Lane, fd: int, buffer: int, count: int) -> int:
    """Write to the lane's buffer of a stream."""
    piece = local(2)
    piece[0] = buffer
    piece[1] = count
    return write_pieces(lane, stream(lane, fd), address_of(piece), 1)


def writev(lane: Lane, fd: int, vector: int, count: int) -> int:
    """Write several buffers."""
    kind = stream(lane, fd)
    pieces = local(2 * PIECES)
    if kind >= Stream.STDOUT and take_pieces(lane, vector, count, address_of(pieces)):
        return LEAVE
    return write_pieces(lane, kind, address_of(pieces), count)


def write_pieces(lane: Lane, kind: int, pieces: int, count: int) -> int:
    """Write buffers, given by address and size, to a stream of this kind."""
    if kind < Stream.STDOUT:
        return kind if kind < 0 else -Errno.EBADF
    which = kind - Stream.STDOUT
    before = lane.word(Word.STDOUT + which)
    used = before
    for i in range(count):
        size = load(pieces + 16 * i + 8)
        if below(room(lane) - used, size):
            return LEAVE
        if take(lane, load(pieces + 16 * i), size, buffer_at(lane, which, used)):
            return LEAVE
        used += size
    lane.put(Word.STDOUT + which, used)
    return used - before


def room(lane: Lane) -> int:
    """Bytes of a lane's buffer of a stream."""
    return fixed(lane, Fixed.OUTPUT_BYTES)


def buffer_at(lane: Lane, which: int, at: int) -> int:
    """The address of a byte of one of them."""
    return lane.part(fixed(lane, Fixed.OUTPUTS + which), room(lane), at)


def sendfile(lane: Lane, out: int, source: int, offset: int, count: int) -> int:
    """Copy from a file to a stream. Standard input is no file with offsets."""
    if offset or count < 0:
        return LEAVE
    if (kind := stream(lane, source)) < 0:
        return kind
    to = stream(lane, out)
    if to < Stream.STDOUT:
        return to if to < 0 else -Errno.EBADF
    if kind >= Stream.INPUT:
        return -Errno.EINVAL if kind == Stream.INPUT else -Errno.EBADF
    if kind == Stream.RANDOM:
        return LEAVE
    file = open_file(lane, source)
    found = answer_of(lane, file)
    at = lane.word(Word.OFFSET + file)
    if found == 0 or at >> 62:
        return LEAVE
    size = min(bytes_left(found, at), count)
    which = to - Stream.STDOUT
    used = lane.word(Word.STDOUT + which)
    if room(lane) - used < size:
        return LEAVE
    for i in range(size):
        store_byte(buffer_at(lane, which, used + i), load_byte(content_at(found, at) + i))
    lane.put(Word.OFFSET + file, at + size)
    lane.put(Word.STDOUT + which, used + size)
    return size


# -- status ----------------------------------------------------------------------------------------------
def fstat(lane: Lane, fd: int, to: int) -> int:
    """Status of an open file."""
    if (kind := stream(lane, fd)) < 0:
        return kind
    found = answer_of(lane, open_file(lane, fd))
    if found == 0:
        return LEAVE
    known = found + 8 * Answer.STATUS
    if kind >= Stream.INPUT:
        known = place(lane, STATS) + STAT_BYTES * (kind - Stream.INPUT)
    return LEAVE if lane.write(to, STAT_BYTES, known) else 0


def newfstatat(lane: Lane, directory: int, path: int, to: int, flags: int) -> int:
    """Status of a path, or of an open file by an empty one."""
    if flags == abi.AT_EMPTY_PATH:
        name = local(1)
        name[0] = 0
        if lane.read(path, 1, address_of(name)) or name[0] or directory == abi.AT_FDCWD:
            return LEAVE
        return fstat(lane, directory, to)
    if flags & ~(abi.AT_SYMLINK_NOFOLLOW | abi.AT_NO_AUTOMOUNT):
        return LEAVE
    ask = Ask.LINK_STATUS if flags & abi.AT_SYMLINK_NOFOLLOW else Ask.STATUS
    if (number := answer_to(lane, ask, directory, path)) < 0:
        return number
    return LEAVE if lane.write(to, STAT_BYTES, answer(lane, number) + 8 * Answer.STATUS) else 0
