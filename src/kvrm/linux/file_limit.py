"""RLIMIT_FSIZE: how large a regular file may become. What passes it fails, with SIGXFSZ."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from kvrm.linux import abi
from kvrm.linux.delivery import send_own
from kvrm.linux.errno import Errno, Failure

if TYPE_CHECKING:
    from kvrm.linux.process import Process


def within_limit(process: Process, data: bytes, offset: int) -> bytes:
    """The part of `data` that may be written at `offset`; EFBIG if that is nothing of something."""
    limit = process.limit(abi.RLIMIT_FSIZE)[0]
    if data and offset >= limit:
        _refuse(process)
    return data[: max(limit - offset, 0)]


def require_size(process: Process, old: int, new: int) -> None:
    """EFBIG if a file of `old` bytes may not become one of `new`."""
    if old < new > process.limit(abi.RLIMIT_FSIZE)[0]:
        _refuse(process)


def _refuse(process: Process) -> NoReturn:
    send_own(process, abi.SIGXFSZ)
    raise Failure(Errno.EFBIG)
