"""Error numbers of Linux (asm-generic/errno-base.h and errno.h), and the exception that carries one."""

from __future__ import annotations

from enum import IntEnum


class Errno(IntEnum):
    """What a failed system call returns, negated."""

    EPERM = 1
    ENOENT = 2
    ESRCH = 3
    EINTR = 4
    EIO = 5
    ENXIO = 6
    E2BIG = 7
    ENOEXEC = 8
    EBADF = 9
    ECHILD = 10
    EAGAIN = 11
    ENOMEM = 12
    EACCES = 13
    EFAULT = 14
    ENOTBLK = 15
    EBUSY = 16
    EEXIST = 17
    EXDEV = 18
    ENODEV = 19
    ENOTDIR = 20
    EISDIR = 21
    EINVAL = 22
    ENFILE = 23
    EMFILE = 24
    ENOTTY = 25
    ETXTBSY = 26
    EFBIG = 27
    ENOSPC = 28
    ESPIPE = 29
    EROFS = 30
    EMLINK = 31
    EPIPE = 32
    EDOM = 33
    ERANGE = 34
    EDEADLK = 35
    ENAMETOOLONG = 36
    ENOLCK = 37
    ENOSYS = 38
    ENOTEMPTY = 39
    ELOOP = 40
    ENOMSG = 42
    ENODATA = 61
    EOVERFLOW = 75
    ENOTSOCK = 88
    EMSGSIZE = 90
    EPROTOTYPE = 91
    ENOPROTOOPT = 92
    EPROTONOSUPPORT = 93
    ESOCKTNOSUPPORT = 94
    EOPNOTSUPP = 95
    EAFNOSUPPORT = 97
    EADDRINUSE = 98
    ECONNRESET = 104
    ENOBUFS = 105
    EISCONN = 106
    ENOTCONN = 107
    ECONNREFUSED = 111
    ETIMEDOUT = 110


class Failure(Exception):
    """A system call fails with `errno` and has no other effect."""

    def __init__(self, errno: int) -> None:
        super().__init__(errno)
        self.errno = errno


def name_of(errno: int) -> str:
    """The symbolic name of an error number, or the number itself if it has none here."""
    try:
        return Errno(errno).name
    except ValueError:
        return str(errno)
