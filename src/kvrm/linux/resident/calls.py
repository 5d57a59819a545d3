"""The system calls that are staged: `kvrm.linux.calls` again, for the cases that each takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llvmlite import ir

from kvrm.linux import abi
from kvrm.linux.clock import CLOCKS, LATEST
from kvrm.linux.errno import Errno
from kvrm.linux.layout import BILLION
from kvrm.linux.resident import files, mappings
from kvrm.linux.resident.call import (
    NUMBERS,
    Build,
    Call,
    LaneOf,
    build_resident,
    const,
)
from kvrm.linux.resident.layout import (
    ACTIONS,
    CWD,
    LIMITS,
    LINK,
    NAME,
    TARGET,
    UTSNAME,
    Fixed,
    Word,
)
from kvrm.linux.signals import UNBLOCKABLE
from kvrm.staging.emitter import I8, I64

UTSNAME_BYTES = 390
SLEEP_MOST = 1 << 30
"""Seconds of a sleep."""


# -- the process -----------------------------------------------------------------------------------------
def _number(value: int) -> Build:
    """A call that always has this result."""
    return lambda c: c.ret(value)


def _fixed(word: Fixed) -> Build:
    """A call whose result is the same for all lanes."""
    return lambda c: c.ret(c.fixed(word))


def _set_robust_list(c: Call) -> None:
    c.fail_if(c.e.not_(c.equal(c.x(1), 24)), Errno.EINVAL)
    c.require_room_in_log()
    c.log(NUMBERS["set_robust_list"], const(0))
    c.ret(0)


def _set_tid_address(c: Call) -> None:
    c.require_room_in_log()
    c.log(NUMBERS["set_tid_address"], c.fixed(Fixed.PID))
    c.ret(c.fixed(Fixed.PID))


def _futex(c: Call) -> None:
    """FUTEX_WAKE: one that processes share must be in memory."""
    operation = c.x(1, "u")
    c.refuse_unless(c.equal(c.e.and_(operation, const(~abi.FUTEX_PRIVATE)), abi.FUTEX_WAKE))
    c.fail_if(c.has(c.x(0), 3), Errno.EINVAL)
    c.ret_if(c.has(operation, abi.FUTEX_PRIVATE), 0)
    c.read(c.x(0), 4, c.local(1))
    c.ret(0)


def _prlimit64(c: Call) -> None:
    pid = c.x(0, "i")
    c.refuse_unless(c.e.or_(c.equal(pid, 0), c.equal(pid, c.fixed(Fixed.PID))))
    c.refuse_unless(c.equal(c.x(2), 0))
    _limit(c, c.x(1, "u"), c.x(3))


def _getrlimit(c: Call) -> None:
    c.refuse_if(c.equal(c.x(1), 0))
    _limit(c, c.x(0, "u"), c.x(1))


def _limit(c: Call, resource: ir.Value, to: ir.Value) -> None:
    c.fail_if(c.e.not_(c.below(resource, abi.RLIM_NLIMITS)), Errno.EINVAL)
    c.ret_if(c.equal(to, 0), 0)
    c.write(to, 16, c.place(LIMITS, c.e.shl(resource, const(1))))
    c.ret(0)


def _uname(c: Call) -> None:
    c.write(c.x(0), UTSNAME_BYTES, c.place(UTSNAME))
    c.ret(0)


def _getrandom(c: Call) -> None:
    flags = c.x(2, "u")
    both = c.equal(c.e.and_(flags, const(6)), 6)
    c.fail_if(c.e.or_(c.has(flags, ~abi.GRND_FLAGS), both), Errno.EINVAL)
    c.ret(files.random_bytes(c, c.x(0), c.x(1)))


def _rt_sigaction(c: Call) -> None:
    e, number, signal, new, old = c.e, NUMBERS["rt_sigaction"], c.x(0, "i"), c.x(1), c.x(2)
    c.refuse_unless(e.and_(c.equal(c.x(3), 8), c.below(e.sub(signal, const(1)), abi.NSIG)))
    c.refuse_if(e.or_(c.equal(signal, abi.SIGKILL), c.equal(signal, abi.SIGSTOP)))
    c.refuse_unless(c.equal(c.fixed(Fixed.PENDING), 0))
    c.require_room_in_log()
    before = [c.fixed(ACTIONS + i, e.shl(e.sub(signal, const(1)), const(2))) for i in range(4)]
    found = c.local(4)
    _store_words(c, found, before)
    with e.repeat(c.get(Word.LOGGED)) as i:
        record = c.record(i)
        same = c.equal(e.load_at(record, 16, I64), signal)
        with e.if_then(e.and_(c.equal(e.load_at(record, 0, I64), number), same)):
            _store_words(c, found, [e.load_at(record, 24 + 8 * k, I64) for k in range(4)])
    given = c.local(4)
    with e.if_then(e.not_(c.equal(new, 0))):
        c.read(new, 32, given)
        for at, kept in ((8, abi.SA_FLAGS), (24, ~UNBLOCKABLE)):
            e.store_at(e.and_(e.load_at(given, at, I64), const(kept)), given, at)
    with e.if_then(e.not_(c.equal(old, 0))):
        c.write(old, 32, found)
    with e.if_then(e.not_(c.equal(new, 0))):
        c.log(number, const(0), signal, *(e.load_at(given, 8 * k, I64) for k in range(4)))
    c.ret(0)


def _store_words(c: Call, to: ir.Value, words: list[ir.Value]) -> None:
    for i, word in enumerate(words):
        c.e.store_at(word, to, 8 * i)


def _prctl(c: Call) -> None:
    c.refuse_unless(c.equal(c.x(0, "u"), abi.PR_GET_NAME))
    c.write(c.x(1), 16, c.place(NAME))
    c.ret(0)


def _getcwd(c: Call) -> None:
    e, size = c.e, c.fixed(Fixed.CWD_BYTES)
    c.refuse_if(e.or_(c.equal(size, 0), c.below(c.x(1), size)))
    c.write(c.x(0), size, c.place(CWD))
    c.ret(size)


def _rt_sigprocmask(c: Call) -> None:
    e, how, new, old, before = c.e, c.x(0, "i"), c.x(1), c.x(2), c.get(Word.BLOCKED)
    c.refuse_unless(c.equal(c.x(3), 8))
    c.refuse_unless(c.equal(c.fixed(Fixed.PENDING), 0))
    mask = c.local(1)
    e.store(before, mask)
    with e.if_then(e.not_(c.equal(new, 0))):
        c.refuse_unless(c.below(how, abi.SIG_SETMASK + 1))
        c.read(new, 8, mask)
        given = e.load(mask, typ=I64)
        fewer = e.select(c.equal(how, abi.SIG_UNBLOCK), e.and_(before, e.not_(given)), given)
        after = e.select(c.equal(how, abi.SIG_BLOCK), e.or_(before, given), fewer)
        e.store(e.and_(after, const(~UNBLOCKABLE)), mask)
    with e.if_then(e.not_(c.equal(old, 0))):
        c.write_words(old, before)
    c.put(Word.BLOCKED, e.load(mask, typ=I64))
    c.ret(0)


def _readlinkat(c: Call) -> None:
    e, size, length, name = c.e, c.x(3, "i"), c.fixed(Fixed.LINK_BYTES), c.local(2)
    text = LINK + b"\0"
    c.read(c.x(1), len(text), name)
    for i, byte in enumerate(text):
        same = e.icmp_unsigned("==", e.load_at(name, i, I8), ir.Constant(I8, byte))
        c.refuse_unless(same)
    c.refuse_unless(e.icmp_signed(">", size, const(0)))
    count = e.select(c.below(length, size), length, size)
    c.refuse_unless(c.below(const(0), count))
    c.write(c.x(2), count, c.place(TARGET))
    c.ret(count)


# -- time ------------------------------------------------------------------------------------------------
def _clock_gettime(c: Call) -> None:
    _write_time(c, c.x(1), _now(c, c.x(0, "i")), 1)
    c.ret(0)


def _clock_getres(c: Call) -> None:
    _now(c, c.x(0, "i"))
    c.ret_if(c.equal(c.x(1), 0), 0)
    c.write_words(c.x(1), const(0), const(1))
    c.ret(0)


def _gettimeofday(c: Call) -> None:
    e, zone = c.e, c.x(1)
    with e.if_then(e.not_(c.equal(c.x(0), 0))):
        _write_time(c, c.x(0), c.realtime(), 1000)
    with e.if_then(e.not_(c.equal(zone, 0))):
        c.write_words(zone, const(0))
    c.ret(0)


def _nanosleep(c: Call) -> None:
    e = c.e
    seconds, ns = c.read_words(c.x(0), 2)
    c.refuse_unless(e.and_(c.below(seconds, SLEEP_MOST), c.below(ns, BILLION)))
    slept = e.add(e.add(c.get(Word.SKIPPED), e.mul(seconds, const(BILLION))), ns)
    c.refuse_unless(c.below(e.add(slept, c.retired), LATEST))
    c.put(Word.SKIPPED, slept)
    c.ret(0)


def _now(c: Call, clock: ir.Value) -> ir.Value:
    """The time of a clock; EINVAL if there is none."""
    e = c.e
    c.refuse_if(c.has(clock, 1 << 63))
    known = [number for number, kind in CLOCKS.items() if not kind.read]

    def among(numbers: Iterable[int]) -> ir.Value:
        return c.has(e.lshr(const(sum(1 << number for number in numbers)), clock), 1)

    c.fail_if(e.not_(e.and_(c.below(clock, 64), among(known))), Errno.EINVAL)
    real = among(number for number in known if CLOCKS[number].offset)
    cpu = among(number for number in known if CLOCKS[number].cpu)
    return e.select(real, c.realtime(), e.select(cpu, c.retired, c.uptime()))


def _write_time(c: Call, to: ir.Value, ns: ir.Value, unit: int) -> None:
    """Seconds, and the rest in units of that many nanoseconds."""
    rest = c.e.urem(ns, const(BILLION))
    c.write_words(to, c.e.udiv(ns, const(BILLION)), c.e.udiv(rest, const(unit)))


CALLS: Mapping[int, Build] = {
    NUMBERS[name]: build
    for name, build in {
        "brk": mappings.brk,
        "clock_getres": _clock_getres,
        "clock_gettime": _clock_gettime,
        "close": files.close,
        "dup": files.dup,
        "dup3": files.dup3,
        "fcntl": files.fcntl,
        "fstat": files.fstat,
        "futex": _futex,
        "getcwd": _getcwd,
        "getegid": _fixed(Fixed.GID),
        "geteuid": _fixed(Fixed.UID),
        "getgid": _fixed(Fixed.GID),
        "getpid": _fixed(Fixed.PID),
        "getppid": _number(1),
        "getrandom": _getrandom,
        "getrlimit": _getrlimit,
        "gettid": _fixed(Fixed.PID),
        "gettimeofday": _gettimeofday,
        "getuid": _fixed(Fixed.UID),
        "ioctl": files.ioctl,
        "lseek": files.lseek,
        "madvise": mappings.madvise,
        "mmap": mappings.mmap,
        "mprotect": mappings.mprotect,
        "munmap": mappings.munmap,
        "nanosleep": _nanosleep,
        "newfstatat": files.newfstatat,
        "openat": files.openat,
        "prlimit64": _prlimit64,
        "pread64": files.pread64,
        "prctl": _prctl,
        "read": files.read,
        "readlinkat": _readlinkat,
        "readv": files.readv,
        "rt_sigaction": _rt_sigaction,
        "rt_sigprocmask": _rt_sigprocmask,
        "sched_yield": _number(0),
        "sendfile": files.sendfile,
        "set_robust_list": _set_robust_list,
        "set_tid_address": _set_tid_address,
        "uname": _uname,
        "write": files.write,
        "writev": files.writev,
    }.items()
}


def resident(module: ir.Module, lane_of: LaneOf) -> ir.Function:
    """The module's function `resident`."""
    return module.globals.get("resident") or build_resident(module, CALLS, lane_of)
