"""Why a lane stopped: one vocabulary for engines, targets and results. Light, for every start imports it."""

from __future__ import annotations

from enum import Enum, IntEnum


class Stop(Enum):
    """Why a run returned."""

    EXIT = "exit"
    """The program ended by itself; `exit_code` is its status."""
    SIGNAL = "signal"
    """The program ended itself by a signal (abort, kill)."""
    FAULT = "fault"
    """A memory access, or a fetch, that is not allowed."""
    UNDEFINED = "undefined"
    """An instruction that is not allocated, not defined yet, or not for user programs."""
    BREAKPOINT = "breakpoint"
    """`machine.breakpoints` holds the pc; its instruction has not run."""
    BUDGET = "budget"
    """`max_instructions` have retired."""
    SYSCALL = "syscall"
    """A bare machine executed SVC, or a program asked for what its Linux cannot do; pc is after the SVC."""
    BRK = "brk"
    """A BRK instruction; pc is at it."""
    OUT_OF_MEMORY = "out of memory"
    """The lane has as many private pages as its limit allows."""
    CANCELLED = "cancelled"
    """`cancel` ended the run before anything else did; another run goes on."""
    MISPLACED = "misplaced"
    """The dispatch policy has the instruction at pc in a class whose handlers cannot run it."""

    @property
    def code(self) -> int:
        """The number that stands for this reason in arrays; `STOPS[code]` is the reason."""
        return _CODES[self]


STOPS = tuple(Stop)
"""The stop reasons by their codes."""
_CODES = {stop: code for code, stop in enumerate(STOPS)}
GOES_ON = (Stop.BUDGET, Stop.CANCELLED)
"""Those after which another run simply continues."""
ENDED = (Stop.EXIT, Stop.SIGNAL, Stop.SYSCALL)
"""Those after which a program does not go on by itself: it is over, or waits for what cannot come."""


class Reason(IntEnum):
    """Why a lane left the code that ran it: the number in its state, and in an engine's `Exit`.

    `stop` is what the run ends with unless the engine, the target or Linux serves the lane, which then goes
    on; None if one of them always does. An instruction asks for SVC, BRK, UNDEFINED or CODE_WRITE itself.
    """

    stop: Stop | None

    def __new__(cls, value: int, stop: Stop | None = None) -> Reason:
        reason = int.__new__(cls, value)
        reason._value_, reason.stop = value, stop
        return reason

    @property
    def retires(self) -> bool:
        """Whether the instruction has retired for which the lane left."""
        return self in (Reason.SVC, Reason.CODE_WRITE)

    BUDGET = 1, Stop.BUDGET
    MEMORY = 2, Stop.FAULT
    """The page table does not allow the access that ADDRESS and KIND name."""
    CODE = 3, Stop.FAULT
    """A branch led to where nothing is predecoded."""
    HANDLER = 4, Stop.UNDEFINED
    """No handler is known for the instruction's word."""
    SVC = 5, Stop.SYSCALL
    BRK = 6, Stop.BRK
    UNDEFINED = 7, Stop.UNDEFINED
    CODE_WRITE = 8
    """The guest may have changed code at ADDRESS."""
    BREAKPOINT = 9, Stop.BREAKPOINT
    STEP = 10
    """The reference engine is to run the instruction."""
    UNTRANSLATED = 11
    """The forced translator has no region here."""
    EXIT = 12, Stop.EXIT
    """A system call that native code did has ended the program; ADDRESS is its exit code."""
    FAULT = 13, Stop.FAULT
    """The access or fetch of ADDRESS is not allowed, whatever is done."""
    FULL = 14, Stop.OUT_OF_MEMORY
    """The lane has as many pages of its own as it may."""
    MISPLACED = 15, Stop.MISPLACED
    """The dispatch policy has the instruction in a class whose handlers cannot run it."""
    AGAIN = 16
    """The lane goes on with what is left of its grant."""
    NO_PAGE = 17
    """A system call found the device's pool of pages used up."""
    NO_ANSWER = 18
    """A system call has asked the host about a file."""
    AWAY = 19
    """The lane runs elsewhere."""
