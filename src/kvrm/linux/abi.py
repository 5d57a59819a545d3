"""Constants of the Linux user interface on arm64 (the generic ABI: asm-generic/*.h and asm/*.h).

What does not depend on the architecture and is in Python's `stat` module (S_IFREG, ...) comes from there.
"""

from __future__ import annotations

from typing import Final

INT_MAX: Final = (1 << 31) - 1
PATH_MAX: Final = 4096
NAME_MAX: Final = 255
IOV_MAX: Final = 1024
MAX_RW_COUNT: Final = 0x7FFF_F000
"""Most bytes that one read or write transfers."""
PIPE_SIZE: Final = 65536
MAX_LINKS: Final = 40
"""Symbolic links followed in one path before ELOOP."""

# asm-generic/unistd.h
NR_READ: Final = 63
NR_PPOLL: Final = 73

# asm/fcntl.h, asm-generic/fcntl.h
O_ACCMODE: Final = 3
O_RDONLY: Final = 0
O_WRONLY: Final = 1
O_RDWR: Final = 2
O_CREAT: Final = 0o100
O_EXCL: Final = 0o200
O_NOCTTY: Final = 0o400
O_TRUNC: Final = 0o1000
O_APPEND: Final = 0o2000
O_NONBLOCK: Final = 0o4000
O_DIRECTORY: Final = 0o40000
O_NOFOLLOW: Final = 0o100000
O_DIRECT: Final = 0o200000
O_LARGEFILE: Final = 0o400000
O_NOATIME: Final = 0o1000000
O_CLOEXEC: Final = 0o2000000
O_PATH: Final = 0o10000000
O_TMPFILE_ALONE: Final = 0o20000000
"""__O_TMPFILE, which is an error without O_DIRECTORY."""
O_TMPFILE: Final = O_TMPFILE_ALONE | O_DIRECTORY
SETTABLE_FLAGS: Final = O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME
"""What F_SETFL may change."""

F_DUPFD: Final = 0
F_GETFD: Final = 1
F_SETFD: Final = 2
F_GETFL: Final = 3
F_SETFL: Final = 4
F_GETLK: Final = 5
F_SETLK: Final = 6
F_SETLKW: Final = 7
F_SETOWN: Final = 8
F_GETOWN: Final = 9
F_OFD_GETLK: Final = 36
F_OFD_SETLK: Final = 37
F_OFD_SETLKW: Final = 38
F_DUPFD_CLOEXEC: Final = 1030
F_SETPIPE_SZ: Final = 1031
F_GETPIPE_SZ: Final = 1032
F_RDLCK: Final = 0
F_WRLCK: Final = 1
F_UNLCK: Final = 2
F_GETLEASE: Final = 1025
F_ADD_SEALS: Final = 1033
F_GET_SEALS: Final = 1034
F_SEAL_SEAL: Final = 1
F_SEAL_SHRINK: Final = 2
F_SEAL_GROW: Final = 4
F_SEAL_WRITE: Final = 8
F_SEAL_FUTURE_WRITE: Final = 16
F_SEAL_EXEC: Final = 32
F_SEALS_OF_WRITING: Final = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE
FD_CLOEXEC: Final = 1

AT_FDCWD: Final = -100
AT_SYMLINK_NOFOLLOW: Final = 0x100
AT_REMOVEDIR: Final = 0x200
AT_EACCESS: Final = 0x200
AT_SYMLINK_FOLLOW: Final = 0x400
AT_NO_AUTOMOUNT: Final = 0x800
AT_EMPTY_PATH: Final = 0x1000
AT_HANDLE_FID: Final = 0x200
AT_STATX_SYNC_TYPE: Final = 0x6000

XATTR_CREATE: Final = 1
XATTR_REPLACE: Final = 2
MFD_CLOEXEC: Final = 1
MFD_ALLOW_SEALING: Final = 2
MFD_NOEXEC_SEAL: Final = 8
MFD_EXEC: Final = 16
MFD_NAME_MAX: Final = 249
RENAME_NOREPLACE: Final = 1
RENAME_EXCHANGE: Final = 2
RENAME_WHITEOUT: Final = 4
UTIME_NOW: Final = 0x3FFFFFFF
UTIME_OMIT: Final = 0x3FFFFFFE
STATX_BASIC_STATS: Final = 0x7FF
STATX_RESERVED: Final = 0x8000_0000

