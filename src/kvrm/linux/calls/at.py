"""What the path arguments of a call mean: a descriptor to start from, a pointer to the path, and flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvrm.linux import abi
from kvrm.linux.files.nodes import Node
from kvrm.linux.files.open_file import OpenFile
from kvrm.linux.files.paths import Found, Name, name_of, resolve, resolve_name
from kvrm.linux.layout import Stat

if TYPE_CHECKING:
    from kvrm.linux.process import Process


def found_at(process: Process, dirfd: int, path: bytes, follow: bool = True) -> Found:
    """Where a path ends that starts at a descriptor, if it is not absolute."""
    return resolve(process, process.base(dirfd, path), path, follow)


def name_at(process: Process, dirfd: int, pointer: int) -> Name:
    """The name that a path ends in."""
    path = process.path(pointer)
    return resolve_name(process, process.base(dirfd, path), path)


class Target(NamedTuple):
    """What a call is about, and what it is called."""

    node: Node
    called: Name | bytes


def target_at(process: Process, dirfd: int, pointer: int, flags: int, follow: bool) -> Target:
    """What a path (or, with AT_EMPTY_PATH, a descriptor) means."""
    path = process.path(pointer)
    if path or not flags & abi.AT_EMPTY_PATH:
        found = found_at(process, dirfd, path, follow)
        return Target(found.existing(), found.called)
    if dirfd == abi.AT_FDCWD:
        return Target(process.cwd, name_of(process.cwd))
    return target_of(process.any_file(dirfd))


def target_of(file: OpenFile) -> Target:
    """What a descriptor means."""
    return Target(file.target(), file.called)


def status_at(process: Process, dirfd: int, pointer: int, flags: int) -> Stat:
    """The status of that."""
    path = process.path(pointer)
    if path or not flags & abi.AT_EMPTY_PATH:
        return found_at(process, dirfd, path, not flags & abi.AT_SYMLINK_NOFOLLOW).existing().stat()
    return process.cwd.stat() if dirfd == abi.AT_FDCWD else process.any_file(dirfd).stat()
