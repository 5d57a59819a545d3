"""Every system call of the guest, one row each; `docs/generate.py` makes a page of them.

In a signature each argument has a kind: i, l signed 32 and 64 bits; u, n unsigned 32 and 64; x, p unsigned 32
and 64 shown in hexadecimal (p is a pointer); o unsigned 32 shown in octal; s a pointer to a string.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from struct import Struct
from typing import Any, Final

_IN_REGISTER: Final = {
    "i": "i4x",
    "l": "q",
    **dict.fromkeys("uxo", "I4x"),
    **dict.fromkeys("nps", "Q"),
}


@dataclass(frozen=True)
class Syscall:
    """One system call. `function` names its handler, by module of `kvrm.linux.calls` and name.

    A `staged` call is the text of that name in `kvrm.linux.resident`; its function, if it has one, does what
    that leaves.

    `decode` makes the handler's arguments of a buffer that begins with the registers x0 to x5.
    """

    number: int
    name: str
    function: str
    kinds: str
    names: tuple[str, ...]
    decode: Callable[[Any], tuple[int, ...]]
    staged: bool

    @functools.cached_property
    def handler(self) -> Callable[..., int]:
        """What does it, imported when first asked for: a program makes few of the calls."""
        module, _, name = self.function.partition(".")
        function: Any = getattr(import_module(f"kvrm.linux.calls.{module}"), name) if name else None
        if self.staged:
            from kvrm.linux.resident.of_process import in_python
            from kvrm.linux.resident.staged import text_of

            text = text_of(self.name)
            assert text is not None
            function = in_python(text, function)
        return function  # type: ignore[no-any-return]

    @property
    def resident(self) -> bool:
        """Whether it is staged, in its usual cases."""
        from kvrm.linux.resident.staged import text_of

        return text_of(self.name) is not None

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return (self.handler.__doc__ or "").partition("\n")[0]


def _row(number: int, name: str, function: str, signature: str = "", staged: bool = False) -> Syscall:
    pairs = [argument.split(":") for argument in signature.split()]
    kinds, names = "".join(kind for _, kind in pairs), tuple(name for name, _ in pairs)
    layout = Struct("<" + "".join(_IN_REGISTER[kind] for kind in kinds))
    return Syscall(number, name, function, kinds, names, layout.unpack_from, staged)


def _staged(number: int, name: str, signature: str = "", function: str = "") -> Syscall:
    return _row(number, name, function, signature, staged=True)


_XATTR_SET: Final = "path:s name:s value:p size:n flags:x"
_XATTR_GET: Final = "path:s name:s value:p size:n"
_REMOTE: Final = "pid:i local:p locals:n remote:p remotes:n flags:x"
_ROWS: Final = [
    _row(5, "setxattr", "xattr.setxattr", _XATTR_SET),
    _row(6, "lsetxattr", "xattr.lsetxattr", _XATTR_SET),
    _row(7, "fsetxattr", "xattr.fsetxattr", "fd:i name:s value:p size:n flags:x"),
    _row(8, "getxattr", "xattr.getxattr", _XATTR_GET),
    _row(9, "lgetxattr", "xattr.lgetxattr", _XATTR_GET),
    _row(10, "fgetxattr", "xattr.fgetxattr", "fd:i name:s value:p size:n"),
    _row(11, "listxattr", "xattr.listxattr", "path:s names:p size:n"),
    _row(12, "llistxattr", "xattr.llistxattr", "path:s names:p size:n"),
    _row(13, "flistxattr", "xattr.flistxattr", "fd:i names:p size:n"),
    _row(14, "removexattr", "xattr.removexattr", "path:s name:s"),
    _row(15, "lremovexattr", "xattr.lremovexattr", "path:s name:s"),
    _row(16, "fremovexattr", "xattr.fremovexattr", "fd:i name:s"),
    _staged(17, "getcwd", "buffer:p size:n"),
    _row(19, "eventfd2", "events.eventfd2", "count:u flags:x"),
    _row(20, "epoll_create1", "events.epoll_create1", "flags:x"),
    _row(21, "epoll_ctl", "events.epoll_ctl", "epoll:i operation:i fd:i event:p"),
    _row(22, "epoll_pwait", "events.epoll_pwait", "epoll:i events:p most:i timeout:i mask:p size:n"),
    _staged(23, "dup", "fd:i"),
    _staged(24, "dup3", "old:i new:i flags:x"),
    _staged(25, "fcntl", "fd:i command:u argument:p", "control.fcntl"),
    _row(26, "inotify_init1", "inotify.inotify_init1", "flags:x"),
    _row(27, "inotify_add_watch", "inotify.inotify_add_watch", "fd:i path:s mask:x"),
    _row(28, "inotify_rm_watch", "inotify.inotify_rm_watch", "fd:i watch:i"),
    _row(29, "ioctl", "descriptors.ioctl", "fd:i request:x argument:p"),
    _row(30, "ioprio_set", "sched.ioprio_set", "which:i who:i priority:i"),
    _row(31, "ioprio_get", "sched.ioprio_get", "which:i who:i"),
    _row(32, "flock", "control.flock", "fd:i operation:i"),
    _row(33, "mknodat", "entries.mknodat", "dirfd:i path:s mode:o device:x"),
    _row(34, "mkdirat", "entries.mkdirat", "dirfd:i path:s mode:o"),
    _row(35, "unlinkat", "entries.unlinkat", "dirfd:i path:s flags:x"),
    _row(36, "symlinkat", "entries.symlinkat", "target:s dirfd:i path:s"),
    _row(37, "linkat", "entries.linkat", "old_dirfd:i old:s new_dirfd:i new:s flags:x"),
    _row(38, "renameat", "entries.renameat", "old_dirfd:i old:s new_dirfd:i new:s"),
    _row(39, "umount2", "privileged.umount2", "target:s flags:x"),
    _row(40, "mount", "privileged.mount", "source:s target:s kind:s flags:x data:p"),
    _row(41, "pivot_root", "privileged.not_permitted"),
    _row(43, "statfs", "status.statfs", "path:s buffer:p"),
    _row(44, "fstatfs", "status.fstatfs", "fd:i buffer:p"),
    _row(45, "truncate", "contents.truncate", "path:s size:l"),
    _row(46, "ftruncate", "contents.ftruncate", "fd:i size:l"),
    _row(47, "fallocate", "contents.fallocate", "fd:i mode:x offset:l size:l"),
    _row(48, "faccessat", "status.faccessat", "dirfd:i path:s mode:o"),
    _row(49, "chdir", "status.chdir", "path:s"),
    _row(50, "fchdir", "status.fchdir", "fd:i"),
    _row(51, "chroot", "privileged.chroot", "path:s"),
    _row(52, "fchmod", "attributes.fchmod", "fd:i mode:o"),
    _row(53, "fchmodat", "attributes.fchmodat", "dirfd:i path:s mode:o"),
    _row(54, "fchownat", "attributes.fchownat", "dirfd:i path:s uid:u gid:u flags:x"),
    _row(55, "fchown", "attributes.fchown", "fd:i uid:u gid:u"),
    _row(56, "openat", "descriptors.openat", "dirfd:i path:s flags:x mode:o"),
    _staged(57, "close", "fd:i"),
    _row(58, "vhangup", "privileged.not_permitted"),
    _row(59, "pipe2", "descriptors.pipe2", "ends:p flags:x"),
    _row(60, "quotactl", "privileged.quotactl", "command:x special:s number:i address:p"),
    _row(61, "getdents64", "contents.getdents64", "fd:i buffer:p count:u"),
    _row(62, "lseek", "transfer.lseek", "fd:i offset:l whence:u"),
    _row(63, "read", "transfer.read", "fd:i buffer:p count:n"),
    _row(64, "write", "transfer.write", "fd:i buffer:p count:n"),
    _row(65, "readv", "transfer.readv", "fd:i vector:p count:n"),
    _row(66, "writev", "transfer.writev", "fd:i vector:p count:n"),
    _row(67, "pread64", "transfer.pread64", "fd:i buffer:p count:n offset:l"),
    _row(68, "pwrite64", "transfer.pwrite64", "fd:i buffer:p count:n offset:l"),
    _row(69, "preadv", "transfer.preadv", "fd:i vector:p count:n low:l high:l"),
    _row(70, "pwritev", "transfer.pwritev", "fd:i vector:p count:n low:l high:l"),
    _row(71, "sendfile", "splice.sendfile", "out_fd:i in_fd:i offset:p count:n"),
    _row(72, "pselect6", "polling.pselect6", "count:i read:p write:p except:p timeout:p mask:p"),
    _row(73, "ppoll", "polling.ppoll", "fds:p count:u timeout:p mask:p size:n"),
    _row(74, "signalfd4", "events.signalfd4", "fd:i mask:p size:n flags:x"),
    _row(75, "vmsplice", "splice.vmsplice", "fd:i vector:p count:n flags:x"),
    _row(76, "splice", "splice.splice", "in_fd:i in_offset:p out_fd:i out_offset:p count:n flags:x"),
    _row(77, "tee", "splice.tee", "in_fd:i out_fd:i count:n flags:x"),
    _row(78, "readlinkat", "status.readlinkat", "dirfd:i path:s buffer:p size:i"),
    _row(79, "newfstatat", "status.newfstatat", "dirfd:i path:s buffer:p flags:x"),
    _row(80, "fstat", "status.fstat", "fd:i buffer:p"),
    _row(81, "sync", "process.nothing"),
    _row(82, "fsync", "descriptors.fsync", "fd:i"),
    _row(83, "fdatasync", "descriptors.fsync", "fd:i"),
    _row(84, "sync_file_range", "descriptors.sync_file_range", "fd:i offset:l size:l flags:x"),
    _row(85, "timerfd_create", "events.timerfd_create", "clock:i flags:x"),
    _row(86, "timerfd_settime", "events.timerfd_settime", "fd:i flags:x new:p old:p"),
    _row(87, "timerfd_gettime", "events.timerfd_gettime", "fd:i value:p"),
    _row(88, "utimensat", "attributes.utimensat", "dirfd:i path:s times:p flags:x"),
    _row(89, "acct", "privileged.not_permitted"),
    _row(90, "capget", "identity.capget", "header:p data:p"),
    _row(91, "capset", "identity.capset", "header:p data:p"),
    _row(92, "personality", "process.personality", "persona:x"),
    _staged(93, "exit", "status:i"),
    _staged(94, "exit_group", "status:i"),
    _row(95, "waitid", "tracing.waitid", "kind:i number:i info:p options:x usage:p"),
    _staged(96, "set_tid_address", "pointer:p"),
    _row(97, "unshare", "privileged.unshare", "flags:x"),
    _staged(98, "futex", "address:p operation:u value:u timeout:p second:p third:u", "futex.futex"),
    _staged(99, "set_robust_list", "head:p length:n"),
    _row(100, "get_robust_list", "futex.get_robust_list", "pid:i head:p length:p"),
    _staged(101, "nanosleep", "wanted:p remaining:p"),
    _row(102, "getitimer", "timers.getitimer", "which:i value:p"),
    _row(103, "setitimer", "timers.setitimer", "which:i new:p old:p"),
    _row(104, "kexec_load", "privileged.not_permitted"),
    _row(105, "init_module", "privileged.not_permitted"),
    _row(106, "delete_module", "privileged.not_permitted"),
    _row(107, "timer_create", "timers.timer_create", "clock:i event:p timer:p"),
    _row(108, "timer_gettime", "timers.timer_gettime", "timer:i value:p"),
    _row(109, "timer_getoverrun", "timers.timer_getoverrun", "timer:i"),
    _row(110, "timer_settime", "timers.timer_settime", "timer:i flags:x new:p old:p"),
    _row(111, "timer_delete", "timers.timer_delete", "timer:i"),
    _row(112, "clock_settime", "time.clock_settime", "clock:i time:p"),
    _staged(113, "clock_gettime", "clock:i time:p"),
    _staged(114, "clock_getres", "clock:i resolution:p"),
    _row(115, "clock_nanosleep", "time.clock_nanosleep", "clock:i flags:x wanted:p remaining:p"),
    _row(116, "syslog", "privileged.syslog", "action:i buffer:p size:i"),
    _row(117, "ptrace", "tracing.ptrace", "request:l pid:l address:p data:p"),
    _row(118, "sched_setparam", "sched.sched_setparam", "pid:i parameters:p"),
    _row(119, "sched_setscheduler", "sched.sched_setscheduler", "pid:i policy:i parameters:p"),
    _row(120, "sched_getscheduler", "sched.sched_getscheduler", "pid:i"),
    _row(121, "sched_getparam", "sched.sched_getparam", "pid:i parameters:p"),
    _row(122, "sched_setaffinity", "sched.sched_setaffinity", "pid:i size:u mask:p"),
    _row(123, "sched_getaffinity", "sched.sched_getaffinity", "pid:i size:u mask:p"),
    _staged(124, "sched_yield"),
    _row(125, "sched_get_priority_max", "sched.sched_get_priority_max", "policy:i"),
    _row(126, "sched_get_priority_min", "sched.sched_get_priority_min", "policy:i"),
    _row(127, "sched_rr_get_interval", "sched.sched_rr_get_interval", "pid:i interval:p"),
    _row(128, "restart_syscall", "signals.restart_syscall"),
    _row(129, "kill", "signals.kill", "pid:i signal:i"),
    _row(130, "tkill", "signals.tkill", "tid:i signal:i"),
    _row(131, "tgkill", "signals.tgkill", "pid:i tid:i signal:i"),
    _row(132, "sigaltstack", "signals.sigaltstack", "new:p old:p"),
    _row(133, "rt_sigsuspend", "signals.rt_sigsuspend", "mask:p size:n"),
    _staged(134, "rt_sigaction", "signal:i new:p old:p size:n"),
    _staged(135, "rt_sigprocmask", "how:i new:p old:p size:n"),
    _row(136, "rt_sigpending", "signals.rt_sigpending", "set:p size:n"),
    _row(137, "rt_sigtimedwait", "signals.rt_sigtimedwait", "mask:p info:p timeout:p size:n"),
    _row(138, "rt_sigqueueinfo", "signals.rt_sigqueueinfo", "pid:i signal:i info:p"),
    _row(140, "setpriority", "sched.setpriority", "which:i who:i priority:i"),
    _row(141, "getpriority", "sched.getpriority", "which:i who:i"),
    _row(142, "reboot", "privileged.not_permitted"),
    _row(143, "setregid", "identity.setregid", "real:u effective:u"),
    _row(144, "setgid", "identity.setgid", "gid:u"),
    _row(145, "setreuid", "identity.setreuid", "real:u effective:u"),
    _row(146, "setuid", "identity.setuid", "uid:u"),
    _row(147, "setresuid", "identity.setresuid", "real:u effective:u saved:u"),
    _row(148, "getresuid", "identity.getresuid", "real:p effective:p saved:p"),
    _row(149, "setresgid", "identity.setresgid", "real:u effective:u saved:u"),
    _row(150, "getresgid", "identity.getresgid", "real:p effective:p saved:p"),
    _row(151, "setfsuid", "identity.setfsuid", "uid:u"),
    _row(152, "setfsgid", "identity.setfsgid", "gid:u"),
    _row(153, "times", "time.times", "buffer:p"),
    _row(154, "setpgid", "identity.setpgid", "pid:i group:i"),
    _row(155, "getpgid", "identity.getpgid", "pid:i"),
    _row(156, "getsid", "identity.getpgid", "pid:i"),
    _row(157, "setsid", "identity.setsid"),
    _row(158, "getgroups", "identity.getgroups", "size:i groups:p"),
    _row(159, "setgroups", "identity.setgroups", "size:i groups:p"),
    _staged(160, "uname", "buffer:p"),
    _row(161, "sethostname", "privileged.not_permitted"),
    _row(162, "setdomainname", "privileged.not_permitted"),
    _staged(163, "getrlimit", "resource:u limit:p"),
    _row(164, "setrlimit", "limits.setrlimit", "resource:u limit:p"),
    _row(165, "getrusage", "limits.getrusage", "who:i usage:p"),
    _row(166, "umask", "process.umask", "mask:o"),
    _staged(167, "prctl", "option:i first:p second:p third:p fourth:p", "prctl.prctl"),
    _row(168, "getcpu", "sched.getcpu", "cpu:p node:p cache:p"),
    _staged(169, "gettimeofday", "time:p zone:p"),
    _row(170, "settimeofday", "time.settimeofday", "time:p zone:p"),
    _row(171, "adjtimex", "time.adjtimex", "buffer:p"),
    _staged(172, "getpid"),
    _staged(173, "getppid"),
    _staged(174, "getuid"),
    _staged(175, "geteuid"),
    _staged(176, "getgid"),
    _staged(177, "getegid"),
    _staged(178, "gettid"),
    _row(179, "sysinfo", "process.sysinfo", "info:p"),
    _row(180, "mq_open", "mqueues.mq_open", "name:s flags:x mode:o attributes:p"),
    _row(181, "mq_unlink", "mqueues.mq_unlink", "name:s"),
    _row(182, "mq_timedsend", "mqueues.mq_timedsend", "fd:i message:p size:n priority:u timeout:p"),
    _row(183, "mq_timedreceive", "mqueues.mq_timedreceive", "fd:i message:p size:n priority:p timeout:p"),
    _row(184, "mq_notify", "mqueues.mq_notify", "fd:i event:p"),
    _row(185, "mq_getsetattr", "mqueues.mq_getsetattr", "fd:i new:p old:p"),
    _row(186, "msgget", "queues.msgget", "key:i flags:x"),
    _row(187, "msgctl", "queues.msgctl", "queue:i command:i buffer:p"),
    _row(188, "msgrcv", "queues.msgrcv", "queue:i message:p size:n type:l flags:x"),
    _row(189, "msgsnd", "queues.msgsnd", "queue:i message:p size:n flags:x"),
    _row(190, "semget", "semaphores.semget", "key:i count:i flags:x"),
    _row(191, "semctl", "semaphores.semctl", "set:i number:i command:i argument:p"),
    _row(192, "semtimedop", "semaphores.semtimedop", "set:i operations:p count:u timeout:p"),
    _row(193, "semop", "semaphores.semop", "set:i operations:p count:u"),
    _row(194, "shmget", "segments.shmget", "key:i size:n flags:x"),
    _row(195, "shmctl", "segments.shmctl", "segment:i command:i buffer:p"),
    _row(196, "shmat", "segments.shmat", "segment:i address:p flags:x"),
    _row(197, "shmdt", "segments.shmdt", "address:p"),
    _row(198, "socket", "sockets.socket", "family:i kind:x protocol:i"),
    _row(199, "socketpair", "sockets.socketpair", "family:i kind:x protocol:i ends:p"),
    _row(200, "bind", "sockets.bind", "fd:i address:p length:i"),
    _row(201, "listen", "sockets.listen", "fd:i backlog:i"),
    _row(202, "accept", "sockets.accept", "fd:i address:p length:p"),
    _row(203, "connect", "sockets.connect", "fd:i address:p length:i"),
    _row(204, "getsockname", "sockets.getsockname", "fd:i address:p length:p"),
    _row(205, "getpeername", "sockets.getpeername", "fd:i address:p length:p"),
    _row(206, "sendto", "messages.sendto", "fd:i buffer:p size:n flags:x address:p length:i"),
    _row(207, "recvfrom", "messages.recvfrom", "fd:i buffer:p size:n flags:x address:p length:p"),
    _row(208, "setsockopt", "socket_options.setsockopt", "fd:i level:i option:i value:p length:i"),
    _row(209, "getsockopt", "socket_options.getsockopt", "fd:i level:i option:i value:p length:p"),
    _row(210, "shutdown", "sockets.shutdown", "fd:i how:i"),
    _row(211, "sendmsg", "messages.sendmsg", "fd:i message:p flags:x"),
    _row(212, "recvmsg", "messages.recvmsg", "fd:i message:p flags:x"),
    _row(213, "readahead", "descriptors.readahead", "fd:i offset:l count:n"),
    _row(214, "brk", "mappings.brk", "address:p"),
    _row(215, "munmap", "mappings.munmap", "address:p length:n"),
    _row(216, "mremap", "remap.mremap", "old:p old_length:n new_length:n flags:x new:p"),
    _row(220, "clone", "process.not_possible"),
    _row(221, "execve", "process.not_possible"),
    _row(222, "mmap", "mappings.mmap", "address:p length:n prot:x flags:x fd:i offset:n"),
    _row(223, "fadvise64", "descriptors.fadvise64", "fd:i offset:l size:l advice:i"),
    _row(224, "swapon", "privileged.swapon", "path:s flags:x"),
    _row(225, "swapoff", "privileged.not_permitted"),
    _row(226, "mprotect", "mappings.mprotect", "address:p length:n prot:x"),
    _row(227, "msync", "mappings.msync", "address:p length:n flags:x"),
    _row(228, "mlock", "advice.mlock", "address:p length:n"),
    _row(229, "munlock", "advice.munlock", "address:p length:n"),
    _row(230, "mlockall", "advice.mlockall", "flags:x"),
    _row(231, "munlockall", "advice.munlockall"),
    _row(232, "mincore", "mappings.mincore", "address:p length:n vector:p"),
    _row(233, "madvise", "advice.madvise", "address:p length:n advice:i"),
    _row(235, "mbind", "numa.mbind", "address:p length:n mode:i nodes:p count:n flags:x"),
    _row(236, "get_mempolicy", "numa.get_mempolicy", "mode:p nodes:p count:n address:p flags:x"),
    _row(237, "set_mempolicy", "numa.set_mempolicy", "mode:i nodes:p count:n"),
    _row(238, "migrate_pages", "numa.migrate_pages", "pid:i count:n old:p new:p"),
    _row(239, "move_pages", "numa.move_pages", "pid:i count:n pages:p nodes:p status:p flags:x"),
    _row(240, "rt_tgsigqueueinfo", "signals.rt_tgsigqueueinfo", "pid:i tid:i signal:i info:p"),
    _row(242, "accept4", "sockets.accept4", "fd:i address:p length:p flags:x"),
    _row(243, "recvmmsg", "messages.recvmmsg", "fd:i messages:p count:u flags:x timeout:p"),
    _row(260, "wait4", "tracing.wait4", "pid:i status:p options:x usage:p"),
    _staged(261, "prlimit64", "pid:i resource:u new:p old:p", "limits.prlimit64"),
    _row(262, "fanotify_init", "privileged.not_permitted"),
    _row(266, "clock_adjtime", "time.clock_adjtime", "clock:i buffer:p"),
    _row(264, "name_to_handle_at", "handles.name_to_handle_at", "dirfd:i path:s handle:p mount:p flags:x"),
    _row(265, "open_by_handle_at", "privileged.not_permitted"),
    _row(267, "syncfs", "descriptors.syncfs", "fd:i"),
    _row(268, "setns", "privileged.setns", "fd:i kind:x"),
    _row(269, "sendmmsg", "messages.sendmmsg", "fd:i messages:p count:u flags:x"),
    _row(270, "process_vm_readv", "tracing.process_vm_readv", _REMOTE),
    _row(271, "process_vm_writev", "tracing.process_vm_writev", _REMOTE),
    _row(272, "kcmp", "tracing.kcmp", "first:i second:i kind:i one:u other:u"),
    _row(273, "finit_module", "privileged.not_permitted"),
    _row(274, "sched_setattr", "sched.sched_setattr", "pid:i attributes:p flags:x"),
    _row(275, "sched_getattr", "sched.sched_getattr", "pid:i attributes:p size:u flags:x"),
    _row(276, "renameat2", "entries.renameat2", "old_dirfd:i old:s new_dirfd:i new:s flags:x"),
    _row(277, "seccomp", "seccomp.seccomp", "operation:u flags:x arguments:p"),
    _row(278, "getrandom", "process.getrandom", "buffer:p count:n flags:x"),
    _row(279, "memfd_create", "descriptors.memfd_create", "name:s flags:x"),
    _row(280, "bpf", "privileged.not_permitted"),
    _row(283, "membarrier", "numa.membarrier", "command:i flags:x cpu:i"),
    _row(284, "mlock2", "advice.mlock2", "address:p length:n flags:x"),
    _row(
        285,
        "copy_file_range",
        "splice.copy_file_range",
        "in_fd:i in_offset:p out_fd:i out_offset:p count:n flags:x",
    ),
    _row(286, "preadv2", "transfer.preadv2", "fd:i vector:p count:n low:l high:l flags:x"),
    _row(287, "pwritev2", "transfer.pwritev2", "fd:i vector:p count:n low:l high:l flags:x"),
    _row(291, "statx", "status.statx", "dirfd:i path:s flags:x mask:x buffer:p"),
    _row(424, "pidfd_send_signal", "pidfd.pidfd_send_signal", "pidfd:i signal:i info:p flags:x"),
    _row(434, "pidfd_open", "pidfd.pidfd_open", "pid:i flags:x"),
    _row(435, "clone3", "process.not_possible"),
    _row(436, "close_range", "descriptors.close_range", "first:u last:u flags:x"),
    _row(437, "openat2", "descriptors.openat2", "dirfd:i path:s how:p size:n"),
    _row(438, "pidfd_getfd", "pidfd.pidfd_getfd", "pidfd:i fd:i flags:x"),
    _row(439, "faccessat2", "status.faccessat2", "dirfd:i path:s mode:o flags:x"),
    _row(441, "epoll_pwait2", "events.epoll_pwait2", "epoll:i events:p most:i timeout:p mask:p size:n"),
    _row(451, "cachestat", "handles.cachestat", "fd:u range:p result:p flags:x"),
    _row(452, "fchmodat2", "attributes.fchmodat2", "dirfd:i path:s mode:o flags:x"),
    _row(457, "statmount", "handles.statmount", "request:p buffer:p size:n flags:x"),
]

TABLE: Final = {row.number: row for row in _ROWS}
"""System calls by number; all others return ENOSYS."""


def markdown() -> str:
    """The table as a page for the documentation."""
    lines = [
        "# System calls",
        "",
        "Generated by `docs/generate.py` from the table in the source. Every other number returns `ENOSYS`;",
        "`KVRM_TRACE=sys` prints one line for each call. *Resident* calls of lanes run in native code, in",
        "their usual cases, on the CPU and on a GPU.",
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
