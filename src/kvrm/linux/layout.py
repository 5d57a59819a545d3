"""Byte layouts of the structures that system calls exchange (arm64: little endian, asm-generic)."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from kvrm.linux import abi

BILLION: Final = 1_000_000_000
U64: Final = (1 << 64) - 1

_STAT: Final = struct.Struct("<QQIIIIQQqiiqqQqQqQII")
_STATX: Final = struct.Struct("<IIQIIIHHQQQQ qIi qIi qIi qIi IIIIQ 104x")
_STATFS: Final = struct.Struct("<7Q8sQQQ32x")
_SYSINFO: Final = struct.Struct("<q3Q6QHHxxxxQQIxxxx")
_UTSNAME: Final = struct.Struct("65s" * 6)
_RUSAGE: Final = struct.Struct("<4q14q")
TIMESPEC: Final = struct.Struct("<qq")
ITIMERSPEC: Final = struct.Struct("<qqqq")
RLIMIT: Final = struct.Struct("<QQ")
SIGACTION: Final = struct.Struct("<QQQQ")
SIGEVENT: Final = struct.Struct("<Qiii44x")
SIGSTACK: Final = struct.Struct("<QIIQ")
IOVEC: Final = struct.Struct("<QQ")
IPC_PERM: Final = struct.Struct("<iIIIIIHxxxxxx16x")
SEMBUF: Final = struct.Struct("<Hhh")
SEMID: Final = struct.Struct("<qqQ16x")
MSQID: Final = struct.Struct("<qqqQQQii16x")
SHMID: Final = struct.Struct("<QqqqiiQ16x")
MQ_ATTR: Final = struct.Struct("<qqqq32x")
SIGNED: Final = struct.Struct("<q")
SOCKADDR_FAMILY: Final = struct.Struct("<H")
UCRED: Final = struct.Struct("<iII")
MSGHDR: Final = struct.Struct("<QixxxxQQQQixxxx")
CMSGHDR: Final = struct.Struct("<Qii")
POLLFD: Final = struct.Struct("<ihh")
EPOLL_EVENT: Final = struct.Struct("<I4xQ")
INOTIFY_EVENT: Final = struct.Struct("<iIII")
SIGSET_ARGUMENT: Final = struct.Struct("<QQ")
HALFWORD: Final = struct.Struct("<h")
WORD: Final = struct.Struct("<I")
INT: Final = struct.Struct("<i")
TIMEX: Final = struct.Struct("<I4x 4q i4x 3q 2q q 2q i4x 5q i 44x")
DOUBLEWORD: Final = struct.Struct("<Q")
FLOCK: Final = struct.Struct("<hhxxxxqqixxxx")

FileId = tuple[int, int]
"""Which file it is, whatever its name: device and inode."""


class Stat(NamedTuple):
    """What stat(2) says about a file. Times are nanoseconds since 1970, `blocks` are 512 bytes."""

    dev: int
    ino: int
    mode: int
    nlink: int = 1
    uid: int = 0
    gid: int = 0
    rdev: int = 0
    size: int = 0
    blksize: int = 4096
    blocks: int = 0
    atime: int = 0
    mtime: int = 0
    ctime: int = 0

    @property
    def identity(self) -> FileId:
        """Which file it is."""
        return self.dev, self.ino

    @classmethod
    def of_host(cls, st: os.stat_result) -> Stat:
        """The same file as the host sees it."""
        return cls(
            st.st_dev,
            st.st_ino,
            st.st_mode,
            st.st_nlink,
            st.st_uid,
            st.st_gid,
            st.st_rdev,
            st.st_size,
            st.st_blksize,
            st.st_blocks,
            st.st_atime_ns,
            st.st_mtime_ns,
            st.st_ctime_ns,
        )


def stat(s: Stat) -> bytes:
    """`struct stat`, 128 bytes."""
    times = [part for ns in (s.atime, s.mtime, s.ctime) for part in divmod(ns, BILLION)]
    return _STAT.pack(
        s.dev, s.ino, s.mode, s.nlink, s.uid, s.gid, s.rdev, 0, s.size, s.blksize, 0, s.blocks, *times, 0, 0
    )


def statx(s: Stat) -> bytes:
    """`struct statx`, 256 bytes, with the basic fields; the time of birth is not known."""
    access, modification, change = ((*divmod(ns, BILLION), 0) for ns in (s.atime, s.mtime, s.ctime))
    return _STATX.pack(
        abi.STATX_BASIC_STATS,
        s.blksize,
        0,
        s.nlink,
        s.uid,
        s.gid,
        s.mode,
        0,
        s.ino,
        s.size,
        s.blocks,
        0,
        *access,
        *(0, 0, 0),
        *change,
        *modification,
        os.major(s.rdev),
        os.minor(s.rdev),
        os.major(s.dev),
        os.minor(s.dev),
        0,
    )


def statfs(magic: int, blocks: int, free: int) -> bytes:
    """`struct statfs`, 120 bytes, of a file system with blocks of 4096 bytes."""
    return _STATFS.pack(magic, 4096, blocks, free, free, 1 << 20, 1 << 19, bytes(8), abi.NAME_MAX, 4096, 0)


def dirent(ino: int, offset: int, kind: int, name: bytes) -> bytes:
    """`struct linux_dirent64`, padded to 8 bytes."""
    length = (19 + len(name) + 1 + 7) & -8
    return struct.pack("<QqHB", ino, offset, length, kind) + name.ljust(length - 19, b"\0")


def sysinfo(uptime: int, total: int, free: int, processes: int) -> bytes:
    """`struct sysinfo`, 112 bytes; memory is in bytes."""
    return _SYSINFO.pack(uptime, 0, 0, 0, total, free, 0, 0, 0, 0, processes, 0, 0, 0, 1)


def utsname(fields: Sequence[str]) -> bytes:
    """`struct new_utsname`: six fields of 65 bytes."""
    return _UTSNAME.pack(*(field.encode() for field in fields))


def rusage(cpu_ns: int, max_rss_kib: int) -> bytes:
    """`struct rusage`: all time is user time."""
    seconds, ns = divmod(cpu_ns, BILLION)
    return _RUSAGE.pack(seconds, ns // 1000, 0, 0, max_rss_kib, *[0] * 13)


def timespec(ns: int) -> bytes:
    """`struct timespec`."""
    return TIMESPEC.pack(*divmod(ns, BILLION))


def timeval(ns: int) -> bytes:
    """`struct timeval`."""
    seconds, rest = divmod(ns, BILLION)
    return TIMESPEC.pack(seconds, rest // 1000)


def timex(modes: int, realtime: int) -> bytes:
    """`struct timex` of a clock that nothing adjusts; `modes` are returned as they were given."""
    seconds, ns = divmod(realtime, BILLION)
    offset, frequency, most_error, error = 0, 0, 16_000_000, 16_000_000
    status, constant, precision, tolerance, tick = 64, 2, 1, 32_768_000, 10_000
    return TIMEX.pack(
        modes,
        *(offset, frequency, most_error, error),
        status,
        *(constant, precision, tolerance),
        *(seconds, ns // 1000),
        tick,
        *(0, 0, 0),
        *(0, 0, 0, 0, 0),
        0,
    )
