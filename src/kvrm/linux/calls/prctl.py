"""prctl: what a process sets about itself, and reads again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.calls.seccomp import add_filter, set_strict
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import DOUBLEWORD, WORD

if TYPE_CHECKING:
    from kvrm.linux.process import Process

DEFAULT_TIMER_SLACK: Final = 50_000
"""Nanoseconds."""
_NAME: Final = 16
_STRICT: Final = frozenset(
    {
        abi.PR_SET_NO_NEW_PRIVS,
        abi.PR_GET_NO_NEW_PRIVS,
        abi.PR_SET_THP_DISABLE,
        abi.PR_GET_THP_DISABLE,
        abi.PR_MCE_KILL,
        abi.PR_MCE_KILL_GET,
        abi.PR_SET_TAGGED_ADDR_CTRL,
        abi.PR_GET_TAGGED_ADDR_CTRL,
        abi.PR_GET_SPECULATION_CTRL,
        abi.PR_SET_SPECULATION_CTRL,
    }
)
"""Options that refuse arguments which they have no use for."""
_USED: Final = dict.fromkeys(
    (abi.PR_GET_NO_NEW_PRIVS, abi.PR_GET_THP_DISABLE, abi.PR_MCE_KILL_GET, abi.PR_GET_TAGGED_ADDR_CTRL), 0
) | dict.fromkeys((abi.PR_MCE_KILL, abi.PR_SET_SPECULATION_CTRL), 2)
"""How many arguments those have; 1 unless it is said here."""


@dataclass(frozen=True, slots=True)
class Controls:
    """What prctl and files of /proc/self set.

    `traced`: ptrace was asked to.

    A process that has no parent, no thread, no child and no capabilities is not changed by any of it.
    """

    death_signal: int = 0
    dumpable: int = 1
    securebits: int = 0
    timer_slack: int = DEFAULT_TIMER_SLACK
    subreaper: int = 0
    no_new_privs: int = 0
    thp_disable: int = 0
    mce_kill: int = abi.PR_MCE_KILL_DEFAULT
    tagged_addresses: int = 0
    traced: bool = False
    oom_score_adj: int = 0
    coredump_filter: int = 0x33


def prctl(process: Process, option: int, first: int, second: int, third: int, fourth: int) -> int:
    """Name, signals and permissions of the process: what is set is given back."""
    if option in _STRICT and any((first, second, third, fourth)[_USED.get(option, 1) :]):
        raise Failure(Errno.EINVAL)
    controls = process.controls
    match option:
        case abi.PR_SET_NAME:
            process.task.name = process.memory.read_cstring(first, _NAME - 1)
        case abi.PR_GET_PDEATHSIG:
            process.memory.write(first, WORD.pack(controls.death_signal))
        case abi.PR_GET_CHILD_SUBREAPER:
            process.memory.write(first, WORD.pack(controls.subreaper))
        case abi.PR_GET_TID_ADDRESS:
            process.memory.write(first, DOUBLEWORD.pack(process.task.clear_tid))
        case abi.PR_GET_DUMPABLE:
            return controls.dumpable
        case abi.PR_GET_SECUREBITS:
            return controls.securebits
        case abi.PR_GET_KEEPCAPS:
            return int(bool(controls.securebits & abi.SECBIT_KEEP_CAPS))
        case abi.PR_GET_TIMERSLACK:
            return controls.timer_slack
        case abi.PR_GET_NO_NEW_PRIVS:
            return controls.no_new_privs
        case abi.PR_GET_THP_DISABLE:
            return controls.thp_disable
        case abi.PR_MCE_KILL_GET:
            return controls.mce_kill
        case abi.PR_GET_TAGGED_ADDR_CTRL:
            return controls.tagged_addresses
        case abi.PR_GET_SPECULATION_CTRL | abi.PR_SET_SPECULATION_CTRL:
            return _speculation(option, first)
        case abi.PR_CAPBSET_READ | abi.PR_CAPBSET_DROP | abi.PR_CAP_AMBIENT:
            return _capabilities(option, first, second, third | fourth)
        case abi.PR_GET_SECCOMP:
            return process.task.seccomp.mode
        case abi.PR_SET_SECCOMP if first == abi.SECCOMP_MODE_STRICT:
            return set_strict(process)
        case abi.PR_SET_SECCOMP if first == abi.SECCOMP_MODE_FILTER:
            return add_filter(process, second)
        case abi.PR_GET_TIMING:
            return 0
        case abi.PR_TASK_PERF_EVENTS_DISABLE | abi.PR_TASK_PERF_EVENTS_ENABLE:
            return 0
        case abi.PR_SET_SECUREBITS | abi.PR_SET_IO_FLUSHER | abi.PR_GET_IO_FLUSHER:
            raise Failure(Errno.EPERM)
        case abi.PR_SET_MM:
            raise Failure(Errno.EINVAL if fourth else Errno.EPERM)
        case _:
            process.controls = _changed(controls, option, first, second)
    return 0


def _changed(controls: Controls, option: int, value: int, second: int) -> Controls:
    """The controls once an option has set one of them; EINVAL if that cannot be."""
    match option:
        case abi.PR_SET_PDEATHSIG if value <= abi.NSIG:
            return replace(controls, death_signal=value)
        case abi.PR_SET_DUMPABLE if value <= 1:
            return replace(controls, dumpable=value)
        case abi.PR_SET_KEEPCAPS if value <= 1:
            kept = controls.securebits & ~abi.SECBIT_KEEP_CAPS | value * abi.SECBIT_KEEP_CAPS
            return replace(controls, securebits=kept)
        case abi.PR_SET_TIMERSLACK:
            return replace(controls, timer_slack=value or DEFAULT_TIMER_SLACK)
        case abi.PR_SET_CHILD_SUBREAPER:
            return replace(controls, subreaper=int(bool(value)))
        case abi.PR_SET_NO_NEW_PRIVS if value == 1:
            return replace(controls, no_new_privs=1)
        case abi.PR_SET_THP_DISABLE:
            return replace(controls, thp_disable=int(bool(value)))
        case abi.PR_MCE_KILL if value == abi.PR_MCE_KILL_CLEAR and not second:
            return replace(controls, mce_kill=abi.PR_MCE_KILL_DEFAULT)
        case abi.PR_MCE_KILL if value == abi.PR_MCE_KILL_SET and second <= abi.PR_MCE_KILL_DEFAULT:
            return replace(controls, mce_kill=second)
        case abi.PR_SET_TAGGED_ADDR_CTRL if value <= 1:
            return replace(controls, tagged_addresses=value)
        case abi.PR_SET_TIMING if not value:
            return controls
        case _:
            raise Failure(Errno.EINVAL)


def _capabilities(option: int, first: int, second: int, rest: int) -> int:
    """The process has none, but could have got all of them by a program that gives them (as any user)."""
    match option:
        case abi.PR_CAPBSET_DROP:
            raise Failure(Errno.EPERM)
        case abi.PR_CAPBSET_READ:
            if first > abi.CAP_LAST_CAP:
                raise Failure(Errno.EINVAL)
            return 1
    if first == abi.PR_CAP_AMBIENT_CLEAR_ALL and not second and not rest:
        return 0
    known = (abi.PR_CAP_AMBIENT_IS_SET, abi.PR_CAP_AMBIENT_RAISE, abi.PR_CAP_AMBIENT_LOWER)
    if second > abi.CAP_LAST_CAP or rest or first not in known:
        raise Failure(Errno.EINVAL)
    if first == abi.PR_CAP_AMBIENT_RAISE:
        raise Failure(Errno.EPERM)
    return 0


def _speculation(option: int, which: int) -> int:
    """The processor is not affected, and there is nothing to control."""
    if which != abi.PR_SPEC_STORE_BYPASS:
        raise Failure(Errno.ENODEV)
    if option == abi.PR_SET_SPECULATION_CTRL:
        raise Failure(Errno.ENXIO)
    return 0
