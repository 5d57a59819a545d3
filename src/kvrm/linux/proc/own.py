"""The files of /proc/self that tell about the process: status, stat, limits and the small ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.calls.prctl import DEFAULT_TIMER_SLACK
from kvrm.linux.delivery import queued
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.mounts import mount_id
from kvrm.linux.files.open_file import SeekableFile
from kvrm.linux.layout import BILLION
from kvrm.linux.proc.maps import use
from kvrm.memory import PAGE, GuestFault

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_PF_RANDOMIZE: Final = 0x40_0000
_SIGCHLD: Final = 17
_LEAST_DESCRIPTORS: Final = 64
_MOST_OOM_SCORE: Final = 1000
_LIMITS: Final = {
    "Max cpu time": (abi.RLIMIT_CPU, "seconds"),
    "Max file size": (abi.RLIMIT_FSIZE, "bytes"),
    "Max data size": (abi.RLIMIT_DATA, "bytes"),
    "Max stack size": (abi.RLIMIT_STACK, "bytes"),
    "Max core file size": (abi.RLIMIT_CORE, "bytes"),
    "Max resident set": (abi.RLIMIT_RSS, "bytes"),
    "Max processes": (abi.RLIMIT_NPROC, "processes"),
    "Max open files": (abi.RLIMIT_NOFILE, "files"),
    "Max locked memory": (abi.RLIMIT_MEMLOCK, "bytes"),
    "Max address space": (abi.RLIMIT_AS, "bytes"),
    "Max file locks": (abi.RLIMIT_LOCKS, "locks"),
    "Max pending signals": (abi.RLIMIT_SIGPENDING, "signals"),
    "Max msgqueue size": (abi.RLIMIT_MSGQUEUE, "bytes"),
    "Max nice priority": (abi.RLIMIT_NICE, ""),
    "Max realtime priority": (abi.RLIMIT_RTPRIO, ""),
    "Max realtime timeout": (abi.RLIMIT_RTTIME, "us"),
}


def stat(process: Process) -> bytes:
    """One line of 52 fields (proc(5))."""
    used, scheduling, loaded = use(process), process.task.scheduling, process.loaded
    ticks, pid = process.cpu_time * abi.CLOCK_TICKS // BILLION, process.pid
    spans = (0, 0, 0, 0) if loaded.stack is None else loaded.stack.spans
    arguments, environment, end = process.strings
    name = process.task.name.decode(errors="replace")
    fields = [pid, f"({name})", "R", abi.INIT, pid, pid, 0, -1, _PF_RANDOMIZE, used.resident // PAGE, 0, 0, 0]
    fields += [ticks, 0, 0, 0, 20 + scheduling.nice, scheduling.nice, 1, 0, 0, used.size]
    fields += [used.resident // PAGE, process.limit(abi.RLIMIT_RSS)[0], *spans[:2], loaded.sp, 0, 0]
    masks = (process.pending_signals, process.task.blocked, *_handled(process))
    fields += [mask & 0x7FFF_FFFF for mask in masks]
    fields += [0, 0, 0, _SIGCHLD, 0, 0, scheduling.policy, 0, 0, 0, *spans[2:]]
    fields += [process.heap_start, arguments, environment, environment, end, 0]
    return (" ".join(map(str, fields)) + "\n").encode(errors="surrogateescape")


def status(process: Process) -> bytes:
    """The same for people, and more."""
    used, controls = use(process), process.controls
    who, pid = process.credentials, process.pid
    sizes = {
        "VmPeak": used.size,
        "VmSize": used.size,
        "VmLck": used.locked,
        "VmPin": 0,
        "VmHWM": used.resident,
        "VmRSS": used.resident,
        "RssAnon": used.anonymous,
        "RssFile": used.of_files,
        "RssShmem": used.shared,
        "VmData": used.data,
        "VmStk": used.stack,
        "VmExe": used.text,
        "VmLib": used.library,
        "VmPTE": used.tables,
        "VmSwap": 0,
        "HugetlbPages": 0,
    }
    ignored, caught = _handled(process)
    masks = {
        "SigPnd": process.task.pending.mask,
        "ShdPnd": process.signals.shared.mask,
        "SigBlk": process.task.blocked,
        "SigIgn": ignored,
        "SigCgt": caught,
        "CapInh": 0,
        "CapPrm": 0,
        "CapEff": 0,
        "CapBnd": (1 << abi.CAP_LAST_CAP + 1) - 1,
        "CapAmb": 0,
    }
    fields: dict[str, object] = {
        "Name": _escaped(process.task.name),
        "Umask": f"{process.umask:04o}",
        "State": "R (running)",
        "Tgid": pid,
        "Ngid": 0,
        "Pid": pid,
        "PPid": abi.INIT,
        "TracerPid": abi.INIT if controls.traced else 0,
        "Uid": "\t".join([str(who.uid)] * 4),
        "Gid": "\t".join([str(who.gid)] * 4),
        "FDSize": _table_size(process),
        "Groups": " ".join(map(str, sorted(who.groups))) + " ",
        **dict.fromkeys(("NStgid", "NSpid", "NSpgid", "NSsid"), pid),
        **{name: f"{size >> 10:8} kB" for name, size in sizes.items()},
        "CoreDumping": 0,
        "THP_enabled": int(not controls.thp_disable),
        "Threads": 1,
        "SigQ": f"{queued(process)}/{process.limit(abi.RLIMIT_SIGPENDING)[0]}",
        **{name: f"{mask:016x}" for name, mask in masks.items()},
        "NoNewPrivs": controls.no_new_privs,
        "Seccomp": process.task.seccomp.mode,
        "Seccomp_filters": len(process.task.seccomp.filters),
        "Speculation_Store_Bypass": "not vulnerable",
        "SpeculationIndirectBranch": "unsupported",
        "Cpus_allowed": 1,
        "Cpus_allowed_list": 0,
        "Mems_allowed": 1,
        "Mems_allowed_list": 0,
        "voluntary_ctxt_switches": 0,
        "nonvoluntary_ctxt_switches": 0,
    }
    return "".join(f"{name}:\t{value}\n" for name, value in fields.items()).encode()


def limits(process: Process) -> bytes:
    """Soft and hard resource limits."""
    lines = [("Limit", "Soft Limit", "Hard Limit", "Units")]
    for name, (resource, units) in _LIMITS.items():
        soft, hard = (
            "unlimited" if limit == abi.RLIM_INFINITY else str(limit) for limit in process.limit(resource)
        )
        lines.append((name, soft, hard, units))
    return "".join(f"{a:<25} {b:<20} {c:<20} {d:<10}\n" for a, b, c, d in lines).encode()


def cmdline(process: Process) -> bytes:
    """The arguments as they are in memory now; a title may have been written there, and after it."""
    start, end, last = process.strings
    data = _peek(process, start, end - start)
    if data and data[-1]:
        data = (data + _peek(process, end, last - end)).partition(b"\0")[0]
    return data


def environ(process: Process) -> bytes:
    """The environment as it is in memory now."""
    _, start, end = process.strings
    return _peek(process, start, end - start)


def io(process: Process) -> bytes:
    """Bytes and calls of input and output: they are not counted."""
    names = "rchar wchar syscr syscw read_bytes write_bytes cancelled_write_bytes".split()
    return "".join(f"{name}: 0\n" for name in names).encode()


def schedstat(process: Process) -> bytes:
    """Time on the processor, time waiting for it, time slices."""
    return f"{process.cpu_time} 0 0\n".encode()


def set_name(process: Process, data: bytes) -> None:
    """Write /proc/self/comm."""
    process.task.name = data.partition(b"\0")[0][:15]


def set_timer_slack(process: Process, data: bytes) -> None:
    """Write /proc/self/timerslack_ns."""
    slack = _number(data) or DEFAULT_TIMER_SLACK
    process.controls = replace(process.controls, timer_slack=slack)


def set_oom_score_adj(process: Process, data: bytes) -> None:
    """Write /proc/self/oom_score_adj; only a privileged process may lower it below what it was."""
    value = _number(data)
    if not -_MOST_OOM_SCORE <= value <= _MOST_OOM_SCORE:
        raise Failure(Errno.EINVAL)
    if value < 0:
        raise Failure(Errno.EACCES)
    process.controls = replace(process.controls, oom_score_adj=value)


def set_coredump_filter(process: Process, data: bytes) -> None:
    """Write /proc/self/coredump_filter."""
    process.controls = replace(process.controls, coredump_filter=_number(data) & 0x1FF)


def clear_refs(process: Process, data: bytes) -> None:
    """Write /proc/self/clear_refs: what it clears is not kept."""
    if not 1 <= _number(data) <= 5:
        raise Failure(Errno.EINVAL)


def fdinfo(process: Process, fd: int) -> bytes:
    """Position and flags of a descriptor."""
    descriptor = process.descriptors.get(fd)
    if descriptor is None:
        raise Failure(Errno.ENOENT)
    file = descriptor.file
    flags = file.flags | (abi.O_CLOEXEC if descriptor.cloexec else 0)
    position = file.offset if isinstance(file, SeekableFile) else 0
    status = file.stat()
    lines = f"pos:\t{position}\nflags:\t0{flags:o}\nmnt_id:\t{mount_id(status.dev)}\nino:\t{status.ino}\n"
    return lines.encode()


def _number(data: bytes) -> int:
    """A number as the kernel reads it (kstrtol with base 0); EINVAL if it is none."""
    text = data.strip(b"\0\n \t")
    octal = text.lstrip(b"+-")[:1] == b"0" and text.lstrip(b"+-0").isdigit()
    try:
        return int(text, 8 if octal else 0)
    except ValueError:
        raise Failure(Errno.EINVAL) from None


def _peek(process: Process, address: int, size: int) -> bytes:
    """Memory up to the first byte that is not there."""
    try:
        return process.memory.peek(address, size)
    except GuestFault as fault:
        return process.memory.peek(address, fault.address - address)


def _handled(process: Process) -> tuple[int, int]:
    """Masks of the signals that are ignored and of those that have a handler."""
    ignored = caught = 0
    for signal, action in process.signals.actions.items():
        bit = 1 << signal - 1
        if action.handler == abi.SIG_IGN:
            ignored |= bit
        elif action.handler != abi.SIG_DFL:
            caught |= bit
    return ignored, caught


def _table_size(process: Process) -> int:
    """Room for descriptors, which grows by powers of two."""
    most = max(process.descriptors, default=0)
    return max(_LEAST_DESCRIPTORS, 1 << most.bit_length())


def _escaped(name: bytes) -> str:
    return name.decode(errors="replace").replace("\\", "\\\\").replace("\n", "\\n")
