"""Signals of a process that has only itself to send them."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field

from kvrm.linux import abi
from kvrm.linux.outcome import Finish, Killed, Stopped

_IGNORED = frozenset({abi.SIGCHLD, abi.SIGCONT, abi.SIGURG, abi.SIGWINCH})
_STOPPING = frozenset({abi.SIGSTOP, abi.SIGTSTP, abi.SIGTTIN, abi.SIGTTOU})
UNBLOCKABLE = 1 << abi.SIGKILL - 1 | 1 << abi.SIGSTOP - 1


@dataclass(frozen=True, slots=True)
class Action:
    """What rt_sigaction sets; `handler` is SIG_DFL, SIG_IGN or an address."""

    handler: int = abi.SIG_DFL
    flags: int = 0
    restorer: int = 0
    mask: int = 0


@dataclass(slots=True)
class Signals:
    """Actions, blocked and pending signals (bit n-1 is signal n) and the alternate stack."""

    actions: dict[int, Action] = field(default_factory=dict)
    blocked: int = 0
    pending: int = 0
    stack: tuple[int, int, int] = (0, abi.SS_DISABLE, 0)

    def copy(self) -> Signals:
        """An independent copy."""
        other = copy(self)
        other.actions = self.actions.copy()
        return other

    def action(self, signal: int) -> Action:
        """What happens on `signal`."""
        return self.actions.get(signal, Action())

    def handler(self, signal: int) -> int:
        """The address of the function that `signal` would call; 0 if there is none."""
        handler = self.action(signal).handler
        return 0 if handler in (abi.SIG_DFL, abi.SIG_IGN) else handler

    def send(self, signal: int) -> None:
        """Deliver a signal, or keep it pending while it is blocked. Ends the run by Finish if it must."""
        if self.blocked >> signal - 1 & 1:
            if self.action(signal).handler != abi.SIG_IGN:
                self.pending |= 1 << signal - 1
            return
        handler = self.action(signal).handler
        if handler == abi.SIG_DFL:
            if signal in _STOPPING:
                raise Finish(Stopped(f"the program stopped itself with {abi.signal_name(signal)}"))
            if signal not in _IGNORED:
                raise Finish(Killed(signal))
        elif handler != abi.SIG_IGN:
            name = abi.signal_name(signal)
            raise Finish(Stopped(f"signal handlers are not supported yet: {name} is to call {handler:#x}"))

    def block(self, mask: int) -> None:
        """Set which signals are blocked; pending ones that no longer are get delivered."""
        self.blocked = mask & ~UNBLOCKABLE
        ready = self.pending & ~self.blocked
        self.pending &= self.blocked
        for signal in range(1, abi.NSIG + 1):
            if ready >> signal - 1 & 1:
                self.send(signal)
