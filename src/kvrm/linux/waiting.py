"""Waiting: time passes, and only timers can change anything, since nothing else runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar

from kvrm.linux.clock import LATEST
from kvrm.linux.outcome import deadlock

if TYPE_CHECKING:
    from kvrm.linux.process import Process

T = TypeVar("T")


def wait(process: Process, ready: Callable[[], T | None], deadline: int | None, reason: str) -> T | None:
    """What `ready` gives, as soon as that is not None; None at `deadline`, a time of the monotonic clock.

    Ends the run by Finish if a timer's signal does, or if `ready` can never give anything: `reason` then
    says what the program waits for.
    """
    while (found := ready()) is None and (deadline is None or process.kernel.uptime < min(deadline, LATEST)):
        _pass(process, deadline, reason)
    return found


def wait_until(process: Process, deadline: int | None, reason: str) -> None:
    """Let time pass up to `deadline`; None waits for a signal that ends the run."""
    wait(process, lambda: None, deadline, reason)


def wait_for_ever(process: Process, reason: str) -> NoReturn:
    """Wait for what can never come, unless a timer's signal ends the run before."""
    while True:
        _pass(process, None, reason)


def _pass(process: Process, deadline: int | None, reason: str) -> None:
    """Let time pass up to the next timer, or to the deadline if that is earlier."""
    times = [time for time in (deadline, process.timers.next_time()) if time is not None]
    if not times:
        deadlock(reason)
    process.kernel.skip_to(min(times))
    process.timers.expire(process)
