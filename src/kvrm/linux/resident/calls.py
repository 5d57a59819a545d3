"""The staged system calls that need no more than words, and the guest's memory."""

from __future__ import annotations

from kvrm.linux import abi
from kvrm.linux.clock import CLOCKS, EPOCH, LATEST
from kvrm.linux.errno import Errno
from kvrm.linux.layout import BILLION
from kvrm.linux.resident.lane_view import U32, Lane
from kvrm.linux.resident.layout import (
    ACTION_BYTES,
    ACTION_WORDS,
    CWD,
    EXIT,
    LEAVE,
    LIMITS,
    LINK,
    NAME,
    TARGET,
    UTSNAME,
    Fixed,
    Word,
)
from kvrm.linux.signals import UNBLOCKABLE
from kvrm.staging.host import address, below, local

UTSNAME_BYTES = 390
ROBUST_HEAD = 24
"""Bytes of `struct robust_list_head`."""
LINK_BYTES = len(LINK) + 1
FIRST_OF_LINK, LAST_OF_LINK = (int.from_bytes(LINK[i : i + 8], "little") for i in (0, 8))
WHICH = 3
"""Bits of a negative clock's number: all of them are set where it has no time."""
KNOWN = [number for number, clock in CLOCKS.items() if not clock.read]
"""Clocks that need nothing but the lane's time."""
OF_DAY = [number for number in KNOWN if CLOCKS[number].offset]
OF_CPU = [number for number in KNOWN if CLOCKS[number].cpu]


# -- the process -----------------------------------------------------------------------------------------
def exit(lane: Lane, status: int) -> int:
    """End the lane."""
    lane.end(status & 0xFF)
    return EXIT


def getpid(lane: Lane) -> int:
    """The process's number, which is its thread's too."""
    return lane.fixed(Fixed.PID)


def getppid(lane: Lane) -> int:
    """Number 1, the same for all."""
    return abi.INIT


def getuid(lane: Lane) -> int:
    """The user."""
    return lane.fixed(Fixed.UID)


def getgid(lane: Lane) -> int:
    """The group."""
    return lane.fixed(Fixed.GID)


def sched_yield(lane: Lane) -> int:
    """There is no other thread."""
    return 0


def set_robust_list(lane: Lane, head: int, length: int) -> int:
    """List of locks to release at the end."""
    if length != ROBUST_HEAD:
        return -Errno.EINVAL
    lane.put(Word.ROBUST_LIST, head)
    return 0


def set_tid_address(lane: Lane, pointer: int) -> int:
    """Where to clear the thread number at the end."""
    lane.put(Word.CLEAR_TID, pointer)
    return lane.fixed(Fixed.PID)


def futex(lane: Lane, where: int, operation: int, value: int, timeout: int, other: int, mask: int) -> int:
    """Wake: there is no other thread, but a futex that processes share must be in memory."""
    command = operation & ~abi.FUTEX_PRIVATE
    if command not in (abi.FUTEX_WAKE, abi.FUTEX_WAKE_BITSET):
        return LEAVE
    if where & 3 or (command == abi.FUTEX_WAKE_BITSET and mask == 0):
        return -Errno.EINVAL
    word = local(1)
    if not operation & abi.FUTEX_PRIVATE and lane.read(where, 4, address(word)):
        return LEAVE
    return 0


def prlimit64(lane: Lane, pid: int, resource: int, new: int, old: int) -> int:
    """Read a limit of this process."""
    if new:
        return LEAVE
    if pid and pid != lane.fixed(Fixed.PID):
        return -Errno.EPERM if pid == abi.INIT else -Errno.ESRCH
    return getrlimit(lane, resource, old) if old or resource >= abi.RLIM_NLIMITS else 0


def getrlimit(lane: Lane, resource: int, limit: int) -> int:
    """Read a limit."""
    if resource >= abi.RLIM_NLIMITS:
        return -Errno.EINVAL
    return LEAVE if lane.write(limit, 16, lane.place(LIMITS + 2 * resource)) else 0


def uname(lane: Lane, buffer: int) -> int:
    """Names of the system."""
    return LEAVE if lane.write(buffer, UTSNAME_BYTES, lane.place(UTSNAME)) else 0


def rt_sigaction(lane: Lane, signal: int, new: int, old: int, size: int) -> int:
    """Set what a signal does. A handler is stored, but a signal that would call it stops the run."""
    if size != 8:
        return -Errno.EINVAL
    given = local(ACTION_WORDS)
    if new and lane.read(new, ACTION_BYTES, address(given)):
        return LEAVE
    if not below(signal - 1, abi.NSIG) or (new and signal in (abi.SIGKILL, abi.SIGSTOP)):
        return -Errno.EINVAL
    if lane.fixed(Fixed.PENDING):
        return LEAVE
    before = local(ACTION_WORDS)
    lane.get_action(signal, address(before))
    if new:
        given[1] &= abi.SA_FLAGS
        given[3] &= ~UNBLOCKABLE
        lane.set_action(signal, address(given))
    if old and lane.write(old, ACTION_BYTES, address(before)):
        lane.set_action(signal, address(before))
        return LEAVE
    return 0


