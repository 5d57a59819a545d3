"""What observers of a lane are. Engines know these protocols and no observer by name.

Four kinds of observer differ in what they are told, and so in what they cost. A `StagedObserver` is compiled
into the handlers of the interpreter: code is kept by the observers that it was staged with, and handlers
without one are the same, to the byte, as if there were none. An `AccessObserver` is fed by one of these
(`kvrm.observe.recorder`). An `InstructionObserver` has the engine, whichever it is, run one instruction at a
time (`kvrm.observe.stepping`). A `RunObserver` is told of whole slices of native code, which every engine
counts anyway: that of a machine is its account (`kvrm.observe.account`), from which profiles are made.

`kvrm.Machine(observers=[...])` takes the first three (docs/design/extending.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np  # most starts observe nothing, and need no arrays
    import numpy.typing as npt

    from kvrm.lane.state import State


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


@runtime_checkable
class InstructionObserver(Protocol):
    """Is told of each instruction that a lane runs."""

    def before(self, retired: int) -> None:
        """The instruction at pc comes next; `retired` have retired by now. It may turn out to fault."""

    def after(self) -> None:
        """It has retired, or stopped the lane."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The lane that a staged observer watches.

    `state` has its words, of which OBSERVED is the observer's own, `peek(address, length)` reads its memory,
    and `pc_of(slot)` is the address of the instruction whose slot is at a host address.
    """

    state: State
    peek: Callable[[int, int], bytes]
    pc_of: Callable[[int], int]


@runtime_checkable
class StagedObserver(Protocol):
    """Is compiled into the handlers of an interpreter, and reads what they left after each stretch of them.

    `stage` names a class, "module:Class", whose methods emit what handlers do besides: a subclass of
    `HandlerStage` (`kvrm.engine.interpreter.stage`). At most `most` instructions run between `enter` and
    `leave`.
    """

    stage: str
    most: int

    def attach(self, watched: Watched) -> None:
        """The engine has been made."""

    def enter(self) -> None:
        """Native code runs next."""

    def leave(self) -> None:
        """It has returned."""


class RunObserver(Protocol):
    """Is told what an engine ran, and what it cost. All seconds are wall time."""

    def ran(self, instructions: int, seconds: float) -> None:
        """That many instructions ran in native code."""

    def sample(self, region: int, pc: int, fpcr: int) -> None:
        """What native code ran since the last sample ended at `pc`, in a region (0: in handlers)."""

    def stepped(self, pc: int, retired: bool, seconds: float, fpcr: int) -> None:
        """The reference engine ran the instruction at `pc`."""

    def followed(self, seconds: float) -> None:
        """The program was followed to find out what to translate; native code is not in these seconds."""

    def asked(self, pages: Iterable[int]) -> None:
        """Code on pages with these numbers was looked at for regions."""

    def places(self, number: int, entry: int, code: Code, seconds: float, cached: bool) -> None:
        """A region can be entered from now on, which took that long to compile, or was `cached`."""

    def called(self, number: int, seconds: float, count: int = 1) -> None:
        """A system call was made `count` times."""


Code = tuple[tuple[int, bytes], ...]
"""Guest code: pairs of address and bytes."""
