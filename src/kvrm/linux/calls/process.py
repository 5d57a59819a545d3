"""The process itself: identity, limits, end, and what only other processes could need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi, layout
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.synthetic import HOSTNAME, MEMORY_BYTES, RELEASE, VERSION
from kvrm.linux.layout import BILLION, WORD
from kvrm.linux.outcome import Exited, Finish

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_PARENT: Final = 1
UNAME: Final = ("Linux", HOSTNAME, RELEASE, VERSION, "aarch64", "(none)")
_RANDOM_BLOCK: Final = 1 << 20
_KEEP: Final = 0xFFFFFFFF


def exit_group(process: Process, status: int) -> int:
    """End the process."""
    raise Finish(Exited(status & 0xFF))


def getpid(process: Process) -> int:
    """Process number: always the same."""
    return process.pid


def getppid(process: Process) -> int:
    """Number of the parent process: 1."""
    return _PARENT


def getuid(process: Process) -> int:
    """User: the host's."""
    return process.credentials.uid


def getgid(process: Process) -> int:
    """Group: the host's."""
    return process.credentials.gid


def getresuid(process: Process, real: int, effective: int, saved: int) -> int:
    """Real, effective and saved user."""
    for pointer in (real, effective, saved):
        process.memory.write(pointer, WORD.pack(process.credentials.uid))
    return 0


def getresgid(process: Process, real: int, effective: int, saved: int) -> int:
    """Real, effective and saved group."""
    for pointer in (real, effective, saved):
        process.memory.write(pointer, WORD.pack(process.credentials.gid))
    return 0


def getgroups(process: Process, size: int, pointer: int) -> int:
    """Supplementary groups: the host's."""
    groups = sorted(process.credentials.groups)
    if size < 0 or 0 < size < len(groups):
        raise Failure(Errno.EINVAL)
    if size:
        process.memory.write(pointer, b"".join(map(WORD.pack, groups)))
    return len(groups)


def setuid(process: Process, uid: int) -> int:
    """Become the user that the process is; no other."""
    return _same(uid, process.credentials.uid)


def setgid(process: Process, gid: int) -> int:
    """Become the group that the process is; no other."""
    return _same(gid, process.credentials.gid)


def setreuid(process: Process, real: int, effective: int) -> int:
    """Become the user that the process is; no other."""
    return _same(real, process.credentials.uid) or _same(effective, process.credentials.uid)


def setregid(process: Process, real: int, effective: int) -> int:
    """Become the group that the process is; no other."""
    return _same(real, process.credentials.gid) or _same(effective, process.credentials.gid)


def setresuid(process: Process, real: int, effective: int, saved: int) -> int:
    """Become the user that the process is; no other."""
    return setreuid(process, real, effective) or _same(saved, process.credentials.uid)


def setresgid(process: Process, real: int, effective: int, saved: int) -> int:
    """Become the group that the process is; no other."""
    return setregid(process, real, effective) or _same(saved, process.credentials.gid)


def _same(wanted: int, own: int) -> int:
    if wanted not in (own, _KEEP):
        raise Failure(Errno.EPERM)
    return 0


def getpgid(process: Process, pid: int) -> int:
    """Process group: the process leads its own."""
    _own(process, pid)
    return process.pid


def setpgid(process: Process, pid: int, group: int) -> int:
    """Join a process group: there is no other."""
    _own(process, pid)
    if group not in (0, process.pid):
        raise Failure(Errno.EINVAL if group < 0 else Errno.EPERM)
    return 0


def setsid(process: Process) -> int:
    """A group leader cannot start a session."""
    raise Failure(Errno.EPERM)


def umask(process: Process, mask: int) -> int:
    """Set the file creation mask; returns the old one."""
    old, process.umask = process.umask, mask & 0o777
    return old


def uname(process: Process, buffer: int) -> int:
    """Name of the system: the same everywhere."""
    process.memory.write(buffer, layout.utsname(UNAME))
    return 0


def sysinfo(process: Process, buffer: int) -> int:
    """Uptime and memory of the machine."""
    free = max(0, MEMORY_BYTES - process.memory.private_bytes)
    process.memory.write(buffer, layout.sysinfo(process.uptime // BILLION, MEMORY_BYTES, free, 1))
    return 0


def nothing(process: Process) -> int:
    """Nothing to do: memory is never swapped, and writes are never delayed."""
    return 0


def personality(process: Process, persona: int) -> int:
    """Execution domain; returns the old one."""
    old = process.personality
    if persona != _KEEP:
        process.personality = persona
    return old


def getrandom(process: Process, buffer: int, count: int, flags: int) -> int:
    """Random bytes that the seed decides."""
    if flags & ~abi.GRND_FLAGS or flags & 6 == 6:
        raise Failure(Errno.EINVAL)
    count = min(count, 0x1FF_FFFF)
    for done in range(0, count, _RANDOM_BLOCK):
        process.memory.write(buffer + done, process.random_bytes(min(_RANDOM_BLOCK, count - done)))
    return count


def socket(process: Process, family: int, kind: int, protocol: int) -> int:
    """There is no network."""
    raise Failure(Errno.EAFNOSUPPORT)


def not_a_socket(process: Process, fd: int) -> int:
    """No descriptor is a socket."""
    process.file(fd)
    raise Failure(Errno.ENOTSOCK)


def no_child(process: Process) -> int:
    """There are no child processes."""
    raise Failure(Errno.ECHILD)


def not_possible(process: Process) -> int:
    """Processes and threads are not supported yet."""
    raise Failure(Errno.ENOSYS)


def not_permitted(process: Process) -> int:
    """Not permitted."""
    raise Failure(Errno.EPERM)


def _own(process: Process, pid: int) -> None:
    if pid not in (0, process.pid):
        raise Failure(Errno.ESRCH)
