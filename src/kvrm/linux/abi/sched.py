"""Time, limits and the control of processes."""

from __future__ import annotations

from typing import Final

# asm-generic/unistd.h
NR_READ: Final = 63
NR_PPOLL: Final = 73

INIT: Final = 1
"""The parent: another user's process, which is asked but not changed."""

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