# linux/fs.h
RWF_HIPRI: Final = 0x01
RWF_DSYNC: Final = 0x02
RWF_SYNC: Final = 0x04
RWF_NOWAIT: Final = 0x08
RWF_APPEND: Final = 0x10
RWF_NOAPPEND: Final = 0x20

POSIX_FADV_NOREUSE: Final = 5

# linux/falloc.h
FALLOC_FL_KEEP_SIZE: Final = 0x01
FALLOC_FL_PUNCH_HOLE: Final = 0x02
FALLOC_FL_COLLAPSE_RANGE: Final = 0x08
FALLOC_FL_ZERO_RANGE: Final = 0x10
FALLOC_FL_INSERT_RANGE: Final = 0x20
FALLOC_FL_UNSHARE_RANGE: Final = 0x40

SEEK_SET: Final = 0
SEEK_CUR: Final = 1
SEEK_END: Final = 2
SEEK_DATA: Final = 3
SEEK_HOLE: Final = 4

R_OK: Final = 4
W_OK: Final = 2
X_OK: Final = 1

FIONCLEX: Final = 0x5450
FIOCLEX: Final = 0x5451
FIONBIO: Final = 0x5421
SIOCOUTQ: Final = 0x5411
FIONREAD: Final = 0x541B

POLLIN: Final = 0x1
POLLPRI: Final = 0x2
POLLOUT: Final = 0x4
POLLERR: Final = 0x8
POLLHUP: Final = 0x10
POLLNVAL: Final = 0x20
POLLRDNORM: Final = 0x40
POLLRDBAND: Final = 0x80
POLLWRNORM: Final = 0x100
POLLWRBAND: Final = 0x200
POLLRDHUP: Final = 0x2000
EPOLLEXCLUSIVE: Final = 1 << 28
EPOLLWAKEUP: Final = 1 << 29
EPOLLONESHOT: Final = 1 << 30
EPOLLET: Final = 1 << 31
IN_ACCESS: Final = 1
IN_MODIFY: Final = 2
IN_ATTRIB: Final = 4
IN_CLOSE_WRITE: Final = 8
IN_CLOSE_NOWRITE: Final = 0x10
IN_OPEN: Final = 0x20
IN_MOVED_FROM: Final = 0x40
IN_MOVED_TO: Final = 0x80
IN_CREATE: Final = 0x100
IN_DELETE: Final = 0x200
IN_DELETE_SELF: Final = 0x400
IN_MOVE_SELF: Final = 0x800
IN_ALL_EVENTS: Final = 0xFFF
IN_UNMOUNT: Final = 0x2000
IN_Q_OVERFLOW: Final = 0x4000
IN_IGNORED: Final = 0x8000
IN_ONLYDIR: Final = 0x1000000
IN_DONT_FOLLOW: Final = 0x2000000
IN_EXCL_UNLINK: Final = 0x4000000
IN_MASK_CREATE: Final = 0x10000000
IN_MASK_ADD: Final = 0x20000000
IN_ISDIR: Final = 0x40000000
IN_ONESHOT: Final = 0x80000000
EPOLL_CTL_ADD: Final = 1
EPOLL_CTL_DEL: Final = 2
EPOLL_CTL_MOD: Final = 3

