"""Path resolution in the guest's name space (path_resolution(7))."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, NamedTuple

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.nodes import Directory, Node, Symlink
from kvrm.linux.layout import Stat

if TYPE_CHECKING:
    from kvrm.linux.process import Process


class Found(NamedTuple):
    """Where a path ends: `node` is what is called `name` in `directory`, None if nothing is.

    `name` is b"." if the path ends in `.`, `..` or `/`, and then `directory` is the node itself. `slash`: the
    path ends in a slash, so it can only mean a directory.
    """

    directory: Directory
    name: bytes
    node: Node | None
    slash: bool

    def existing(self) -> Node:
        """The node; ENOENT if there is none."""
        if self.node is None:
            raise Failure(Errno.ENOENT)
        return self.node


class Credentials(NamedTuple):
    """Who the guest is: the host's own identity, so that the owners of files agree."""

    uid: int
    gid: int
    groups: frozenset[int]

    def allow(self, status: Stat, want: int) -> bool:
        """Whether permission bits grant `want` (R_OK | W_OK | X_OK). Root may all but run what nobody may."""
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


def resolve(process: Process, base: Directory, path: bytes, follow: bool = True) -> Found:
    """Walk `path` from `base`. A symbolic link at the end is followed if `follow`, or before a slash.

    Absolute paths and links start at the guest's root, and `..` stays there.
    """
    if not path:
        raise Failure(Errno.ENOENT)
    if len(path) >= abi.PATH_MAX:
        raise Failure(Errno.ENAMETOOLONG)
    root = process.files.root
    here = root if path.startswith(b"/") else base
    pending = path.split(b"/")[::-1]
    slash = path.endswith(b"/")
    links = 0
    while pending:
        name = pending.pop()
        if name in (b"", b"."):
            continue
        if here.meta is not None:  # else the host checks
            process.credentials.require(here, abi.X_OK)
        if name == b"..":
            here = here.parent
            continue
        if len(name) > abi.NAME_MAX:
            raise Failure(Errno.ENAMETOOLONG)
        if here.dead:
            raise Failure(Errno.ENOENT)
        node = here.lookup(name)
        last = not any(pending)
        if isinstance(node, Symlink) and (not last or follow or slash):
            links += 1
            if links > abi.MAX_LINKS:
                raise Failure(Errno.ELOOP)
            target = node.target(process)
            if target is None:
                text = node.text(process)
                here = root if text.startswith(b"/") else here
                slash = slash or (last and text.endswith(b"/"))
                pending += text.split(b"/")[::-1]
                continue
            node = target
        if last:
            if slash and node is not None and not isinstance(node, Directory):
                raise Failure(Errno.ENOTDIR)
            return Found(here, name, node, slash)
        if node is None:
            raise Failure(Errno.ENOENT)
        if not isinstance(node, Directory):
            raise Failure(Errno.ENOTDIR)
        here = node
    return Found(here, b".", here, True)
