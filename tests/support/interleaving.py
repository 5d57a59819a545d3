"""Lanes of a group at the same time: staged text as Python, a step of one lane after a step of another.

A step ends before each operation on memory that lanes share (`kvrm.staging.device`). The operations are done
at once, as a GPU's atomic ones are, and in the order of the steps: weaker orders are for a GPU to show.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, TypeVar

from kvrm.staging import device

T = TypeVar("T")
OPERATIONS = device.__file__
MOST_STEPS = 200_000
"""After which lanes count as waiting for each other."""


class _Lane:
    """One lane's work, in a thread that runs only while it is its turn."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._turn, self._back = threading.Lock(), threading.Lock()
        self._turn.acquire()
        self._back.acquire()
        self._work, self._ends = work, False
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_done = False
        threading.Thread(target=self._run, daemon=True).start()

    def step(self) -> None:
        """Run up to the next operation."""
        self._turn.release()
        self._back.acquire()

    def end(self) -> None:
        """Have the thread end wherever it is."""
        while not self.is_done:
            self._ends = True
            self.step()

    def _run(self) -> None:
        self._turn.acquire()
        sys.setprofile(self._look)
        try:
            self.result = self._work()
        except BaseException as error:
            self.error = error
        sys.setprofile(None)
        self.is_done = True
        self._back.release()

    def _look(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or frame.f_code.co_filename != OPERATIONS:
            return
        caller = frame.f_back
        if caller is not None and caller.f_code.co_filename != OPERATIONS:
            self._back.release()
            self._turn.acquire()
            if self._ends:
                raise SystemExit


def interleaved(rng: random.Random, works: Sequence[Callable[[], T]]) -> list[T]:
    """What each lane's work returns, all at the same time; AssertionError if they wait for each other."""
    lanes = [_Lane(work) for work in works]
    going = list(lanes)
    try:
        for _ in range(MOST_STEPS):
            if not going:
                return [lane.result for lane in lanes]
            lane = rng.choice(going)
            # mostly in step, for then they meet; now and then one gets far ahead
            for _ in range(rng.choice((1, 1, 2)) if rng.random() < 0.99 else 100):
                lane.step()
                if lane.error is not None:
                    raise lane.error
                if lane.is_done:
                    going.remove(lane)
                    break
        raise AssertionError("lanes wait for each other")
    finally:
        for lane in going:
            lane.end()