# asm-generic/mman-common.h, mman.h, linux/mman.h, asm/mman.h
PROT_RWX: Final = 7
PROT_SEM: Final = 8
PROT_BTI: Final = 0x10
PROT_GROWSDOWN: Final = 0x0100_0000
PROT_GROWS: Final = 0x0300_0000
MAP_SHARED: Final = 1
MAP_PRIVATE: Final = 2
MAP_SHARED_VALIDATE: Final = 3
MAP_TYPE: Final = 0xF
MAP_FIXED: Final = 0x10
MAP_ANONYMOUS: Final = 0x20
MAP_GROWSDOWN: Final = 0x100
MAP_LOCKED: Final = 0x2000
MAP_HUGETLB: Final = 0x40000
MAP_FIXED_NOREPLACE: Final = 0x100000
LEGACY_MAP_FLAGS: Final = 0x7C07_F930
"""Flags of mmap that MAP_SHARED_VALIDATE knows, besides the type."""
MREMAP_MAYMOVE: Final = 1
MREMAP_FIXED: Final = 2
MREMAP_DONTUNMAP: Final = 4
MS_ASYNC: Final = 1
MS_INVALIDATE: Final = 2
MS_SYNC: Final = 4
MLOCK_ONFAULT: Final = 1
MCL_CURRENT: Final = 1
MCL_FUTURE: Final = 2
MCL_ONFAULT: Final = 4
MADV_NORMAL: Final = 0
MADV_RANDOM: Final = 1
MADV_SEQUENTIAL: Final = 2
MADV_WILLNEED: Final = 3
MADV_DONTNEED: Final = 4
MADV_FREE: Final = 8
MADV_REMOVE: Final = 9
MADV_DONTFORK: Final = 10
MADV_DOFORK: Final = 11
MADV_MERGEABLE: Final = 12
MADV_UNMERGEABLE: Final = 13
MADV_HUGEPAGE: Final = 14
MADV_NOHUGEPAGE: Final = 15
MADV_DONTDUMP: Final = 16
MADV_DODUMP: Final = 17
MADV_WIPEONFORK: Final = 18
MADV_KEEPONFORK: Final = 19
MADV_COLD: Final = 20
MADV_PAGEOUT: Final = 21
MADV_POPULATE_READ: Final = 22
MADV_POPULATE_WRITE: Final = 23
MADV_DONTNEED_LOCKED: Final = 24
MADV_COLLAPSE: Final = 25

# linux/personality.h
READ_IMPLIES_EXEC: Final = 0x0040_0000

# asm-generic/signal.h
SIGILL: Final = 4
SIGTRAP: Final = 5
SIGBUS: Final = 7
SIGFPE: Final = 8
SIGKILL: Final = 9
SIGSEGV: Final = 11
SIGPIPE: Final = 13
SIGALRM: Final = 14
SIGCHLD: Final = 17
SIGCONT: Final = 18
SIGSTOP: Final = 19
SIGTSTP: Final = 20
SIGTTIN: Final = 21
SIGTTOU: Final = 22
SIGURG: Final = 23
SIGVTALRM: Final = 26
SIGPROF: Final = 27
SIGXCPU: Final = 24
SIGXFSZ: Final = 25
SIGWINCH: Final = 28
SIGSYS: Final = 31
NSIG: Final = 64
SIG_DFL: Final = 0
SIG_IGN: Final = 1
SIG_BLOCK: Final = 0
SIG_UNBLOCK: Final = 1
SIG_SETMASK: Final = 2
SA_FLAGS: Final = 0xDC00_0807
"""The flags of rt_sigaction that the kernel knows; it keeps no others."""
SS_ONSTACK: Final = 1
SS_DISABLE: Final = 2
SS_AUTODISARM: Final = 1 << 31
MINSIGSTKSZ: Final = 5120

# asm-generic/siginfo.h
SI_USER: Final = 0
SI_KERNEL: Final = 0x80
SI_QUEUE: Final = -1
SI_TIMER: Final = -2
SI_MESGQ: Final = -3
SI_TKILL: Final = -6
SI_DETHREAD: Final = -7
SI_ASYNCNL: Final = -60

SIGNAL_NAMES: Final = (
    "0 HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP "
    "TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS"
).split()


def signal_name(number: int) -> str:
    """SIGTERM for 15; real-time signals are SIGRTMIN+n, counted from 34 as glibc does."""
    if number < len(SIGNAL_NAMES):
        return f"SIG{SIGNAL_NAMES[number]}"
    return f"SIGRTMIN+{number - 34}" if number >= 34 else f"SIG{number}"


# linux/ipc.h, sem.h, msg.h, shm.h
IPC_PRIVATE: Final = 0
IPC_CREAT: Final = 0o1000
IPC_EXCL: Final = 0o2000
IPC_NOWAIT: Final = 0o4000
IPC_RMID: Final = 0
IPC_SET: Final = 1
IPC_STAT: Final = 2
GETPID: Final = 11
GETVAL: Final = 12
GETALL: Final = 13
GETNCNT: Final = 14
GETZCNT: Final = 15
SETVAL: Final = 16
SETALL: Final = 17
MSG_NOERROR: Final = 0o10000
MSG_EXCEPT: Final = 0o20000
MSG_COPY: Final = 0o40000
SHM_LOCK: Final = 11
SHM_UNLOCK: Final = 12
SHM_RDONLY: Final = 0o10000
SHM_RND: Final = 0o20000
SHM_REMAP: Final = 0o40000

