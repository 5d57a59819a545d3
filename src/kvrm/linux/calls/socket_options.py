"""Options of sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.calls.sockets import socket_of
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.socket_queue import NOBODY
from kvrm.linux.files.sockets import Socket
from kvrm.linux.layout import BILLION, INT, TIMESPEC, UCRED, timeval

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_SWITCHES: Final = frozenset(
    {
        abi.SO_DEBUG,
        abi.SO_REUSEADDR,
        abi.SO_DONTROUTE,
        abi.SO_BROADCAST,
        abi.SO_KEEPALIVE,
        abi.SO_OOBINLINE,
        abi.SO_PASSCRED,
        abi.SO_TIMESTAMP,
        abi.SO_PASSSEC,
    }
)
_NUMBERS: Final = {abi.SO_PRIORITY: 0, abi.SO_RCVLOWAT: 1, abi.SO_MARK: 0}
"""Options that are any number, and what they are at first."""
_LIMITS: Final = (abi.SO_RCVTIMEO, abi.SO_SNDTIMEO)
_SMALLEST: Final = {abi.SO_SNDBUF: 4608, abi.SO_RCVBUF: 2304}
_LARGEST_BUFFER: Final = 212992
"""What a buffer can be asked for at most; twice that is set, as half is for the kernel's own use."""
_TICK: Final = BILLION // 250
_MILLION: Final = 1_000_000


def getsockopt(process: Process, fd: int, level: int, option: int, value: int, length: int) -> int:
    """An option of a socket."""
    owner = socket_of(process, fd)
    room = INT.unpack(process.memory.read(length, 4))[0]
    if room < 0:
        raise Failure(Errno.EINVAL)
    if level != abi.SOL_SOCKET:
        raise Failure(Errno.EOPNOTSUPP)
    data = _value(owner, option)[:room]
    process.memory.write(value, data)
    process.memory.write(length, INT.pack(len(data)))
    return 0


def setsockopt(process: Process, fd: int, level: int, option: int, value: int, length: int) -> int:
    """Set an option of a socket."""
    owner = socket_of(process, fd)
    if length < 0:
        raise Failure(Errno.EINVAL)
    if level != abi.SOL_SOCKET:
        raise Failure(Errno.EOPNOTSUPP)
    if length < INT.size:
        raise Failure(Errno.EINVAL)
    number = INT.unpack(process.memory.read(value, 4))[0]
    if option in _LIMITS:
        owner.limits[option] = _time(process, value, length)
    elif option == abi.SO_LINGER:
        if length < 2 * INT.size:
            raise Failure(Errno.EINVAL)
        owner.options[option], owner.linger = number, INT.unpack(process.memory.read(value + 4, 4))[0]
    elif option in _SWITCHES:
        owner.options[option] = int(bool(number))
    elif option in _SMALLEST:
        wanted = min(number & 0xFFFFFFFF, _LARGEST_BUFFER)
        owner.options[option] = max(2 * wanted, _SMALLEST[option])
    elif option == abi.SO_RCVLOWAT:
        owner.options[option] = abi.INT_MAX if number < 0 else number or 1
    elif option in _NUMBERS:
        owner.options[option] = number
    else:
        raise Failure(Errno.ENOPROTOOPT)
    return 0


def _value(owner: Socket, option: int) -> bytes:
    if option in _LIMITS:
        return timeval(owner.limits[option])
    if option == abi.SO_PEERCRED:
        return UCRED.pack(*(owner.credentials or NOBODY))
    if option == abi.SO_LINGER:
        return INT.pack(owner.options.get(option, 0)) + INT.pack(owner.linger)
    if option == abi.SO_ERROR:
        number, owner.error = owner.error, 0
        return INT.pack(number)
    told = {
        abi.SO_TYPE: owner.kind,
        abi.SO_DOMAIN: abi.AF_UNIX,
        abi.SO_PROTOCOL: 0,
        abi.SO_ACCEPTCONN: int(owner.listens),
        abi.SO_SNDLOWAT: 1,
        **dict.fromkeys(_SWITCHES, 0),
        **_NUMBERS,
        **owner.options,
    }
    if option not in told:
        raise Failure(Errno.ENOPROTOOPT)
    return INT.pack(told[option])


def _time(process: Process, pointer: int, length: int) -> int:
    """A time limit in nanoseconds, whole ticks of the kernel's clock; 0 is none."""
    if length < TIMESPEC.size:
        raise Failure(Errno.EINVAL)
    seconds, part = TIMESPEC.unpack(process.memory.read(pointer, TIMESPEC.size))
    if not 0 <= part < _MILLION:
        raise Failure(Errno.EDOM)
    ns: int = max(0, seconds) * BILLION + part * 1000
    return -(-ns // _TICK) * _TICK
