"""What a descriptor and its open file are set to: fcntl, its locks and seals, and flock."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.file import File
from kvrm.linux.files.locks import in_the_way, others, packed, range_at, with_range
from kvrm.linux.files.open_file import OpenFile
from kvrm.linux.files.pipes import PipeEnd
from kvrm.linux.mapped import is_writable
from kvrm.linux.waiting import wait_for_ever
from kvrm.memory import PAGE

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_SEALS: Final = (
    abi.F_SEAL_SEAL | abi.F_SEAL_SHRINK | abi.F_SEAL_GROW | abi.F_SEALS_OF_WRITING | abi.F_SEAL_EXEC
)
_LOCK_NB: Final = 4
_LOCK_KINDS: Final = {1: abi.F_RDLCK, 2: abi.F_WRLCK, 8: abi.F_UNLCK}


def fcntl(process: Process, fd: int, command: int, argument: int) -> int:
    """Status flags, locks, seals, the room of a pipe."""
    file = process.file(fd)
    match command:
        case abi.F_SETFL:
            file.flags = file.flags & ~abi.SETTABLE_FLAGS | argument & abi.SETTABLE_FLAGS
        case abi.F_GETLK | abi.F_OFD_GETLK:
            _tell_lock(process, file, argument, command == abi.F_OFD_GETLK)
        case abi.F_SETLK | abi.F_SETLKW:
            _lock(process, file, argument, False, command == abi.F_SETLKW)
        case abi.F_OFD_SETLK | abi.F_OFD_SETLKW:
            _lock(process, file, argument, True, command == abi.F_OFD_SETLKW)
        case abi.F_SETOWN | abi.F_GETOWN:
            return 0
        case abi.F_GETLEASE:
            return abi.F_UNLCK
        case abi.F_GETPIPE_SZ:
            return _pipe_end(file).pipe.slots * PAGE
        case abi.F_SETPIPE_SZ:
            return _pipe_end(file).pipe.resize(argument & 0xFFFFFFFF, process.credentials.uid == 0)
        case abi.F_GET_SEALS:
            return _sealable(file)[1]
        case abi.F_ADD_SEALS:
            _seal(process, file, argument)
        case _:
            raise Failure(Errno.EINVAL)
    return 0


def flock(process: Process, fd: int, operation: int) -> int:
    """Lock a file for an open file description."""
    kind = _LOCK_KINDS.get(operation & ~_LOCK_NB)
    if kind is None:
        raise Failure(Errno.EINVAL)
    file = process.file(fd)
    if kind != abi.F_UNLCK and not (file.readable or file.writable):
        raise Failure(Errno.EBADF)
    # as on Linux, a lock of another kind is given up before the new one is granted
    if file.whole_lock != kind:
        file.whole_lock = abi.F_UNLCK
    held = [other.whole_lock for other in others(process, file) if other.whole_lock != abi.F_UNLCK]
    if kind != abi.F_UNLCK and held and abi.F_WRLCK in (kind, *held):
        if operation & _LOCK_NB:
            raise Failure(Errno.EAGAIN)
        wait_for_ever(process, "it locks a file that it has locked through another descriptor")
    file.whole_lock = kind
    return 0


def _tell_lock(process: Process, file: OpenFile, pointer: int, of_description: bool) -> None:
    wanted, pid = range_at(process, file, pointer)
    if of_description and pid:
        raise Failure(Errno.EINVAL)
    if wanted.kind == abi.F_UNLCK and not of_description:
        raise Failure(Errno.EINVAL)
    found = in_the_way(process, file, wanted, of_description)
    if found is None:
        process.memory.write(pointer, abi.F_UNLCK.to_bytes(2, "little"))
        return
    of_process = of_description and found in process.locked.get(file.stat().identity, ())
    process.memory.write(pointer, packed(found, process.pid if of_process else -1))


def _lock(process: Process, file: OpenFile, pointer: int, of_description: bool, wait: bool) -> None:
    wanted, pid = range_at(process, file, pointer)
    if of_description and pid:
        raise Failure(Errno.EINVAL)
    if (wanted.kind == abi.F_RDLCK and not file.readable) or (
        wanted.kind == abi.F_WRLCK and not file.writable
    ):
        raise Failure(Errno.EBADF)
    if wanted.kind != abi.F_UNLCK and in_the_way(process, file, wanted, of_description):
        if not wait:
            raise Failure(Errno.EAGAIN)
        wait_for_ever(process, "it locks a part of a file that it has locked through another descriptor")
    if of_description:
        file.locked = with_range(file.locked, wanted)
    else:
        which = file.stat().identity
        process.locked[which] = with_range(process.locked.get(which, ()), wanted)


def _pipe_end(file: OpenFile) -> PipeEnd:
    if not isinstance(file, PipeEnd):
        raise Failure(Errno.EBADF)
    return file


def _sealable(file: OpenFile) -> tuple[File, int]:
    """The node of a file that can have seals, and those that it has."""
    if not isinstance(file.node, File) or file.node.seals is None:
        raise Failure(Errno.EINVAL)
    return file.node, file.node.seals


def _seal(process: Process, file: OpenFile, seals: int) -> None:
    if not file.writable:
        raise Failure(Errno.EPERM)
    if seals & ~_SEALS:
        raise Failure(Errno.EINVAL)
    node, sealed = _sealable(file)
    if sealed & abi.F_SEAL_SEAL:
        raise Failure(Errno.EPERM)
    if seals & abi.F_SEAL_EXEC and node.own().mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH):
        seals |= abi.F_SEAL_SHRINK | abi.F_SEAL_GROW | abi.F_SEALS_OF_WRITING
    if seals & abi.F_SEAL_WRITE and is_writable(process, node):
        raise Failure(Errno.EBUSY)
    node.seals = sealed | seals
