"""seccomp: which system calls the process still may make."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kvrm.linux import abi, bpf
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import WORD
from kvrm.linux.outcome import Finish, Killed

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_ARCH: Final = 0xC000_00B7
_DATA: Final = struct.Struct("<iIQ6Q")
_PROGRAM: Final = struct.Struct("<H6xQ")
_NOTIFICATION_SIZES: Final = struct.pack("<3H", 80, 24, 64)
_ACTION: Final = 0xFFFF_0000
_DATA_OF_ACTION: Final = 0xFFFF
_ACTIONS: Final = (
    abi.SECCOMP_RET_KILL_PROCESS,
    abi.SECCOMP_RET_KILL_THREAD,
    abi.SECCOMP_RET_TRAP,
    abi.SECCOMP_RET_ERRNO,
    abi.SECCOMP_RET_TRACE,
    abi.SECCOMP_RET_LOG,
    abi.SECCOMP_RET_ALLOW,
)
"""What a filter may return, the strongest first."""


@dataclass(frozen=True, slots=True)
class Seccomp:
    """The mode, as PR_GET_SECCOMP says it, and the filters, the newest first."""

    mode: int = abi.SECCOMP_MODE_DISABLED
    filters: tuple[bpf.Program, ...] = ()

    def __bool__(self) -> bool:
        return self.mode != abi.SECCOMP_MODE_DISABLED


def seccomp(process: Process, operation: int, flags: int, arguments: int) -> int:
    """Allow only some system calls from now on, or ask what there is."""
    match operation:
        case abi.SECCOMP_SET_MODE_STRICT if not flags and not arguments:
            return set_strict(process)
        case abi.SECCOMP_SET_MODE_FILTER if not flags & ~abi.SECCOMP_FILTER_FLAGS:
            return add_filter(process, arguments)
        case abi.SECCOMP_GET_ACTION_AVAIL if not flags:
            if WORD.unpack(process.memory.read(arguments, WORD.size))[0] not in _ACTIONS:
                raise Failure(Errno.EOPNOTSUPP)
            return 0
        case abi.SECCOMP_GET_NOTIF_SIZES if not flags:
            process.memory.write(arguments, _NOTIFICATION_SIZES)
            return 0
        case _:
            raise Failure(Errno.EINVAL)


def set_strict(process: Process) -> int:
    """Only read, write, exit and rt_sigreturn from now on."""
    if process.task.seccomp.mode == abi.SECCOMP_MODE_FILTER:
        raise Failure(Errno.EINVAL)
    process.task.seccomp = Seccomp(abi.SECCOMP_MODE_STRICT)
    return 0


def add_filter(process: Process, pointer: int) -> int:
    """Ask a program about each system call from now on."""
    count, start = _PROGRAM.unpack(process.memory.read(pointer, _PROGRAM.size))
    if not 0 < count <= bpf.MOST_INSTRUCTIONS:
        raise Failure(Errno.EINVAL)
    if not process.controls.no_new_privs:
        raise Failure(Errno.EACCES)
    data = process.memory.read(start, count * bpf.LAYOUT.size)
    program = tuple(bpf.Instruction(*fields) for fields in bpf.LAYOUT.iter_unpack(data))
    if not bpf.is_valid(program) or process.task.seccomp.mode == abi.SECCOMP_MODE_STRICT:
        raise Failure(Errno.EINVAL)
    filters = (program, *process.task.seccomp.filters)
    process.task.seccomp = replace(process.task.seccomp, mode=abi.SECCOMP_MODE_FILTER, filters=filters)
    return 0


def refused(process: Process, number: int, words: Any) -> int | None:
    """The result of a call that may not be made, None if it may. May end the run by Finish."""
    if process.task.seccomp.mode == abi.SECCOMP_MODE_STRICT:
        if number not in abi.SECCOMP_STRICT_CALLS:
            raise Finish(Killed(abi.SIGKILL))
        return None
    data = _DATA.pack(number - (number >> 31 << 32), _ARCH, process.task.state.pc, *words[:6])
    returned = [bpf.run(program, data) for program in process.task.seccomp.filters]
    decided = min(returned, key=lambda value: _strength(value & _ACTION))
    match decided & _ACTION:
        case abi.SECCOMP_RET_ALLOW | abi.SECCOMP_RET_LOG:
            return None
        case abi.SECCOMP_RET_ERRNO:
            return -min(decided & _DATA_OF_ACTION, abi.MAX_ERRNO)
        case abi.SECCOMP_RET_TRACE:
            return -Errno.ENOSYS
        case _:
            raise Finish(Killed(abi.SIGSYS))


def _strength(action: int) -> int:
    """Actions in order, the strongest first: KILL_PROCESS counts as negative."""
    return action - (action >> 31 << 32)
