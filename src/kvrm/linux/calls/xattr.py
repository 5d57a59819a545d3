"""Extended attributes: there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.paths import resolve

if TYPE_CHECKING:
    from kvrm.linux.process import Process


def getxattr(process: Process, path: int, name: int, value: int, size: int) -> int:
    """Extended attributes: there are none."""
    resolve(process, process.cwd, process.path(path)).existing()
    raise Failure(Errno.ENODATA)


def lgetxattr(process: Process, path: int, name: int, value: int, size: int) -> int:
    """Extended attributes: there are none."""
    resolve(process, process.cwd, process.path(path), follow=False).existing()
    raise Failure(Errno.ENODATA)


def fgetxattr(process: Process, fd: int, name: int, value: int, size: int) -> int:
    """Extended attributes: there are none."""
    process.file(fd)
    raise Failure(Errno.ENODATA)


def listxattr(process: Process, path: int, names: int, size: int) -> int:
    """Extended attributes: there are none."""
    resolve(process, process.cwd, process.path(path)).existing()
    return 0


def llistxattr(process: Process, path: int, names: int, size: int) -> int:
    """Extended attributes: there are none."""
    resolve(process, process.cwd, process.path(path), follow=False).existing()
    return 0


def flistxattr(process: Process, fd: int, names: int, size: int) -> int:
    """Extended attributes: there are none."""
    process.file(fd)
    return 0
