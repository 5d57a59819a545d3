"""What observers of a lane are: an engine that has none pays nothing for them.

One that wants accesses has them recorded by handlers that are compiled to do so
(`kvrm.engine.interpreter.recorder`); one that wants each instruction has the engine run one at a time
(`kvrm.observe.stepping`), whatever engine that is. What every run counts anyway, by samples, is an engine's
account (`kvrm.engine.account`), from which profiles are made (`kvrm.observe.profile`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Accesses:
    """n memory accesses: `pc` and `address` (uint64), `retired` before the instruction (int64).

    `size` in bytes (uint8), `write` (bool). Addresses have no tag.
    """

    pc: npt.NDArray[np.uint64]
    address: npt.NDArray[np.uint64]
    retired: npt.NDArray[np.int64]
    size: npt.NDArray[np.uint8]
    write: npt.NDArray[np.bool_]


@runtime_checkable
class AccessObserver(Protocol):
    """Is told how a machine's code is read, and of its accesses."""

    def attach(self, peek: Callable[[int, int], bytes]) -> None:
        """Accesses begin; `peek(address, length)` reads code."""

    def feed(self, a: Accesses) -> None:
        """The guest made these accesses."""


class InstructionObserver(Protocol):
    """Is told of each instruction that a lane runs."""

    def before(self, retired: int) -> None:
        """The instruction at pc comes next; `retired` have retired by now. It may turn out to fault."""

    def after(self) -> None:
        """It has retired, or stopped the lane."""
