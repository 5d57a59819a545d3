"""Loops of a program's code that the kernel skips, as their proposer has put them on the device."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from kvrm.backend.gpu.device_abi import SCRATCH, Module
from kvrm.lane import words as layout
from kvrm.staging.emitter import Value

if TYPE_CHECKING:
    from kvrm.backend.gpu.code import Code
    from kvrm.backend.protocols import Driver

SITE_BYTES = layout.STATE_BYTES - SCRATCH
"""Bytes of the words of a loop; loops that need more are not skipped."""
MOST = 256
"""Loops, at most: device memory for them is laid out once."""


class DeviceSkipping(Protocol):
    """Has loops skipped in the code of an engine (`kvrm.loops.device_sites`)."""

    def look(self, where: Iterable[tuple[int, int]]) -> None:
        """Addresses where lanes were when a launch ended, and how many were there."""

    def emit(self, module: Module) -> Value:
        """The kernel's function that skips iterations."""


@dataclass(slots=True)
class Site:
    """The instructions from `pc` to `end`; while it has to `rest`, they are not skipped.

    `entries` and `iterations`: how often lanes entered the loop, and how many iterations they skipped, as
    last seen.
    """

    pc: int
    end: int
    rest: int = 0
    entries: int = 0
    iterations: int = 0


class Skipped:
    """The loops of `code` that are skipped, in device memory one after the other."""

    def __init__(self, gpu: Driver, code: Code) -> None:
        self._code = code
        self.sites: list[Site] = []
        self.buffer = gpu.allocate(MOST * SITE_BYTES)

    def add(self, site: Site, words: array[int]) -> bool:
        """Have a loop skipped that has these words; False if there is no room."""
        if len(self.sites) == MOST or 8 * len(words) > SITE_BYTES:
            return False
        self.buffer.write(words, len(self.sites) * SITE_BYTES)
        self.sites.append(site)
        self.place()
        return True

    def place(self) -> None:
        """Have slots as `sites` say."""
        self._code.set_breakpoints(self._code.breakpoints)

    def words(self) -> npt.NDArray[np.uint64]:
        """All words of all loops, each a row."""
        rows = np.empty((len(self.sites), SITE_BYTES // 8), np.uint64)
        return self.buffer.read(rows) if len(rows) else rows