# linux/socket.h, asm-generic/socket.h, linux/net.h
AF_UNSPEC: Final = 0
AF_UNIX: Final = 1
SOCK_STREAM: Final = 1
SOCK_DGRAM: Final = 2
SOCK_RAW: Final = 3
SOCK_SEQPACKET: Final = 5
MSG_OOB: Final = 1
MSG_PEEK: Final = 2
MSG_CTRUNC: Final = 8
MSG_TRUNC: Final = 0x20
MSG_DONTWAIT: Final = 0x40
MSG_NOSIGNAL: Final = 0x4000
MSG_WAITFORONE: Final = 0x10000
MSG_CMSG_CLOEXEC: Final = 0x4000_0000
SCM_RIGHTS: Final = 1
SCM_CREDENTIALS: Final = 2
SOL_SOCKET: Final = 1
SO_DEBUG: Final = 1
SO_REUSEADDR: Final = 2
SO_TYPE: Final = 3
SO_ERROR: Final = 4
SO_DONTROUTE: Final = 5
SO_BROADCAST: Final = 6
SO_SNDBUF: Final = 7
SO_RCVBUF: Final = 8
SO_KEEPALIVE: Final = 9
SO_OOBINLINE: Final = 10
SO_PRIORITY: Final = 12
SO_LINGER: Final = 13
SO_PASSCRED: Final = 16
SO_PEERCRED: Final = 17
SO_RCVLOWAT: Final = 18
SO_SNDLOWAT: Final = 19
SO_RCVTIMEO: Final = 20
SO_SNDTIMEO: Final = 21
SO_TIMESTAMP: Final = 29
SO_ACCEPTCONN: Final = 30
SO_PASSSEC: Final = 34
SO_MARK: Final = 36
SO_PROTOCOL: Final = 38
SO_DOMAIN: Final = 39

# linux/futex.h
FUTEX_WAIT: Final = 0
FUTEX_WAKE: Final = 1
FUTEX_REQUEUE: Final = 3
FUTEX_CMP_REQUEUE: Final = 4
FUTEX_WAKE_OP: Final = 5
FUTEX_LOCK_PI: Final = 6
FUTEX_UNLOCK_PI: Final = 7
FUTEX_TRYLOCK_PI: Final = 8
FUTEX_WAIT_BITSET: Final = 9
FUTEX_WAKE_BITSET: Final = 10
FUTEX_WAIT_REQUEUE_PI: Final = 11
FUTEX_CMP_REQUEUE_PI: Final = 12
FUTEX_LOCK_PI2: Final = 13
FUTEX_PRIVATE: Final = 128
FUTEX_CLOCK_REALTIME: Final = 256

# linux/time.h
CLOCK_REALTIME: Final = 0
CLOCK_MONOTONIC: Final = 1
CLOCK_PROCESS_CPUTIME_ID: Final = 2
CLOCK_THREAD_CPUTIME_ID: Final = 3
CLOCK_MONOTONIC_RAW: Final = 4
CLOCK_REALTIME_COARSE: Final = 5
CLOCK_MONOTONIC_COARSE: Final = 6
CLOCK_BOOTTIME: Final = 7
CLOCK_REALTIME_ALARM: Final = 8
CLOCK_BOOTTIME_ALARM: Final = 9
CLOCK_TAI: Final = 11
TIMER_ABSTIME: Final = 1
CLOCK_TICKS: Final = 100
"""Units of times(2) in a second (AT_CLKTCK)."""

# linux/time.h
ITIMER_REAL: Final = 0
SIGEV_SIGNAL: Final = 0
SIGEV_NONE: Final = 1
SIGEV_THREAD: Final = 2
SIGEV_THREAD_ID: Final = 4

# asm-generic/resource.h
RLIMIT_CPU: Final = 0
RLIMIT_FSIZE: Final = 1
RLIMIT_DATA: Final = 2
RLIMIT_STACK: Final = 3
RLIMIT_CORE: Final = 4
RLIMIT_RSS: Final = 5
RLIMIT_NPROC: Final = 6
RLIMIT_NOFILE: Final = 7
RLIMIT_MEMLOCK: Final = 8
RLIMIT_AS: Final = 9
RLIMIT_LOCKS: Final = 10
RLIMIT_SIGPENDING: Final = 11
RLIMIT_MSGQUEUE: Final = 12
RLIMIT_NICE: Final = 13
RLIMIT_RTPRIO: Final = 14
RLIMIT_RTTIME: Final = 15
RUSAGE_SELF: Final = 0
RUSAGE_CHILDREN: Final = -1
RUSAGE_THREAD: Final = 1
RLIM_NLIMITS: Final = 16
RLIM_INFINITY: Final = (1 << 64) - 1

