"""What lies in a socket's queue, and how much of the sender's buffer it takes (net/unix/af_unix.c)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kvrm.memory import PAGE, page_up

if TYPE_CHECKING:
    from kvrm.linux.files.copying import FileCopies
    from kvrm.linux.files.open_file import OpenFile
    from kvrm.linux.files.sockets import Socket

_OVERHEAD: Final = 320
"""Bytes of a buffer's shared information, which lies after the data in the same allocation."""
_DESCRIPTION: Final = 256
_LINE: Final = 64
_LINEAR: Final = PAGE - _OVERHEAD
"""Most bytes of a stream's buffer that lie in one allocation."""
_LARGEST_LINEAR: Final = 4 * PAGE - _OVERHEAD
"""The same of a datagram's."""
_LARGEST_PIECE: Final = _LINEAR + (1 << 15)


class Credentials(NamedTuple):
    """Who sent a message, or is at the other end."""

    pid: int
    uid: int
    gid: int


NOBODY: Final = Credentials(0, 0xFFFFFFFF, 0xFFFFFFFF)
"""Who is at the other end where none is."""


@dataclass(slots=True)
class Message:
    """Bytes with what came along: `sender` is the name of the socket that sent them, `rights` open files.

    `owner` is that socket, whose buffer the message takes `charge` bytes of until it is read.
    """

    data: bytes
    owner: Socket
    charge: int
    sender: bytes | None
    credentials: Credentials
    rights: tuple[OpenFile, ...] = ()

    def relink(self, copies: FileCopies) -> None:
        self.owner = copies.of(self.owner)
        self.rights = tuple(copies.of(file) for file in self.rights)


def pieces(size: int, buffer: int) -> Iterator[tuple[int, int]]:
    """The buffers that a stream makes of `size` bytes, if its own has `buffer` bytes: length and charge."""
    while size:
        length = min(size, buffer // 2 - 64, _LARGEST_PIECE)
        paged = min(length, page_up(max(0, length - _LINEAR)))
        yield length, _charge(length - paged) + paged
        size -= length


def datagram_charge(size: int) -> int:
    """What a datagram takes of its sender's buffer."""
    paged = page_up(max(0, size - _LARGEST_LINEAR))
    return _charge(max(0, size - paged)) + paged


def _charge(size: int) -> int:
    """The allocation for `size` bytes, a power of two, and the description of the buffer."""
    needed = ((size + _LINE - 1) & -_LINE) + _OVERHEAD
    return (1 << (needed - 1).bit_length()) + _DESCRIPTION
