"""The process itself: identity, limits, end, and what only other processes could need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi, layout
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import BILLION
from kvrm.linux.proc.system import DOMAINNAME, HOSTNAME, MEMORY_BYTES, RELEASE, VERSION

if TYPE_CHECKING:
    from kvrm.linux.process import Process

UNAME: Final = ("Linux", HOSTNAME, RELEASE, VERSION, "aarch64", DOMAINNAME)
_RANDOM_BLOCK: Final = 1 << 20
_KEEP: Final = 0xFFFFFFFF


def umask(process: Process, mask: int) -> int:
    """Set the file creation mask; returns the old one."""
    old, process.umask = process.umask, mask & 0o777
    return old


def sysinfo(process: Process, buffer: int) -> int:
    """Uptime and memory of the machine."""
    free = max(0, MEMORY_BYTES - process.memory.private_bytes)
    process.memory.write(buffer, layout.sysinfo(process.kernel.uptime // BILLION, MEMORY_BYTES, free, 1))
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
        process.memory.write(buffer + done, process.kernel.random_bytes(min(_RANDOM_BLOCK, count - done)))
    return count


def not_possible(process: Process) -> int:
    """Processes and threads are not supported yet."""
    raise Failure(Errno.ENOSYS)
