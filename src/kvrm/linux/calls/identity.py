"""Users, groups, capabilities and numbers of the process.

The guest is an ordinary user's process: it has the host's user and groups, but never a capability, not even
as user 0.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.calls.sched import require_process
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import INT, WORD

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_NONE: Final = 0xFFFFFFFF
"""No user: a change keeps the one that there is."""
_SETS: Final = Struct("<III")
_WORDS: Final = {0x1998_0330: 1, 0x2007_1026: 2, 0x2008_0522: 2}
"""Structures of capabilities by version of the header."""
_VERSION: Final = max(_WORDS)
_ALL: Final = (1 << abi.CAP_LAST_CAP + 1) - 1


def gettid(process: Process) -> int:
    """Number of the thread."""
    return process.task.tid


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


def setgroups(process: Process, size: int, pointer: int) -> int:
    """Set supplementary groups: the guest may not."""
    raise Failure(Errno.EPERM)


def setuid(process: Process, uid: int) -> int:
    """Become the user that the process is; no other."""
    return _become(uid, process.credentials.uid)


def setgid(process: Process, gid: int) -> int:
    """Become the group that the process is; no other."""
    return _become(gid, process.credentials.gid)


def setreuid(process: Process, real: int, effective: int) -> int:
    """Become the user that the process is; no other."""
    return _keep(process.credentials.uid, real, effective)


def setregid(process: Process, real: int, effective: int) -> int:
    """Become the group that the process is; no other."""
    return _keep(process.credentials.gid, real, effective)


def setresuid(process: Process, real: int, effective: int, saved: int) -> int:
    """Become the user that the process is; no other."""
    return _keep(process.credentials.uid, real, effective, saved)


def setresgid(process: Process, real: int, effective: int, saved: int) -> int:
    """Become the group that the process is; no other."""
    return _keep(process.credentials.gid, real, effective, saved)


def setfsuid(process: Process, uid: int) -> int:
    """The user for files: stays the one that it is, and is returned."""
    return process.credentials.uid


def setfsgid(process: Process, gid: int) -> int:
    """The group for files: stays the one that it is, and is returned."""
    return process.credentials.gid


def _become(wanted: int, own: int) -> int:
    if wanted == _NONE:
        raise Failure(Errno.EINVAL)
    return _keep(own, wanted)


def _keep(own: int, *wanted: int) -> int:
    if any(number not in (own, _NONE) for number in wanted):
        raise Failure(Errno.EPERM)
    return 0


def getpgid(process: Process, pid: int) -> int:
    """Process group: the process leads its own."""
    require_process(process, pid)
    return pid or process.pid


def setpgid(process: Process, pid: int, group: int) -> int:
    """Join a process group: there is no other."""
    group = group or pid or process.pid
    if group < 0:
        raise Failure(Errno.EINVAL)
    if pid not in (0, process.pid):
        raise Failure(Errno.ESRCH)
    if group != process.pid:
        raise Failure(Errno.EPERM)
    return 0


def setsid(process: Process) -> int:
    """A group leader cannot start a session."""
    raise Failure(Errno.EPERM)


def capget(process: Process, header: int, data: int) -> int:
    """Capabilities: none, but for process 1."""
    words = _known_version(process, header)
    if not data or not words:
        if data:
            raise Failure(Errno.EINVAL)
        return 0
    pid = INT.unpack(process.memory.read(header + INT.size, INT.size))[0]
    if pid < 0:
        raise Failure(Errno.EINVAL)
    require_process(process, pid)
    held = _ALL if pid == abi.INIT else 0
    halves = (held & _NONE, held >> 32)
    process.memory.write(data, b"".join(_SETS.pack(half, half, 0) for half in halves[:words]))
    return 0


def capset(process: Process, header: int, data: int) -> int:
    """Set capabilities: there are none to keep, and none can be got."""
    words = _known_version(process, header)
    if not words:
        raise Failure(Errno.EINVAL)
    if INT.unpack(process.memory.read(header + INT.size, INT.size))[0] not in (0, process.pid):
        raise Failure(Errno.EPERM)
    if any(process.memory.read(data, words * _SETS.size)):
        raise Failure(Errno.EPERM)
    return 0


def _known_version(process: Process, header: int) -> int:
    """How many structures the version of a header has; 0 if it is unknown, and then tells the newest."""
    words = _WORDS.get(WORD.unpack(process.memory.read(header, WORD.size))[0], 0)
    if not words:
        process.memory.write(header, WORD.pack(_VERSION))
    return words