def rt_sigprocmask(lane: Lane, how: int, new: int, old: int, size: int) -> int:
    """Block and unblock signals."""
    if size != 8:
        return -Errno.EINVAL
    if lane.fixed(Fixed.PENDING):
        return LEAVE
    before = lane.word(Word.BLOCKED)
    after = before
    mask = local(1)
    if new:
        if lane.read(new, 8, address(mask)):
            return LEAVE
        if not below(how, abi.SIG_SETMASK + 1):
            return -Errno.EINVAL
        after = mask[0]
        if how == abi.SIG_BLOCK:
            after = before | mask[0]
        if how == abi.SIG_UNBLOCK:
            after = before & ~mask[0]
        lane.put(Word.BLOCKED, after & ~UNBLOCKABLE)
    mask[0] = before
    if old and lane.write(old, 8, address(mask)):
        lane.put(Word.BLOCKED, before)
        return LEAVE
    return 0


def prctl(lane: Lane, option: int, first: int, second: int, third: int, fourth: int) -> int:
    """The process's name."""
    if option & U32 != abi.PR_GET_NAME:
        return LEAVE
    return LEAVE if lane.write(first, 16, lane.place(NAME)) else 0


def getcwd(lane: Lane, buffer: int, size: int) -> int:
    """Path of the current directory; the result counts its final zero byte."""
    length = lane.fixed(Fixed.CWD_BYTES)
    if length < 0:
        return length
    if below(size, length):
        return -Errno.ERANGE
    return LEAVE if lane.write(buffer, length, lane.place(CWD)) else length


def readlinkat(lane: Lane, directory: int, path: int, buffer: int, size: int) -> int:
    """The target of LINK."""
    name = local(2)
    name[0] = 0
    name[1] = 0
    if lane.read(path, LINK_BYTES, address(name)) or name[0] != FIRST_OF_LINK or name[1] != LAST_OF_LINK:
        return LEAVE
    count = min(lane.fixed(Fixed.LINK_BYTES), size)
    if count <= 0 or lane.write(buffer, count, lane.place(TARGET)):
        return LEAVE
    return count


# -- time ------------------------------------------------------------------------------------------------
def uptime(lane: Lane) -> int:
    """CLOCK_MONOTONIC, nanoseconds."""
    return lane.retired() + lane.word(Word.SKIPPED)


def now(lane: Lane, clock: int) -> int:
    """The time of a clock, nanoseconds; below 0 what the call returns if it has none.

    Negative numbers are of processor time, of a process or thread, or of a device.
    """
    if clock < 0:
        process = ~(clock >> 3)
        mine = clock & WHICH != WHICH and (process == 0 or process == lane.fixed(Fixed.PID))
        return lane.retired() if mine else -Errno.EINVAL
    if clock not in KNOWN:
        return -Errno.EINVAL
    if clock in OF_CPU:
        return lane.retired()
    return uptime(lane) + EPOCH * BILLION if clock in OF_DAY else uptime(lane)


def write_pair(lane: Lane, to: int, first: int, second: int) -> int:
    """Write two words to the guest: 0 or LEAVE."""
    pair = local(2)
    pair[0] = first
    pair[1] = second
    return LEAVE if lane.write(to, 16, address(pair)) else 0


def clock_gettime(lane: Lane, clock: int, time: int) -> int:
    """The time of a clock."""
    ns = now(lane, clock)
    return ns if ns < 0 else write_pair(lane, time, ns // BILLION, ns % BILLION)


def clock_getres(lane: Lane, clock: int, resolution: int) -> int:
    """A nanosecond."""
    if (ns := now(lane, clock)) < 0:
        return ns
    return write_pair(lane, resolution, 0, 1) if resolution else 0


def gettimeofday(lane: Lane, time: int, zone: int) -> int:
    """The time of day, to the microsecond, and a zone of zeros."""
    ns = uptime(lane) + EPOCH * BILLION
    if time and write_pair(lane, time, ns // BILLION, ns % BILLION // 1000):
        return LEAVE
    none = local(1)
    none[0] = 0
    return LEAVE if zone and lane.write(zone, 8, address(none)) else 0


def nanosleep(lane: Lane, request: int, remaining: int) -> int:
    """Sleep: time goes on, up to the last that there is."""
    time = local(2)
    if lane.read(request, 16, address(time)):
        return LEAVE
    if time[0] < 0 or not below(time[1], BILLION):
        return -Errno.EINVAL
    most = max(LATEST - uptime(lane), 0)
    more = most
    if time[0] < LATEST // BILLION:
        more = min(time[0] * BILLION + time[1], most)
    lane.put(Word.SKIPPED, lane.word(Word.SKIPPED) + more)
    return 0


exit_group = exit
gettid = getpid
geteuid = getuid
getegid = getgid
