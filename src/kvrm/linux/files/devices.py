"""The character devices of /dev: one row for each says what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.nodes import Device
from kvrm.linux.files.open_file import OpenFile
from kvrm.linux.files.paths import Name

if TYPE_CHECKING:
    from kvrm.linux.process import Process


def _nothing(process: Process, size: int) -> bytes:
    return b""


def _zeros(process: Process, size: int) -> bytes:
    return bytes(size)


def seeded(process: Process, size: int) -> bytes:
    """Bytes of the process's generator: lanes take them in native code, too."""
    return process.kernel.random_bytes(size)


@dataclass(frozen=True, slots=True)
class Character:
    """A kind of device: its major and minor number, and what `read` gives for a number of bytes.

    `read` None: it cannot be opened (ENXIO). A `full` one takes no byte (ENOSPC), others take all and forget
    them. A `mapped` one can be mapped, and shows zeros. `discards` and `gives_pages` are those of `OpenFile`.
    """

    major: int
    minor: int
    read: Callable[[Process, int], bytes] | None
    full: bool = False
    discards: bool = True
    gives_pages: bool = True
    mapped: bool = False


DEVICES: Final = {
    "null": Character(1, 3, _nothing, gives_pages=False),
    "zero": Character(1, 5, _zeros, mapped=True),
    "full": Character(1, 7, _zeros, full=True),
    "random": Character(1, 8, seeded, discards=False),
    "urandom": Character(1, 9, seeded, discards=False),
    # there are no terminals, neither this one nor new ones
    "tty": Character(5, 0, None),
    "ptmx": Character(5, 2, None),
}
"""By name in /dev."""


class DeviceFile(OpenFile):
    """An open character device."""

    node: Device
    positioned = True

    def __init__(self, flags: int, name: Name | bytes, node: Device) -> None:
        super().__init__(flags, name, node)
        device = self.device
        self.by_piece, self.takes_pages = device.full, not device.full
        self.discards, self.gives_pages = device.discards, device.gives_pages

    @property
    def device(self) -> Character:
        """Its row."""
        return DEVICES[self.node.kind]

    def read(self, process: Process, size: int) -> bytes:
        assert self.device.read is not None
        return self.device.read(process, size)

    def write(self, process: Process, data: bytes) -> int:
        if self.device.full:
            raise Failure(Errno.ENOSPC)
        return len(data)

    def pread(self, process: Process, size: int, offset: int) -> bytes:
        return self.read(process, size)

    def pwrite(self, process: Process, data: bytes, offset: int) -> int:
        return self.write(process, data)

    def seek(self, offset: int, whence: int) -> int:
        return 0
