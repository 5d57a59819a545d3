"""Every system call of the guest, one row each; `docs/generate.py` makes a page of them.

In a signature each argument has a kind: i, l signed 32 and 64 bits; u, n unsigned 32 and 64; x, p unsigned 32
and 64 shown in hexadecimal (p is a pointer); o unsigned 32 shown in octal; s a pointer to a string.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

from kvrm.linux.calls import (
    advice,
    attributes,
    contents,
    control,
    descriptors,
    entries,
    memory,
    process,
    remap,
    signals,
    splice,
    status,
    time,
    transfer,
    xattr,
)

_IN_REGISTER: Final = {
    "i": "i4x",
    "l": "q",
    **dict.fromkeys("uxo", "I4x"),
    **dict.fromkeys("nps", "Q"),
}


@dataclass(frozen=True, slots=True)
class Syscall:
    """One system call. A `resident` one is done on the GPU in its usual cases (`kvrm.target.cuda.linux`).

    `decode` makes the handler's arguments of a buffer that begins with the registers x0 to x5.
    """

    number: int
    name: str
    handler: Callable[..., int]
    kinds: str
    names: tuple[str, ...]
    resident: bool
    decode: Callable[[Any], tuple[int, ...]]

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return (self.handler.__doc__ or "").partition("\n")[0]


def _row(
    number: int, name: str, handler: Callable[..., int], signature: str = "", resident: bool = False
) -> Syscall:
    pairs = [argument.split(":") for argument in signature.split()]
    kinds, names = "".join(kind for _, kind in pairs), tuple(name for name, _ in pairs)
    layout = Struct("<" + "".join(_IN_REGISTER[kind] for kind in kinds))
    return Syscall(number, name, handler, kinds, names, resident, layout.unpack_from)


_XATTR_GET: Final = "path:s name:s value:p size:n"
_ROWS: Final = [
    _row(8, "getxattr", xattr.getxattr, _XATTR_GET),
    _row(9, "lgetxattr", xattr.lgetxattr, _XATTR_GET),
    _row(10, "fgetxattr", xattr.fgetxattr, "fd:i name:s value:p size:n"),
    _row(11, "listxattr", xattr.listxattr, "path:s names:p size:n"),
    _row(12, "llistxattr", xattr.llistxattr, "path:s names:p size:n"),
    _row(13, "flistxattr", xattr.flistxattr, "fd:i names:p size:n"),
    _row(17, "getcwd", status.getcwd, "buffer:p size:n", True),
    _row(23, "dup", descriptors.dup, "fd:i", True),
    _row(24, "dup3", descriptors.dup3, "old:i new:i flags:x", True),
    _row(25, "fcntl", control.fcntl, "fd:i command:u argument:p", True),
    _row(29, "ioctl", descriptors.ioctl, "fd:i request:x argument:p", True),
    _row(32, "flock", control.flock, "fd:i operation:i"),
    _row(33, "mknodat", entries.mknodat, "dirfd:i path:s mode:o device:x"),
    _row(34, "mkdirat", entries.mkdirat, "dirfd:i path:s mode:o"),
    _row(35, "unlinkat", entries.unlinkat, "dirfd:i path:s flags:x"),
    _row(36, "symlinkat", entries.symlinkat, "target:s dirfd:i path:s"),
    _row(37, "linkat", entries.linkat, "old_dirfd:i old:s new_dirfd:i new:s flags:x"),
    _row(38, "renameat", entries.renameat, "old_dirfd:i old:s new_dirfd:i new:s"),
    _row(43, "statfs", status.statfs, "path:s buffer:p"),
    _row(44, "fstatfs", status.fstatfs, "fd:i buffer:p"),
    _row(45, "truncate", contents.truncate, "path:s size:l"),
    _row(46, "ftruncate", contents.ftruncate, "fd:i size:l"),
    _row(47, "fallocate", contents.fallocate, "fd:i mode:x offset:l size:l"),
    _row(48, "faccessat", status.faccessat, "dirfd:i path:s mode:o"),
    _row(49, "chdir", status.chdir, "path:s"),
    _row(50, "fchdir", status.fchdir, "fd:i"),
    _row(51, "chroot", process.not_permitted),
    _row(52, "fchmod", attributes.fchmod, "fd:i mode:o"),
    _row(53, "fchmodat", attributes.fchmodat, "dirfd:i path:s mode:o"),
    _row(54, "fchownat", attributes.fchownat, "dirfd:i path:s uid:u gid:u flags:x"),
    _row(55, "fchown", attributes.fchown, "fd:i uid:u gid:u"),
    _row(56, "openat", descriptors.openat, "dirfd:i path:s flags:x mode:o", True),
    _row(57, "close", descriptors.close, "fd:i", True),
    _row(59, "pipe2", descriptors.pipe2, "ends:p flags:x"),
    _row(61, "getdents64", contents.getdents64, "fd:i buffer:p count:u"),
    _row(62, "lseek", transfer.lseek, "fd:i offset:l whence:u", True),
    _row(63, "read", transfer.read, "fd:i buffer:p count:n", True),
    _row(64, "write", transfer.write, "fd:i buffer:p count:n", True),
    _row(65, "readv", transfer.readv, "fd:i vector:p count:n", True),
    _row(66, "writev", transfer.writev, "fd:i vector:p count:n", True),
    _row(67, "pread64", transfer.pread64, "fd:i buffer:p count:n offset:l", True),
    _row(68, "pwrite64", transfer.pwrite64, "fd:i buffer:p count:n offset:l"),
    _row(69, "preadv", transfer.preadv, "fd:i vector:p count:n low:l high:l"),
    _row(70, "pwritev", transfer.pwritev, "fd:i vector:p count:n low:l high:l"),
    _row(71, "sendfile", splice.sendfile, "out_fd:i in_fd:i offset:p count:n", True),
    _row(72, "pselect6", descriptors.pselect6, "count:i read:p write:p except:p timeout:p mask:p"),
    _row(73, "ppoll", descriptors.ppoll, "fds:p count:u timeout:p mask:p size:n"),
    _row(75, "vmsplice", splice.vmsplice, "fd:i vector:p count:n flags:x"),
    _row(76, "splice", splice.splice, "in_fd:i in_offset:p out_fd:i out_offset:p count:n flags:x"),
    _row(77, "tee", splice.tee, "in_fd:i out_fd:i count:n flags:x"),
    _row(78, "readlinkat", status.readlinkat, "dirfd:i path:s buffer:p size:i", True),
    _row(79, "newfstatat", status.newfstatat, "dirfd:i path:s buffer:p flags:x", True),
    _row(80, "fstat", status.fstat, "fd:i buffer:p", True),
    _row(81, "sync", process.nothing),
    _row(82, "fsync", descriptors.fsync, "fd:i"),
    _row(83, "fdatasync", descriptors.fsync, "fd:i"),
    _row(88, "utimensat", attributes.utimensat, "dirfd:i path:s times:p flags:x"),
    _row(92, "personality", process.personality, "persona:x"),
    _row(93, "exit", process.exit_group, "status:i", True),
    _row(94, "exit_group", process.exit_group, "status:i", True),
    _row(95, "waitid", process.no_child),
    _row(96, "set_tid_address", process.set_tid_address, "pointer:p", True),
    _row(98, "futex", process.futex, "address:p operation:u value:u timeout:p second:p third:u", True),
    _row(99, "set_robust_list", process.set_robust_list, "head:p length:n", True),
    _row(101, "nanosleep", time.nanosleep, "wanted:p remaining:p", True),
    _row(102, "getitimer", time.getitimer, "which:i value:p"),
    _row(103, "setitimer", time.setitimer, "which:i new:p old:p"),
    _row(113, "clock_gettime", time.clock_gettime, "clock:i time:p", True),
    _row(114, "clock_getres", time.clock_getres, "clock:i resolution:p", True),
    _row(115, "clock_nanosleep", time.clock_nanosleep, "clock:i flags:x wanted:p remaining:p"),
    _row(122, "sched_setaffinity", process.sched_setaffinity, "pid:i size:u mask:p"),
    _row(123, "sched_getaffinity", process.sched_getaffinity, "pid:i size:u mask:p"),
    _row(124, "sched_yield", process.sched_yield, "", True),
    _row(128, "restart_syscall", signals.restart_syscall),
    _row(129, "kill", signals.kill, "pid:i signal:i"),
    _row(130, "tkill", signals.tkill, "tid:i signal:i"),
    _row(131, "tgkill", signals.tgkill, "pid:i tid:i signal:i"),
    _row(132, "sigaltstack", signals.sigaltstack, "new:p old:p"),
    _row(133, "rt_sigsuspend", signals.rt_sigsuspend, "mask:p size:n"),
    _row(134, "rt_sigaction", signals.rt_sigaction, "signal:i new:p old:p size:n", True),
    _row(135, "rt_sigprocmask", signals.rt_sigprocmask, "how:i new:p old:p size:n", True),
    _row(136, "rt_sigpending", signals.rt_sigpending, "set:p size:n"),
    _row(137, "rt_sigtimedwait", signals.rt_sigtimedwait, "mask:p info:p timeout:p size:n"),
    _row(138, "rt_sigqueueinfo", signals.rt_sigqueueinfo, "pid:i signal:i info:p"),
    _row(140, "setpriority", process.setpriority, "which:i who:i priority:i"),
    _row(141, "getpriority", process.getpriority, "which:i who:i"),
    _row(143, "setregid", process.setregid, "real:u effective:u"),
    _row(144, "setgid", process.setgid, "gid:u"),
    _row(145, "setreuid", process.setreuid, "real:u effective:u"),
    _row(146, "setuid", process.setuid, "uid:u"),
    _row(147, "setresuid", process.setresuid, "real:u effective:u saved:u"),
    _row(148, "getresuid", process.getresuid, "real:p effective:p saved:p"),
    _row(149, "setresgid", process.setresgid, "real:u effective:u saved:u"),
    _row(150, "getresgid", process.getresgid, "real:p effective:p saved:p"),
    _row(153, "times", time.times, "buffer:p"),
    _row(154, "setpgid", process.setpgid, "pid:i group:i"),
    _row(155, "getpgid", process.getpgid, "pid:i"),
    _row(156, "getsid", process.getpgid, "pid:i"),
    _row(157, "setsid", process.setsid),
    _row(158, "getgroups", process.getgroups, "size:i groups:p"),
    _row(160, "uname", process.uname, "buffer:p", True),
    _row(163, "getrlimit", process.getrlimit, "resource:u limit:p", True),
    _row(164, "setrlimit", process.setrlimit, "resource:u limit:p"),
    _row(165, "getrusage", process.getrusage, "who:i usage:p"),
    _row(166, "umask", process.umask, "mask:o"),
    _row(167, "prctl", process.prctl, "option:i first:p second:p third:p fourth:p", True),
    _row(168, "getcpu", process.getcpu, "cpu:p node:p cache:p"),
    _row(169, "gettimeofday", time.gettimeofday, "time:p zone:p", True),
    _row(172, "getpid", process.getpid, "", True),
    _row(173, "getppid", process.getppid, "", True),
    _row(174, "getuid", process.getuid, "", True),
    _row(175, "geteuid", process.getuid, "", True),
    _row(176, "getgid", process.getgid, "", True),
    _row(177, "getegid", process.getgid, "", True),
    _row(178, "gettid", process.getpid, "", True),
    _row(179, "sysinfo", process.sysinfo, "info:p"),
    _row(198, "socket", process.socket, "family:i kind:i protocol:i"),
    _row(199, "socketpair", process.socket, "family:i kind:i protocol:i"),
    _row(200, "bind", process.not_a_socket, "fd:i"),
    _row(201, "listen", process.not_a_socket, "fd:i"),
    _row(202, "accept", process.not_a_socket, "fd:i"),
    _row(203, "connect", process.not_a_socket, "fd:i"),
    _row(204, "getsockname", process.not_a_socket, "fd:i"),
    _row(205, "getpeername", process.not_a_socket, "fd:i"),
    _row(206, "sendto", process.not_a_socket, "fd:i"),
    _row(207, "recvfrom", process.not_a_socket, "fd:i"),
    _row(208, "setsockopt", process.not_a_socket, "fd:i"),
    _row(209, "getsockopt", process.not_a_socket, "fd:i"),
    _row(210, "shutdown", process.not_a_socket, "fd:i"),
    _row(211, "sendmsg", process.not_a_socket, "fd:i"),
    _row(212, "recvmsg", process.not_a_socket, "fd:i"),
    _row(214, "brk", memory.brk, "address:p", True),
    _row(215, "munmap", memory.munmap, "address:p length:n", True),
    _row(216, "mremap", remap.mremap, "old:p old_length:n new_length:n flags:x new:p"),
    _row(220, "clone", process.not_possible),
    _row(221, "execve", process.not_possible),
    _row(222, "mmap", memory.mmap, "address:p length:n prot:x flags:x fd:i offset:n", True),
    _row(223, "fadvise64", descriptors.fadvise64, "fd:i offset:l size:l advice:i"),
    _row(226, "mprotect", memory.mprotect, "address:p length:n prot:x", True),
    _row(227, "msync", memory.msync, "address:p length:n flags:x"),
    _row(228, "mlock", advice.mlock, "address:p length:n"),
    _row(229, "munlock", advice.munlock, "address:p length:n"),
    _row(230, "mlockall", advice.mlockall, "flags:x"),
    _row(231, "munlockall", advice.munlockall),
    _row(232, "mincore", memory.mincore, "address:p length:n vector:p"),
    _row(233, "madvise", advice.madvise, "address:p length:n advice:i", True),
    _row(240, "rt_tgsigqueueinfo", signals.rt_tgsigqueueinfo, "pid:i tid:i signal:i info:p"),
    _row(242, "accept4", process.not_a_socket, "fd:i"),
    _row(260, "wait4", process.no_child),
    _row(261, "prlimit64", process.prlimit64, "pid:i resource:u new:p old:p", True),
    _row(267, "syncfs", descriptors.syncfs, "fd:i"),
    _row(276, "renameat2", entries.renameat2, "old_dirfd:i old:s new_dirfd:i new:s flags:x"),
    _row(278, "getrandom", process.getrandom, "buffer:p count:n flags:x", True),
    _row(279, "memfd_create", descriptors.memfd_create, "name:s flags:x"),
    _row(283, "membarrier", process.membarrier, "command:i flags:x cpu:i"),
    _row(284, "mlock2", advice.mlock2, "address:p length:n flags:x"),
    _row(
        285,
        "copy_file_range",
        splice.copy_file_range,
        "in_fd:i in_offset:p out_fd:i out_offset:p count:n flags:x",
    ),
    _row(286, "preadv2", transfer.preadv2, "fd:i vector:p count:n low:l high:l flags:x"),
    _row(287, "pwritev2", transfer.pwritev2, "fd:i vector:p count:n low:l high:l flags:x"),
    _row(291, "statx", status.statx, "dirfd:i path:s flags:x mask:x buffer:p"),
    _row(435, "clone3", process.not_possible),
    _row(436, "close_range", descriptors.close_range, "first:u last:u flags:x"),
    _row(437, "openat2", descriptors.openat2, "dirfd:i path:s how:p size:n"),
    _row(439, "faccessat2", status.faccessat2, "dirfd:i path:s mode:o flags:x"),
]

TABLE: Final = {row.number: row for row in _ROWS}
"""System calls by number; all others return ENOSYS."""


def markdown() -> str:
    """The table as a page for the documentation."""
    lines = [
        "# System calls",
        "",
        "Generated by `docs/generate.py` from the table in the source. Every other number returns `ENOSYS`;",
        "`KVRM_TRACE=sys` prints one line for each call. *Resident* calls are done on the GPU in their usual",
        "cases.",
        "",
        f"{len(TABLE)} calls:",
        "",
        "| number | call | resident | what it does |",
        "|---:|---|---|---|",
    ]
    for row in sorted(TABLE.values(), key=lambda row: row.number):
        call = f"`{row.name}({', '.join(row.names)})`"
        lines.append(f"| {row.number} | {call} | {'yes' if row.resident else ''} | {row.summary} |")
    return "\n".join(lines) + "\n"