# linux/prctl.h
PR_SET_PDEATHSIG: Final = 1
PR_GET_PDEATHSIG: Final = 2
PR_GET_DUMPABLE: Final = 3
PR_SET_DUMPABLE: Final = 4
PR_GET_KEEPCAPS: Final = 7
PR_SET_KEEPCAPS: Final = 8
PR_GET_TIMING: Final = 13
PR_SET_TIMING: Final = 14
PR_SET_NAME: Final = 15
PR_GET_NAME: Final = 16
PR_GET_SECCOMP: Final = 21
PR_SET_SECCOMP: Final = 22
PR_CAPBSET_READ: Final = 23
PR_CAPBSET_DROP: Final = 24
PR_GET_SECUREBITS: Final = 27
PR_SET_SECUREBITS: Final = 28
PR_SET_TIMERSLACK: Final = 29
PR_GET_TIMERSLACK: Final = 30
PR_TASK_PERF_EVENTS_DISABLE: Final = 31
PR_TASK_PERF_EVENTS_ENABLE: Final = 32
PR_MCE_KILL: Final = 33
PR_MCE_KILL_CLEAR: Final = 0
PR_MCE_KILL_SET: Final = 1
PR_MCE_KILL_DEFAULT: Final = 2
PR_MCE_KILL_GET: Final = 34
PR_SET_MM: Final = 35
PR_SET_CHILD_SUBREAPER: Final = 36
PR_GET_CHILD_SUBREAPER: Final = 37
PR_SET_NO_NEW_PRIVS: Final = 38
PR_GET_NO_NEW_PRIVS: Final = 39
PR_GET_TID_ADDRESS: Final = 40
PR_SET_THP_DISABLE: Final = 41
PR_GET_THP_DISABLE: Final = 42
PR_CAP_AMBIENT: Final = 47
PR_CAP_AMBIENT_IS_SET: Final = 1
PR_CAP_AMBIENT_RAISE: Final = 2
PR_CAP_AMBIENT_LOWER: Final = 3
PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
PR_GET_SPECULATION_CTRL: Final = 52
PR_SET_SPECULATION_CTRL: Final = 53
PR_SPEC_STORE_BYPASS: Final = 0
PR_SET_TAGGED_ADDR_CTRL: Final = 55
PR_GET_TAGGED_ADDR_CTRL: Final = 56
PR_SET_IO_FLUSHER: Final = 57
PR_GET_IO_FLUSHER: Final = 58

# linux/securebits.h, linux/capability.h
SECBIT_KEEP_CAPS: Final = 16
CAP_LAST_CAP: Final = 40

# linux/sched.h, uapi/linux/sched/types.h, linux/ioprio.h, linux/resource.h
SCHED_OTHER: Final = 0
SCHED_FIFO: Final = 1
SCHED_RR: Final = 2
SCHED_BATCH: Final = 3
SCHED_IDLE: Final = 5
SCHED_DEADLINE: Final = 6
SCHED_RESET_ON_FORK: Final = 0x4000_0000
SCHED_FLAG_RESET_ON_FORK: Final = 1
SCHED_FLAG_KEEP_POLICY: Final = 8
SCHED_FLAG_KEEP_PARAMS: Final = 0x10
SCHED_FLAG_UTIL_CLAMP: Final = 0x60
SCHED_FLAG_ALL: Final = 0x7F
PRIO_PROCESS: Final = 0
PRIO_USER: Final = 2
IOPRIO_WHO_PROCESS: Final = 1
IOPRIO_WHO_USER: Final = 3
IOPRIO_CLASS_RT: Final = 1
IOPRIO_CLASS_BE: Final = 2
IOPRIO_CLASS_IDLE: Final = 3

# linux/sched.h: what unshare knows, and what of it is a name space
CLONE_UNSHARED: Final = 0x7E07_0F80
CLONE_NAMESPACES: Final = 0x7E02_0080

