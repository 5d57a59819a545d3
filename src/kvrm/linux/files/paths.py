"""Path resolution in the guest's name space (path_resolution(7))."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, NamedTuple

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.nodes import Node, Symlink
from kvrm.linux.layout import Stat

if TYPE_CHECKING:
    from kvrm.linux.process import Process


class Found(NamedTuple):
    """Where a path ends: `node` is what is called `name` in `directory`, None if nothing is.

    `name` is b"." if the path ends in `.` or `..` or is the root's, and then `directory` is the node itself.
    `slash`: a slash follows, so that the path can only mean a directory. `magic` is what the node is called
    by the link of /proc that led to it, if one did.
    """

    directory: Directory
    name: bytes
    node: Node | None
    slash: bool
    magic: Name | bytes | None = None

    def existing(self) -> Node:
        """The node; ENOENT if there is none."""
        if self.node is None:
            raise Failure(Errno.ENOENT)
        return self.node

    @property
    def called(self) -> Name | bytes:
        """The name of the node, or the text that stands for it."""
        if self.magic is not None:
            return self.magic
        if isinstance(self.node, Directory):
            return name_of(self.node)
        return Name(self.directory, self.name, False)


class Name(NamedTuple):
    """The last name of a path, in the directory that the rest of the path leads to.

    b".", b".." and b"" (the root's own path) are none that can be made or removed. `removed`: nothing has
    the name any more, or it was never given.
    """

    directory: Directory
    name: bytes
    slash: bool
    removed: bool = False

    @property
    def path(self) -> bytes:
        """The absolute path, as links of /proc show it."""
        path = self.directory.path().rstrip(b"/") + b"/" + self.name
        return path + b" (deleted)" if self.removed else path

    @property
    def ordinary(self) -> bool:
        """Whether it is the name of an entry of the directory."""
        return self.name not in (b"", b".", b"..")

    def lookup(self) -> Found:
        """What has the name now. A link is not followed, not even before a slash."""
        if self.ordinary:
            return Found(self.directory, self.name, self.directory.find(self.name), self.slash)
        here = self.directory.parent if self.name == b".." else self.directory
        return Found(here, b".", here, True)


def name_of(directory: Directory) -> Name:
    """What a directory is called now, or was when it was removed."""
    return Name(directory.parent, directory.name, False, directory.dead)


class Credentials(NamedTuple):
    """Who the guest is: the host's own identity, so that the owners of files agree."""

    uid: int
    gid: int
    groups: frozenset[int]

    def allow(self, status: Stat, want: int) -> bool:
        """Whether permission bits grant `want` (R_OK | W_OK | X_OK). Root needs one execute bit, to run."""
        if self.uid == 0:
            return not want & abi.X_OK or stat.S_ISDIR(status.mode) or bool(status.mode & 0o111)
        if status.uid == self.uid:
            granted = status.mode >> 6
        elif status.gid == self.gid or status.gid in self.groups:
            granted = status.mode >> 3
        else:
            granted = status.mode
        return not want & ~granted & 7

    def require(self, node: Node, want: int) -> None:
        """EACCES if the permission bits of `node` do not grant `want`."""
        if not self.allow(node.stat(), want):
            raise Failure(Errno.EACCES)


def resolve(
    process: Process, base: Directory, path: bytes, follow: bool = True, create: bool = False
) -> Found:
    """What `path` means. A symbolic link at its end is followed if `follow`, or before a slash.

    With `create` a path that ends in a slash is refused with EISDIR, as a file is wanted.
    """
    walk = _Walk(process)
    name = walk.name(base, path)
    while True:
        if create and name.slash and name.ordinary:
            raise Failure(Errno.EISDIR)
        found = name.lookup()
        if not isinstance(found.node, Symlink) or not (follow or found.slash):
            break
        target = walk.follow(found.node)
        if isinstance(target, Node):
            found = found._replace(node=target, magic=found.node.called(process))
            break
        name = walk.name(found.directory, target, found.slash)
    if found.slash and not isinstance(found.node, Directory | None):
        raise Failure(Errno.ENOTDIR)
    return found


def resolve_name(process: Process, base: Directory, path: bytes) -> Name:
    """The name that a call makes, changes or removes, and its directory."""
    return _Walk(process).name(base, path)


class _Walk:
    """Steps along one path, which follow a limited number of links.

    Absolute paths and links start at the guest's root, and `..` stays there.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._links = 0

    def name(self, here: Directory, path: bytes, slash: bool = False) -> Name:
        """Follow all but the last name. `slash`: one follows after the path."""
        if not path:
            raise Failure(Errno.ENOENT)
        if len(path) >= abi.PATH_MAX:
            raise Failure(Errno.ENAMETOOLONG)
        slash = slash or path.endswith(b"/")
        here, pending = self._start(here, path)
        while pending:
            name = pending.pop()
            self._search(here)
            if not pending:
                return Name(here, name, slash)
            node: Node | bytes = Name(here, name, True).lookup().existing()
            if isinstance(node, Symlink):
                node = self.follow(node)
            if isinstance(node, bytes):
                here, more = self._start(here, node)
                pending += more
            elif isinstance(node, Directory):
                here = node
            else:
                raise Failure(Errno.ENOTDIR)
        return Name(here, b"", slash)

    def follow(self, link: Symlink) -> Node | bytes:
        """Where a link leads: to a node, or to a path."""
        self._links += 1
        if self._links > abi.MAX_LINKS:
            raise Failure(Errno.ELOOP)
        return link.target(self._process) or link.text(self._process)

    def _start(self, here: Directory, path: bytes) -> tuple[Directory, list[bytes]]:
        """Where a path starts, and its names, the first one last."""
        names = [name for name in reversed(path.split(b"/")) if name]
        return self._process.kernel.files.root if path.startswith(b"/") else here, names

    def _search(self, directory: Directory) -> None:
        if directory.meta is not None:  # else the host checks
            self._process.credentials.require(directory, abi.X_OK)
