"""Signals: what is to happen on each, and which wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.files.wakeups import WaitQueue
from kvrm.linux.layout import SIGACTION
from kvrm.linux.siginfo import Info

if TYPE_CHECKING:
    from kvrm.linux.files.copying import FileCopies


def _bits(*signals: int) -> int:
    return sum(1 << signal - 1 for signal in signals)


UNBLOCKABLE: Final = _bits(abi.SIGKILL, abi.SIGSTOP)
_IGNORED: Final = _bits(abi.SIGCHLD, abi.SIGCONT, abi.SIGURG, abi.SIGWINCH)
"""Signals whose default is that nothing happens."""
STOPPING: Final = _bits(abi.SIGSTOP, abi.SIGTSTP, abi.SIGTTIN, abi.SIGTTOU)
_SYNCHRONOUS: Final = _bits(abi.SIGSEGV, abi.SIGBUS, abi.SIGILL, abi.SIGTRAP, abi.SIGFPE, abi.SIGSYS)
"""Signals of an instruction, which are taken before all others."""
_REAL_TIME: Final = 32
"""Signals from this number on are queued as often as they are sent."""


@dataclass(frozen=True, slots=True)
class Action:
    """What rt_sigaction sets; `handler` is SIG_DFL, SIG_IGN or an address."""

    handler: int = abi.SIG_DFL
    flags: int = 0
    restorer: int = 0
    mask: int = 0

    def packed(self) -> bytes:
        """As `struct sigaction`."""
        return SIGACTION.pack(self.handler, self.flags, self.restorer, self.mask)


_DEFAULT: Final = Action()


@dataclass(slots=True)
class Pending:
    """Signals that wait, as a mask (bit n-1 is signal n), and what is told with them in order of arrival.

    A signal of the mask that has no entry lost it to RLIMIT_SIGPENDING.
    """

    mask: int = 0
    queue: list[Info] = field(default_factory=list)

    def relink(self, copies: FileCopies) -> None:
        self.queue = self.queue.copy()

    def add(self, info: Info, room: bool) -> bool:
        """Keep a signal, `room` or not. False if it may only be sent with what it tells, and that is lost."""
        bit, real_time = 1 << info.signal - 1, info.signal >= _REAL_TIME
        if self.mask & bit and not real_time and info.timer is None:
            return True
        if room or (not real_time and info.code >= 0):
            self.queue.append(info)
        elif real_time and info.code != abi.SI_USER:
            return False
        self.mask |= bit
        return True

    def take(self, among: int) -> Info | None:
        """Remove the first signal of the mask `among`; None if none of them waits."""
        ready = self.mask & among
        ready = ready & _SYNCHRONOUS or ready
        if not ready:
            return None
        signal = (ready & -ready).bit_length()
        same = [info for info in self.queue if info.signal == signal]
        if same:
            self.queue.remove(same[0])
        if len(same) < 2:
            self.mask &= ~(1 << signal - 1)
        return same[0] if same else Info(signal)

    def drop(self, signals: int) -> None:
        """Forget the signals of a mask."""
        if self.mask & signals:
            self.mask &= ~signals
            self.queue = [info for info in self.queue if not signals >> info.signal - 1 & 1]


@dataclass(slots=True)
class Signals:
    """What a process does on each signal, and those that wait for any of its tasks (`shared`).

    Signal descriptors wait in `queue`.
    """

    actions: dict[int, Action] = field(default_factory=dict)
    shared: Pending = field(default_factory=Pending)
    queue: WaitQueue = field(default_factory=WaitQueue)

    def relink(self, copies: FileCopies) -> None:
        self.actions = self.actions.copy()
        self.shared, self.queue = copies.of(self.shared), copies.of(self.queue)

    def action(self, signal: int) -> Action:
        """What happens on `signal`."""
        return self.actions.get(signal, _DEFAULT)

    def handler(self, signal: int) -> int:
        """The address of the function that `signal` would call; 0 if there is none."""
        handler = self.action(signal).handler
        return 0 if handler in (abi.SIG_DFL, abi.SIG_IGN) else handler

    def ignored(self, signal: int) -> bool:
        """Whether nothing happens on `signal`."""
        handler = self.action(signal).handler
        return handler == abi.SIG_IGN or (handler == abi.SIG_DFL and bool(_IGNORED >> signal - 1 & 1))
