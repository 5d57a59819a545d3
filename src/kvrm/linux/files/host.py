"""Access to the host's files, confined to the trees that a guest may see.

A path inside a tree is a tuple of component names. Every access walks from the tree's own descriptor, one
component at a time, and follows no symbolic link (`paths` resolves those as the guest sees them), so that no
link, `..` or race leads out. Only regular files and directories are ever opened.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import ClassVar, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from kvrm.linux.errno import Errno, Failure

Parts = tuple[bytes, ...]
_T = TypeVar("_T")

_KERNEL_FILES = frozenset(
    b"proc sysfs devtmpfs devpts debugfs tracefs securityfs cgroup cgroup2 bpf pstore configfs mqueue "
    b"fusectl binfmt_misc efivarfs rpc_pipefs nsfs selinuxfs".split()
)
_CACHED_DIRECTORIES = 16
HOST_MODE = 0o1777
"""Permission bits that a guest may set on the host."""


@cache
def _kernel_devices() -> frozenset[int]:
    """The st_dev of file systems whose files are the kernel's own, such as /proc/self/mem."""
    devices = set()
    try:
        with open("/proc/self/mountinfo", "rb") as mounts:
            for line in mounts:
                mount, _, source = line.partition(b" - ")
                if source.split(b" ", 1)[0] in _KERNEL_FILES:
                    major, minor = mount.split(b" ")[2].split(b":")
                    devices.add(os.makedev(int(major), int(minor)))
    except OSError:
        devices.add(os.stat("/proc").st_dev if os.path.exists("/proc") else -1)
    return frozenset(devices)


def _refuse_kernel_file(st: os.stat_result) -> None:
    if st.st_dev in _kernel_devices():
        raise Failure(Errno.EACCES)


def _require_regular(st: os.stat_result) -> None:
    _refuse_kernel_file(st)
    if not stat.S_ISREG(st.st_mode):
        raise Failure(Errno.EACCES)


