"""System V objects: how semaphores, message queues and shared memory are found and who may use them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import IPC_PERM

if TYPE_CHECKING:
    from kvrm.linux.process import Process

READ, WRITE = 0o444, 0o222
_INDICES: Final = 1 << 15
_MODE: Final = 0o777


@dataclass(frozen=True, slots=True)
class Permissions:
    """`struct ipc64_perm`: owner and creator of an object, its mode and key."""

    key: int
    uid: int
    gid: int
    creator_uid: int
    creator_gid: int
    mode: int
    sequence: int

    def packed(self) -> bytes:
        """48 bytes."""
        owners = self.uid, self.gid, self.creator_uid, self.creator_gid
        return IPC_PERM.pack(self.key, *owners, self.mode, self.sequence)

    def changed(self, process: Process, data: bytes) -> Permissions:
        """With owner and mode of another one; EPERM unless the process owns the object."""
        self.require_owner(process)
        _, uid, gid, _, _, mode, _ = IPC_PERM.unpack_from(data)
        return replace(self, uid=uid, gid=gid, mode=self.mode & ~_MODE | mode & _MODE)

    def require(self, process: Process, wanted: int) -> None:
        """EACCES unless the process may do what the permission bits `wanted` stand for."""
        who = process.credentials
        shift = 6 if who.uid in (self.uid, self.creator_uid) else 0
        if not shift and {self.gid, self.creator_gid} & {who.gid, *who.groups}:
            shift = 3
        asked = (wanted >> 6 | wanted >> 3 | wanted) & 7
        if who.uid and asked & ~(self.mode >> shift):
            raise Failure(Errno.EACCES)

    def require_owner(self, process: Process) -> None:
        """EPERM unless the process owns the object."""
        if process.credentials.uid not in (0, self.uid, self.creator_uid):
            raise Failure(Errno.EPERM)


@dataclass
class Object:
    """What all kinds have in common."""

    permissions: Permissions


T = TypeVar("T", bound=Object)


class Table(Generic[T]):
    """The objects of one kind, `most` at a time. A number has an index, and how often indices began anew."""

    def __init__(self, most: int) -> None:
        self.objects: dict[int, T] = {}
        self._most, self._last, self._sequence = most, -1, 0

    def get(
        self,
        process: Process,
        key: int,
        flags: int,
        make: Callable[[Permissions], T],
        fits: Callable[[T], bool],
    ) -> int:
        """The number of the object with a key, which must fit what is asked for, or of a new one."""
        if key != abi.IPC_PRIVATE:
            for number, known in self.objects.items():
                if known.permissions.key == key:
                    if flags & abi.IPC_CREAT and flags & abi.IPC_EXCL:
                        raise Failure(Errno.EEXIST)
                    if not fits(known):
                        raise Failure(Errno.EINVAL)
                    known.permissions.require(process, flags)
                    return number
            if not flags & abi.IPC_CREAT:
                raise Failure(Errno.ENOENT)
        return self._add(process, key, flags, make)

    def find(self, number: int) -> T:
        """The object with a number, or EINVAL."""
        if number not in self.objects:
            raise Failure(Errno.EINVAL)
        return self.objects[number]

    def remove(self, number: int) -> None:
        """Forget an object."""
        del self.objects[number]

    def _add(self, process: Process, key: int, flags: int, make: Callable[[Permissions], T]) -> int:
        who, used = process.credentials, {number % _INDICES for number in self.objects}
        index = next(index for index in range(_INDICES) if index not in used)
        sequence = (self._sequence + (index <= self._last)) % 0xFFFF
        made = make(Permissions(key, who.uid, who.gid, who.uid, who.gid, flags & _MODE, sequence))
        if len(self.objects) >= self._most:
            raise Failure(Errno.ENOSPC)
        self._last, self._sequence = index, sequence
        number = sequence * _INDICES + index
        self.objects[number] = made
        return number
