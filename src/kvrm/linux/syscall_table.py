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
    descriptors,
    events,
    futex,
    identity,
    limits,
    memory,
    numa,
    paths,
    pidfd,
    polling,
    prctl,
    privileged,
    process,
    remap,
    sched,
    seccomp,
    signals,
    time,
    timers,
    tracing,
    transfer,
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
_REMOTE: Final = "pid:i local:p locals:n remote:p remotes:n flags:x"
_ROWS: Final = [
    _row(8, "getxattr", paths.getxattr, _XATTR_GET),
    _row(9, "lgetxattr", paths.lgetxattr, _XATTR_GET),
    _row(10, "fgetxattr", paths.fgetxattr, "fd:i name:s value:p size:n"),
    _row(11, "listxattr", paths.listxattr, "path:s names:p size:n"),
    _row(12, "llistxattr", paths.llistxattr, "path:s names:p size:n"),
    _row(13, "flistxattr", paths.flistxattr, "fd:i names:p size:n"),
    _row(17, "getcwd", paths.getcwd, "buffer:p size:n", True),
    _row(19, "eventfd2", events.eventfd2, "count:u flags:x"),
    _row(20, "epoll_create1", events.epoll_create1, "flags:x"),
    _row(21, "epoll_ctl", events.epoll_ctl, "epoll:i operation:i fd:i event:p"),
    _row(22, "epoll_pwait", events.epoll_pwait, "epoll:i events:p most:i timeout:i mask:p size:n"),
    _row(23, "dup", descriptors.dup, "fd:i", True),
    _row(24, "dup3", descriptors.dup3, "old:i new:i flags:x", True),
    _row(25, "fcntl", descriptors.fcntl, "fd:i command:u argument:p", True),
    _row(29, "ioctl", descriptors.ioctl, "fd:i request:x argument:p", True),
    _row(30, "ioprio_set", sched.ioprio_set, "which:i who:i priority:i"),
    _row(31, "ioprio_get", sched.ioprio_get, "which:i who:i"),
    _row(32, "flock", descriptors.flock, "fd:i operation:i"),
    _row(33, "mknodat", paths.mknodat, "dirfd:i path:s mode:o device:x"),
    _row(34, "mkdirat", paths.mkdirat, "dirfd:i path:s mode:o"),
    _row(35, "unlinkat", paths.unlinkat, "dirfd:i path:s flags:x"),
    _row(36, "symlinkat", paths.symlinkat, "target:s dirfd:i path:s"),
    _row(37, "linkat", paths.linkat, "old_dirfd:i old:s new_dirfd:i new:s flags:x"),
    _row(38, "renameat", paths.renameat, "old_dirfd:i old:s new_dirfd:i new:s"),
    _row(39, "umount2", privileged.umount2, "target:s flags:x"),
    _row(40, "mount", privileged.mount, "source:s target:s kind:s flags:x data:p"),
    _row(41, "pivot_root", privileged.not_permitted),
    _row(43, "statfs", paths.statfs, "path:s buffer:p"),
    _row(44, "fstatfs", paths.fstatfs, "fd:i buffer:p"),
    _row(45, "truncate", paths.truncate, "path:s size:l"),
    _row(46, "ftruncate", descriptors.ftruncate, "fd:i size:l"),
    _row(47, "fallocate", descriptors.fallocate, "fd:i mode:x offset:l size:l"),
    _row(48, "faccessat", paths.faccessat, "dirfd:i path:s mode:o"),
    _row(49, "chdir", paths.chdir, "path:s"),
    _row(50, "fchdir", paths.fchdir, "fd:i"),
    _row(51, "chroot", privileged.chroot, "path:s"),
    _row(52, "fchmod", paths.fchmod, "fd:i mode:o"),
    _row(53, "fchmodat", paths.fchmodat, "dirfd:i path:s mode:o"),
    _row(54, "fchownat", paths.fchownat, "dirfd:i path:s uid:u gid:u flags:x"),
    _row(55, "fchown", paths.fchown, "fd:i uid:u gid:u"),
    _row(56, "openat", descriptors.openat, "dirfd:i path:s flags:x mode:o", True),
    _row(57, "close", descriptors.close, "fd:i", True),
    _row(58, "vhangup", privileged.not_permitted),
    _row(59, "pipe2", descriptors.pipe2, "ends:p flags:x"),
    _row(60, "quotactl", privileged.quotactl, "command:x special:s number:i address:p"),
    _row(61, "getdents64", descriptors.getdents64, "fd:i buffer:p count:u"),
    _row(62, "lseek", transfer.lseek, "fd:i offset:l whence:u", True),
    _row(63, "read", transfer.read, "fd:i buffer:p count:n", True),
    _row(64, "write", transfer.write, "fd:i buffer:p count:n", True),
    _row(65, "readv", transfer.readv, "fd:i vector:p count:n", True),
    _row(66, "writev", transfer.writev, "fd:i vector:p count:n", True),
    _row(67, "pread64", transfer.pread64, "fd:i buffer:p count:n offset:l", True),
    _row(68, "pwrite64", transfer.pwrite64, "fd:i buffer:p count:n offset:l"),
    _row(69, "preadv", transfer.preadv, "fd:i vector:p count:n low:l high:l"),
    _row(70, "pwritev", transfer.pwritev, "fd:i vector:p count:n low:l high:l"),
    _row(71, "sendfile", transfer.sendfile, "out_fd:i in_fd:i offset:p count:n", True),
    _row(72, "pselect6", polling.pselect6, "count:i read:p write:p except:p timeout:p mask:p"),
    _row(73, "ppoll", polling.ppoll, "fds:p count:u timeout:p mask:p size:n"),
    _row(74, "signalfd4", events.signalfd4, "fd:i mask:p size:n flags:x"),
    _row(78, "readlinkat", paths.readlinkat, "dirfd:i path:s buffer:p size:i", True),
    _row(79, "newfstatat", paths.newfstatat, "dirfd:i path:s buffer:p flags:x", True),
    _row(80, "fstat", paths.fstat, "fd:i buffer:p", True),
    _row(81, "sync", process.nothing),
    _row(82, "fsync", descriptors.fsync, "fd:i"),
    _row(83, "fdatasync", descriptors.fsync, "fd:i"),
    _row(84, "sync_file_range", descriptors.sync_file_range, "fd:i offset:l size:l flags:x"),
    _row(85, "timerfd_create", events.timerfd_create, "clock:i flags:x"),
    _row(86, "timerfd_settime", events.timerfd_settime, "fd:i flags:x new:p old:p"),
    _row(87, "timerfd_gettime", events.timerfd_gettime, "fd:i value:p"),
    _row(88, "utimensat", paths.utimensat, "dirfd:i path:s times:p flags:x"),
    _row(89, "acct", privileged.not_permitted),
    _row(90, "capget", identity.capget, "header:p data:p"),
    _row(91, "capset", identity.capset, "header:p data:p"),
    _row(92, "personality", process.personality, "persona:x"),
    _row(93, "exit", process.exit_group, "status:i", True),
    _row(94, "exit_group", process.exit_group, "status:i", True),
    _row(95, "waitid", tracing.waitid, "kind:i number:i info:p options:x usage:p"),
    _row(96, "set_tid_address", prctl.set_tid_address, "pointer:p", True),
    _row(97, "unshare", privileged.unshare, "flags:x"),
    _row(98, "futex", futex.futex, "address:p operation:u value:u timeout:p second:p third:u", True),
    _row(99, "set_robust_list", futex.set_robust_list, "head:p length:n", True),
    _row(100, "get_robust_list", futex.get_robust_list, "pid:i head:p length:p"),
    _row(101, "nanosleep", time.nanosleep, "wanted:p remaining:p", True),
    _row(102, "getitimer", timers.getitimer, "which:i value:p"),
    _row(103, "setitimer", timers.setitimer, "which:i new:p old:p"),
    _row(107, "timer_create", timers.timer_create, "clock:i event:p timer:p"),
    _row(108, "timer_gettime", timers.timer_gettime, "timer:i value:p"),
    _row(109, "timer_getoverrun", timers.timer_getoverrun, "timer:i"),
    _row(110, "timer_settime", timers.timer_settime, "timer:i flags:x new:p old:p"),
    _row(111, "timer_delete", timers.timer_delete, "timer:i"),
    _row(112, "clock_settime", time.clock_settime, "clock:i time:p"),
    _row(113, "clock_gettime", time.clock_gettime, "clock:i time:p", True),
    _row(114, "clock_getres", time.clock_getres, "clock:i resolution:p", True),
    _row(115, "clock_nanosleep", time.clock_nanosleep, "clock:i flags:x wanted:p remaining:p"),
    _row(104, "kexec_load", privileged.not_permitted),
    _row(105, "init_module", privileged.not_permitted),
    _row(106, "delete_module", privileged.not_permitted),
    _row(116, "syslog", privileged.syslog, "action:i buffer:p size:i"),
    _row(117, "ptrace", tracing.ptrace, "request:l pid:l address:p data:p"),
    _row(118, "sched_setparam", sched.sched_setparam, "pid:i parameters:p"),
    _row(119, "sched_setscheduler", sched.sched_setscheduler, "pid:i policy:i parameters:p"),
    _row(120, "sched_getscheduler", sched.sched_getscheduler, "pid:i"),
    _row(121, "sched_getparam", sched.sched_getparam, "pid:i parameters:p"),
    _row(122, "sched_setaffinity", sched.sched_setaffinity, "pid:i size:u mask:p"),
    _row(123, "sched_getaffinity", sched.sched_getaffinity, "pid:i size:u mask:p"),
    _row(124, "sched_yield", sched.sched_yield, "", True),
    _row(128, "restart_syscall", signals.restart_syscall),
    _row(125, "sched_get_priority_max", sched.sched_get_priority_max, "policy:i"),
    _row(126, "sched_get_priority_min", sched.sched_get_priority_min, "policy:i"),
    _row(127, "sched_rr_get_interval", sched.sched_rr_get_interval, "pid:i interval:p"),
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
    _row(140, "setpriority", sched.setpriority, "which:i who:i priority:i"),
    _row(141, "getpriority", sched.getpriority, "which:i who:i"),
    _row(142, "reboot", privileged.not_permitted),
    _row(143, "setregid", identity.setregid, "real:u effective:u"),
    _row(144, "setgid", identity.setgid, "gid:u"),
    _row(145, "setreuid", identity.setreuid, "real:u effective:u"),
    _row(146, "setuid", identity.setuid, "uid:u"),
    _row(147, "setresuid", identity.setresuid, "real:u effective:u saved:u"),
    _row(148, "getresuid", identity.getresuid, "real:p effective:p saved:p"),
    _row(149, "setresgid", identity.setresgid, "real:u effective:u saved:u"),
    _row(150, "getresgid", identity.getresgid, "real:p effective:p saved:p"),
    _row(151, "setfsuid", identity.setfsuid, "uid:u"),
    _row(152, "setfsgid", identity.setfsgid, "gid:u"),
    _row(153, "times", time.times, "buffer:p"),
    _row(154, "setpgid", identity.setpgid, "pid:i group:i"),
    _row(155, "getpgid", identity.getpgid, "pid:i"),
    _row(156, "getsid", identity.getpgid, "pid:i"),
    _row(157, "setsid", identity.setsid),
    _row(158, "getgroups", identity.getgroups, "size:i groups:p"),
    _row(159, "setgroups", identity.setgroups, "size:i groups:p"),
    _row(160, "uname", process.uname, "buffer:p", True),
    _row(161, "sethostname", privileged.not_permitted),
    _row(162, "setdomainname", privileged.not_permitted),
    _row(163, "getrlimit", limits.getrlimit, "resource:u limit:p", True),
    _row(164, "setrlimit", limits.setrlimit, "resource:u limit:p"),
    _row(165, "getrusage", limits.getrusage, "who:i usage:p"),
    _row(166, "umask", process.umask, "mask:o"),
    _row(167, "prctl", prctl.prctl, "option:i first:p second:p third:p fourth:p", True),
    _row(168, "getcpu", sched.getcpu, "cpu:p node:p cache:p"),
    _row(169, "gettimeofday", time.gettimeofday, "time:p zone:p", True),
    _row(170, "settimeofday", time.settimeofday, "time:p zone:p"),
    _row(171, "adjtimex", time.adjtimex, "buffer:p"),
    _row(172, "getpid", identity.getpid, "", True),
    _row(173, "getppid", identity.getppid, "", True),
    _row(174, "getuid", identity.getuid, "", True),
    _row(175, "geteuid", identity.getuid, "", True),
    _row(176, "getgid", identity.getgid, "", True),
    _row(177, "getegid", identity.getgid, "", True),
    _row(178, "gettid", identity.getpid, "", True),
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
    _row(213, "readahead", descriptors.readahead, "fd:i offset:l count:n"),
    _row(214, "brk", memory.brk, "address:p", True),
    _row(215, "munmap", memory.munmap, "address:p length:n", True),
    _row(216, "mremap", remap.mremap, "old:p old_length:n new_length:n flags:x new:p"),
    _row(220, "clone", process.not_possible),
    _row(221, "execve", process.not_possible),
    _row(222, "mmap", memory.mmap, "address:p length:n prot:x flags:x fd:i offset:n", True),
    _row(223, "fadvise64", descriptors.fadvise64, "fd:i offset:l size:l advice:i"),
    _row(224, "swapon", privileged.swapon, "path:s flags:x"),
    _row(225, "swapoff", privileged.not_permitted),
    _row(226, "mprotect", memory.mprotect, "address:p length:n prot:x", True),
    _row(227, "msync", memory.msync, "address:p length:n flags:x"),
    _row(228, "mlock", advice.mlock, "address:p length:n"),
    _row(229, "munlock", advice.munlock, "address:p length:n"),
    _row(230, "mlockall", advice.mlockall, "flags:x"),
    _row(231, "munlockall", advice.munlockall),
    _row(232, "mincore", memory.mincore, "address:p length:n vector:p"),
    _row(233, "madvise", advice.madvise, "address:p length:n advice:i", True),
    _row(235, "mbind", numa.mbind, "address:p length:n mode:i nodes:p count:n flags:x"),
    _row(236, "get_mempolicy", numa.get_mempolicy, "mode:p nodes:p count:n address:p flags:x"),
    _row(237, "set_mempolicy", numa.set_mempolicy, "mode:i nodes:p count:n"),
    _row(238, "migrate_pages", numa.migrate_pages, "pid:i count:n old:p new:p"),
    _row(239, "move_pages", numa.move_pages, "pid:i count:n pages:p nodes:p status:p flags:x"),
    _row(240, "rt_tgsigqueueinfo", signals.rt_tgsigqueueinfo, "pid:i tid:i signal:i info:p"),
    _row(242, "accept4", process.not_a_socket, "fd:i"),
    _row(260, "wait4", tracing.wait4, "pid:i status:p options:x usage:p"),
    _row(261, "prlimit64", limits.prlimit64, "pid:i resource:u new:p old:p", True),
    _row(262, "fanotify_init", privileged.not_permitted),
    _row(266, "clock_adjtime", time.clock_adjtime, "clock:i buffer:p"),
    _row(267, "syncfs", descriptors.fsync, "fd:i"),
    _row(268, "setns", privileged.setns, "fd:i kind:x"),
    _row(270, "process_vm_readv", tracing.process_vm_readv, _REMOTE),
    _row(271, "process_vm_writev", tracing.process_vm_writev, _REMOTE),
    _row(272, "kcmp", tracing.kcmp, "first:i second:i kind:i one:u other:u"),
    _row(273, "finit_module", privileged.not_permitted),
    _row(274, "sched_setattr", sched.sched_setattr, "pid:i attributes:p flags:x"),
    _row(275, "sched_getattr", sched.sched_getattr, "pid:i attributes:p size:u flags:x"),
    _row(276, "renameat2", paths.renameat2, "old_dirfd:i old:s new_dirfd:i new:s flags:x"),
    _row(277, "seccomp", seccomp.seccomp, "operation:u flags:x arguments:p"),
    _row(278, "getrandom", process.getrandom, "buffer:p count:n flags:x", True),
    _row(279, "memfd_create", descriptors.memfd_create, "name:s flags:x"),
    _row(280, "bpf", privileged.not_permitted),
    _row(283, "membarrier", numa.membarrier, "command:i flags:x cpu:i"),
    _row(284, "mlock2", advice.mlock2, "address:p length:n flags:x"),
    _row(
        285,
        "copy_file_range",
        transfer.copy_file_range,
        "in_fd:i in_offset:p out_fd:i out_offset:p count:n flags:x",
    ),
    _row(291, "statx", paths.statx, "dirfd:i path:s flags:x mask:x buffer:p"),
    _row(424, "pidfd_send_signal", pidfd.pidfd_send_signal, "pidfd:i signal:i info:p flags:x"),
    _row(434, "pidfd_open", pidfd.pidfd_open, "pid:i flags:x"),
    _row(435, "clone3", process.not_possible),
    _row(436, "close_range", descriptors.close_range, "first:u last:u flags:x"),
    _row(437, "openat2", descriptors.openat2, "dirfd:i path:s how:p size:n"),
    _row(441, "epoll_pwait2", events.epoll_pwait2, "epoll:i events:p most:i timeout:p mask:p size:n"),
    _row(438, "pidfd_getfd", pidfd.pidfd_getfd, "pidfd:i fd:i flags:x"),
    _row(439, "faccessat2", paths.faccessat2, "dirfd:i path:s mode:o flags:x"),
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
