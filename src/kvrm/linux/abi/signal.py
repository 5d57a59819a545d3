"""Signals."""

from __future__ import annotations

from typing import Final

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