class Handle:
    """An open host file. It is closed when nothing refers to it; it has no offset of its own."""

    __slots__ = ("__weakref__", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)

    @property
    def path(self) -> str:
        """A path of the host that leads to this very file, whatever has its name by now."""
        return f"/proc/self/fd/{self.fd}"

    def reopen(self, flags: int) -> Handle:
        """The same file opened once more, even if it has no name any more."""
        return Handle(os.open(self.path, flags | os.O_NONBLOCK | os.O_NOCTTY))

    def read(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes at `offset`."""
        return os.pread(self.fd, size, offset)

    def chmod(self, mode: int) -> None:
        """Change permission bits, but never to setuid or setgid."""
        os.chmod(self.path, mode & HOST_MODE)

    def chown(self, uid: int, gid: int) -> None:
        os.chown(self.path, uid, gid)

    def allocate(self, mode: int, offset: int, size: int) -> None:
        """As fallocate(2)."""
        function = ctypes.CDLL(None, use_errno=True).fallocate
        function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        if function(self.fd, mode, offset, size):
            raise Failure(ctypes.get_errno())

    def utime(self, atime: int, mtime: int) -> None:
        """Set the times of last access and modification, in nanoseconds."""
        os.utime(self.path, ns=(atime, mtime))


class Entry(NamedTuple):
    """A name in a directory: inode number and type as in getdents64 (DT_REG, ...)."""

    ino: int
    kind: int


class HostTree:
    """A directory of the host that a guest may see, and write if `writable`."""

    _known: ClassVar[WeakValueDictionary[tuple[int, int, bool], HostTree]] = WeakValueDictionary()

    def __init__(self, handle: Handle, writable: bool) -> None:
        self.writable = writable
        self._root = handle
        self._directories: dict[Parts, Handle] = {}
        self._lock = Lock()

    @classmethod
    def at(cls, path: str | bytes, writable: bool = False) -> HostTree:
        """The tree of the directory at `path`; processes that see the same one share its descriptors.

        Raises OSError if it is not a directory that can be opened.
        """
        handle = Handle(os.open(path, os.O_PATH | os.O_DIRECTORY))
        st = os.fstat(handle.fd)
        return cls._known.setdefault((st.st_dev, st.st_ino, writable), cls(handle, writable))

    def directory(self, parts: Parts) -> Handle:
        """A handle (O_PATH) of the directory at `parts`; keep it for as long as its descriptor is in use."""
        with self._lock:
            known = len(parts)
            while known and parts[:known] not in self._directories:
                known -= 1
            handle = self._directories[parts[:known]] if known else self._root
            for depth in range(known, len(parts)):
                fd = os.open(parts[depth], os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle.fd)
                handle = Handle(fd)
                _refuse_kernel_file(os.fstat(fd))
                if len(self._directories) >= _CACHED_DIRECTORIES:
                    del self._directories[next(iter(self._directories))]
                self._directories[parts[: depth + 1]] = handle
            return handle

    def forget(self) -> None:
        """Drop cached handles: directories may have been renamed or removed."""
        with self._lock:
            self._directories.clear()

    def lstat(self, parts: Parts) -> os.stat_result:
        """Status of the entry itself, never of what a link leads to."""
        if not parts:
            return os.fstat(self._root.fd)
        parent = self.directory(parts[:-1])
        return os.stat(parts[-1], dir_fd=parent.fd, follow_symlinks=False)

    def readlink(self, parts: Parts) -> bytes:
        """Target of a symbolic link; ENOENT if the entry has become something else."""
        parent = self.directory(parts[:-1])
        try:
            return os.readlink(parts[-1], dir_fd=parent.fd)
        except OSError as error:
            raise Failure(Errno.ENOENT if error.errno == Errno.EINVAL else error.errno or Errno.EIO) from None

    def open(self, parts: Parts, flags: int = os.O_RDONLY) -> Handle:
        """Open a regular file. Anything else fails with EACCES, and is not touched."""
        parent = self.directory(parts[:-1])
        _require_regular(os.stat(parts[-1], dir_fd=parent.fd, follow_symlinks=False))
        # The entry may be another one by now: O_NONBLOCK lets the check below happen even for a FIFO.
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
        handle = Handle(os.open(parts[-1], flags, dir_fd=parent.fd))
        _require_regular(os.fstat(handle.fd))
        return handle

    def create(self, parts: Parts, flags: int, mode: int) -> Handle:
        """Create a regular file that must not exist, with exactly `mode`, but never setuid or setgid."""
        parent = self.directory(parts[:-1])
        flags |= os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        handle = Handle(os.open(parts[-1], flags, 0o600, dir_fd=parent.fd))
        handle.chmod(mode)
        return handle

    def create_unnamed(self, parts: Parts, flags: int, mode: int) -> Handle:
        """Create a regular file without a name in the directory at `parts`."""
        directory = self.directory(parts)
        handle = Handle(os.open(b".", flags | os.O_TMPFILE, 0o600, dir_fd=directory.fd))
        handle.chmod(mode)
        return handle

    def names(self, parts: Parts) -> dict[bytes, Entry]:
        """The entries of a directory, without `.` and `..`."""
        directory = self.directory(parts)
        readable = Handle(os.open(b".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=directory.fd))
        with os.scandir(readable.fd) as entries:
            return {os.fsencode(entry.name): Entry(entry.inode(), _kind(entry)) for entry in entries}


def _kind(entry: os.DirEntry[str]) -> int:
    if entry.is_symlink():
        return stat.S_IFLNK >> 12
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR >> 12
    if entry.is_file(follow_symlinks=False):
        return stat.S_IFREG >> 12
    return stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode) >> 12


@dataclass(frozen=True, slots=True)
class Location:
    """Where something is on the host."""

    tree: HostTree
    parts: Parts

    def child(self, name: bytes) -> Location:
        """The entry `name` of the directory at this location."""
        return Location(self.tree, (*self.parts, name))

    def lstat(self) -> os.stat_result:
        """Status of the entry itself."""
        return self.tree.lstat(self.parts)

    @property
    def name(self) -> bytes:
        return self.parts[-1]

    def parent(self) -> Handle:
        """A handle of the directory that holds this entry."""
        return self.tree.directory(self.parts[:-1])

    def grip(self) -> Handle:
        """A handle (O_PATH) of the entry itself, never of what a link leads to."""
        return Handle(self.apply(os.open, os.O_PATH | os.O_NOFOLLOW))

    def apply(self, function: Callable[..., _T], *arguments: object, **options: object) -> _T:
        """Call a function of `os` that takes a name and the keyword `dir_fd` on this entry."""
        parent = self.parent()
        return function(self.parts[-1], *arguments, dir_fd=parent.fd, **options)


def rename_on_host(old: Location, new: Location, flags: int) -> None:
    """Rename an entry of a tree, with the flags of renameat2(2)."""
    source, target = old.parent(), new.parent()
    if flags:
        _renameat2(source.fd, old.name, target.fd, new.name, flags)
    else:
        os.rename(old.name, new.name, src_dir_fd=source.fd, dst_dir_fd=target.fd)
    old.tree.forget()
    new.tree.forget()


def _renameat2(old_fd: int, old: bytes, new_fd: int, new: bytes, flags: int) -> None:
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        raise Failure(Errno.EINVAL)
    if function(old_fd, old, new_fd, new, flags):
        raise Failure(ctypes.get_errno())
