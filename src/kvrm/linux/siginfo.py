"""What a signal tells about itself: `siginfo_t`, and the same as a signal descriptor gives it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from kvrm.linux import abi

_HEADER: Final = struct.Struct("<iii4x")
_SENDER: Final = struct.Struct("<iIQ")
_UNION_BYTES: Final = 32
"""Of the union after the header, the part that the kernel keeps."""
KEPT: Final = _HEADER.size + _UNION_BYTES
SIZE: Final = 128
_SIGNALFD: Final = struct.Struct("<Iii IIi III Ii iQ 72x")


@dataclass(frozen=True, slots=True)
class Info:
    """A signal and what is told with it: si_code, si_errno and the union after them.

    `timer` is the POSIX timer whose expiry this is, None for every other sender.
    """

    signal: int
    code: int = abi.SI_USER
    errno: int = 0
    union: bytes = bytes(_UNION_BYTES)
    timer: int | None = None

    @classmethod
    def sent(
        cls, signal: int, code: int, first: int, second: int, value: int = 0, timer: int | None = None
    ) -> Info:
        """From a sender: `first` and `second` are its pid and uid, or a timer's number and overrun."""
        union = _SENDER.pack(first, second, value).ljust(_UNION_BYTES, b"\0")
        return cls(signal, code, union=union, timer=timer)

    @classmethod
    def unpack(cls, signal: int, data: bytes) -> Info:
        """The first `KEPT` bytes of a `siginfo_t` that a program made, for `signal`."""
        _, errno, code = _HEADER.unpack_from(data)
        return cls(signal, code, errno, data[_HEADER.size : KEPT])

    def packed(self) -> bytes:
        """`siginfo_t`, 128 bytes."""
        return (_HEADER.pack(self.signal, self.errno, self.code) + self.union).ljust(SIZE, b"\0")

    def for_descriptor(self) -> bytes:
        """`struct signalfd_siginfo`, 128 bytes."""
        first, second, value = _SENDER.unpack_from(self.union)
        pid, uid, timer, overrun = first & 0xFFFFFFFF, second, 0, 0
        if self.code == abi.SI_TIMER:
            pid, uid, timer, overrun = 0, 0, pid, second
        elif self.code >= 0:
            value = 0
        number = value & 0xFFFFFFFF
        number -= number >> 31 << 32
        fields = (pid, uid, 0, timer, 0, overrun, 0, 0, number, value)
        return _SIGNALFD.pack(self.signal, self.errno, self.code, *fields)


def known(code: int) -> bool:
    """Whether the kernel knows what is in the union after this si_code, for any signal."""
    return code >= abi.SI_DETHREAD or code == abi.SI_ASYNCNL