# linux/kcmp.h, linux/ptrace.h, linux/wait.h
KCMP_FILE: Final = 0
KCMP_SYSVSEM: Final = 6
PTRACE_TRACEME: Final = 0
PTRACE_ATTACH: Final = 16
PTRACE_SEIZE: Final = 0x4206
WAIT_STATES: Final = 0xE
WAIT4_OPTIONS: Final = 0xE000_000B
WAITID_OPTIONS: Final = 0xE100_000F
P_ALL: Final = 0
P_PID: Final = 1
P_PGID: Final = 2
P_PIDFD: Final = 3

# linux/seccomp.h
SECCOMP_MODE_DISABLED: Final = 0
SECCOMP_MODE_STRICT: Final = 1
SECCOMP_MODE_FILTER: Final = 2
SECCOMP_SET_MODE_STRICT: Final = 0
SECCOMP_SET_MODE_FILTER: Final = 1
SECCOMP_GET_ACTION_AVAIL: Final = 2
SECCOMP_GET_NOTIF_SIZES: Final = 3
SECCOMP_FILTER_FLAGS: Final = 0x7
"""TSYNC, LOG and SPEC_ALLOW, which make no difference to one thread."""
SECCOMP_RET_KILL_PROCESS: Final = 0x8000_0000
SECCOMP_RET_KILL_THREAD: Final = 0
SECCOMP_RET_TRAP: Final = 0x0003_0000
SECCOMP_RET_ERRNO: Final = 0x0005_0000
SECCOMP_RET_TRACE: Final = 0x7FF0_0000
SECCOMP_RET_LOG: Final = 0x7FFC_0000
SECCOMP_RET_ALLOW: Final = 0x7FFF_0000
SECCOMP_STRICT_CALLS: Final = frozenset({NR_READ, 64, 93, 139})
"""read, write, exit and rt_sigreturn."""
MAX_ERRNO: Final = 4095

# linux/mempolicy.h
MPOL_DEFAULT: Final = 0
MPOL_PREFERRED: Final = 1
MPOL_INTERLEAVE: Final = 3
MPOL_LOCAL: Final = 4
MPOL_PREFERRED_MANY: Final = 5
MPOL_F_RELATIVE_NODES: Final = 1 << 14
MPOL_F_STATIC_NODES: Final = 1 << 15
MPOL_F_NODE: Final = 1
MPOL_F_ADDR: Final = 2
MPOL_F_MEMS_ALLOWED: Final = 4
MPOL_MF_MOVE: Final = 2
MPOL_MF_MOVE_ALL: Final = 4
MPOL_MF_VALID: Final = 7

# linux/membarrier.h
MEMBARRIER_QUERY: Final = 0
MEMBARRIER_PRIVATE_EXPEDITED: Final = 8
MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: Final = 16
MEMBARRIER_PRIVATE_EXPEDITED_SYNC_CORE: Final = 32
MEMBARRIER_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE: Final = 64
MEMBARRIER_ALL: Final = 0x7F
"""All commands but those for restartable sequences, which there are none of."""

SYNC_FILE_RANGE_FLAGS: Final = 7
GRND_FLAGS: Final = 7

# linux/magic.h
EXT2_SUPER_MAGIC: Final = 0xEF53
SYSFS_MAGIC: Final = 0x62656572
PIPEFS_MAGIC: Final = 0x50495045
ANON_INODE_FS_MAGIC: Final = 0x09041934
SOCKFS_MAGIC: Final = 0x534F434B
PID_FS_MAGIC: Final = 0x50494446
MQUEUE_MAGIC: Final = 0x19800202
PROC_SUPER_MAGIC: Final = 0x9FA0
TMPFS_MAGIC: Final = 0x01021994

# linux/auxvec.h
AT_NULL: Final = 0
AT_PHDR: Final = 3
AT_PHENT: Final = 4
AT_PHNUM: Final = 5
AT_PAGESZ: Final = 6
AT_BASE: Final = 7
AT_FLAGS: Final = 8
AT_ENTRY: Final = 9
AT_UID: Final = 11
AT_EUID: Final = 12
AT_GID: Final = 13
AT_EGID: Final = 14
AT_PLATFORM: Final = 15
AT_HWCAP: Final = 16
AT_CLKTCK: Final = 17
AT_SECURE: Final = 23
AT_RANDOM: Final = 25
AT_HWCAP2: Final = 26
AT_EXECFN: Final = 31
