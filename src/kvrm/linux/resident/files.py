"""The staged system calls that read and write streams, and files whose contents the host has told."""

from __future__ import annotations

from kvrm.linux import abi
from kvrm.linux.errno import Errno
from kvrm.linux.files.content import MAX_SIZE
from kvrm.linux.resident.asking import answer, answer_to
from kvrm.linux.resident.descriptors import answer_of, open_file, stream
from kvrm.linux.resident.lane_view import U32, Lane, give, is_user, is_writable, take
from kvrm.linux.resident.layout import (
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
READY = abi.POLLIN | abi.POLLOUT | abi.POLLRDNORM | abi.POLLWRNORM
"""Events that a regular file always has."""
REVENTS = 6
"""Offset of the events that are found in `struct pollfd`."""


def content_at(found: int, offset: int) -> int:
    """The address of an answer's content from an offset on."""
    return load(found + 8 * Answer.CONTENT) + min(offset, load(found + 8 * Answer.SIZE))


def bytes_left(found: int, offset: int) -> int:
    """How many bytes there are."""
    return max(load(found + 8 * Answer.SIZE) - offset, 0)


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
        word[0] = load_four(lane.place(RANDOM) + 4 * (taken + i)) >> 8 * (4 - size)
        if lane.write(address + 4 * i, size, address_of(word)):
            return LEAVE
    lane.put(Word.RANDOM, taken + (count + 3) // 4)
    return count


def getrandom(lane: Lane, buffer: int, count: int, flags: int) -> int:
    """Bytes of the seeded generator."""
    if flags & ~abi.GRND_FLAGS or flags & 6 == 6:
        return -Errno.EINVAL
    return random_bytes(lane, buffer, count)


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
    goes_on = 0
    if kind == Stream.FILE:
        found = answer_of(lane, open_file(lane, fd))
        # near the end of its range the host's own kernel has a say
        if found == 0 or offset >> 62:
            return LEAVE
        at = content_at(found, offset)
        end = at + bytes_left(found, offset)
        goes_on = load(found + 8 * Answer.GOES_ON)
    done = 0
    for i in range(count):
        if goes_on and below(end - at - done, load(pieces + 16 * i + 8)):
            return LEAVE
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


def ppoll(lane: Lane, polled: int, count: int, timeout: int, mask: int, size: int) -> int:
    """Tell what a regular file is ready for, which is all that there is to read and write."""
    entry = local(1)
    if count != 1 or timeout or mask or lane.read(polled, 8, address_of(entry)):
        return LEAVE
    found = entry[0] >> 32 & READY
    if found == 0 or stream(lane, entry[0] & U32) != Stream.FILE:
        return LEAVE
    entry[0] = found
    return LEAVE if lane.write(polled + REVENTS, 2, address_of(entry)) else 1


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
    return lane.fixed(Fixed.OUTPUT_BYTES)


def buffer_at(lane: Lane, which: int, at: int) -> int:
    """The address of a byte of one of them."""
    return lane.part(lane.fixed(Fixed.OUTPUTS + which), room(lane), at)


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
        known = lane.place(STATS) + STAT_BYTES * (kind - Stream.INPUT)
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
