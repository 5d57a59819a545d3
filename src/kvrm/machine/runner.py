"""One way to run a machine or its lanes: here and now, or in the background while Python goes on."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from ctypes import c_uint64
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from kvrm.arguments import integer
from kvrm.arguments import seconds as checked_seconds
from kvrm.errors import UsageError
from kvrm.lane.stops import GOES_ON, Stop
from kvrm.machine.result import Progress, Result

T = TypeVar("T")
UNLIMITED = 1 << 62
SLICE = 10_000_000
"""Instructions between two looks at whether a run was cancelled."""
BATCH = 10_000_000
"""Instructions in a batch unless the caller says otherwise."""
_background: weakref.WeakSet[Runner[Any]] = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class Plan:
    """What one run may do: `budget` instructions of each lane, `batch` of them before other lanes run."""

    budget: int
    batch: int

    @staticmethod
    def of(max_instructions: int | None, max_batches: int | None, instructions_per_batch: int | None) -> Plan:
        """The plan of the public arguments. Raises UsageError."""
        budget = UNLIMITED if max_instructions is None else integer("max_instructions", max_instructions, 0)
        batch = None
        if instructions_per_batch is not None:
            batch = integer("instructions_per_batch", instructions_per_batch, 1)
        if max_batches is not None:
            batch = BATCH if batch is None else batch
            budget = min(budget, integer("max_batches", max_batches, 0) * batch)
        # native code counts in 64 bits
        budget = min(budget, UNLIMITED)
        return Plan(budget, budget if batch is None else min(batch, UNLIMITED))


class Runner(ABC, Generic[T]):
    """Runs something that can be cancelled and says how far it is; `T` is what a run gives back."""

    def __init__(self) -> None:
        self._cancel = c_uint64(0)
        self._lock = threading.Lock()
        self._busy = False
        self._thread: threading.Thread | None = None
        self._result: T | None = None
        self._error: BaseException | None = None
        self._began = self._ended = 0.0

    def run(
        self,
        max_instructions: int | None = None,
        *,
        max_batches: int | None = None,
        instructions_per_batch: int | None = None,
    ) -> T:
        """Run, and return when everything stopped or the budget is used up. Raises UsageError."""
        self._begin(plan := Plan.of(max_instructions, max_batches, instructions_per_batch))
        try:
            return self._run(plan)
        finally:
            self._end()

    def start(
        self,
        max_instructions: int | None = None,
        *,
        max_batches: int | None = None,
        instructions_per_batch: int | None = None,
    ) -> None:
        """Begin in the background what `run` does, and return at once. Raises UsageError."""
        self._begin(plan := Plan.of(max_instructions, max_batches, instructions_per_batch))
        self._thread = threading.Thread(target=self._in_background, args=(plan,), daemon=True)
        _background.add(self)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> T:
        """The result of what `start` began, once it is there; whatever `run` would raise is raised here.

        Raises TimeoutError after `timeout` seconds, UsageError if nothing was started.
        """
        most = checked_seconds("timeout", timeout)
        if self._thread is None:
            raise UsageError("nothing was started")
        self._thread.join(most)
        if self._thread.is_alive():
            raise TimeoutError(f"still running after {most} seconds")
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def is_running(self) -> bool:
        """Whether a run is going on."""
        return self._busy

    def cancel(self) -> None:
        """Ask the run that is going on to stop soon; `wait` gives what there is. Nothing if there is none."""
        if self._busy:
            self._cancel.value = 1

    def poll(self) -> Progress:
        """How far the run is that is going on, or how far the last one came. Never waits."""
        return self._progress(self._busy, self.seconds)

    @property
    def seconds(self) -> float:
        """Wall time of the run that is going on, or of the last one."""
        return (time.perf_counter() if self._busy else self._ended) - self._began

    def require_idle(self) -> None:
        """Raise UsageError while a run is going on."""
        if self._busy:
            raise UsageError("a run is going on; wait() for it or cancel() it first")

    @abstractmethod
    def _run(self, plan: Plan) -> T:
        """Do it; return soon once `_cancel` is not 0."""

    @abstractmethod
    def _prepare(self) -> None:
        """What is done before `start` returns, so that errors of usage are raised there."""

    @abstractmethod
    def _progress(self, running: bool, seconds: float) -> Progress:
        """How far it is; any thread may ask."""

    def _begin(self, plan: Plan) -> None:
        with self._lock:
            self.require_idle()
            self._cancel.value = 0
            self._busy = True
        try:
            self._thread = self._result = self._error = None
            self._began = time.perf_counter()
            self._prepare()
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        self._ended = time.perf_counter()
        self._busy = False

    def _in_background(self, plan: Plan) -> None:
        try:
            self._result = self._run(plan)
        except BaseException as error:
            self._error = error
        finally:
            self._end()


class Watch(Protocol):
    """What is told while a machine runs, and may end the run."""

    slice: int
    """Most instructions between two looks at it."""

    def tick(self, retired: int) -> bool:
        """`retired` instructions have retired by now. True if the run shall end."""


class Solo(Runner[Result]):
    """Runs the one lane of a machine, and watches it.

    `run` runs it for a budget of instructions, `retired` says how many have retired.
    """

    def __init__(self, run: Callable[[int], Result], retired: Callable[[], int]) -> None:
        super().__init__()
        self._run_machine, self._retired = run, retired
        self._first = self._last = 0
        self._stop: Stop | None = None
        self.slice = SLICE

    def tick(self, retired: int) -> bool:
        """Note it for `poll`; whether `cancel` was called."""
        self._last = retired
        return self._cancel.value != 0

    def _prepare(self) -> None:
        self._first = self._last = self._retired()
        self._stop = None

    def _run(self, plan: Plan) -> Result:
        self.slice = min(plan.batch, SLICE)
        result = self._run_machine(plan.budget)
        self._last = self._retired()
        self._stop = result.stop
        return result

    def _progress(self, running: bool, seconds: float) -> Progress:
        ended = self._stop is not None and self._stop not in GOES_ON
        stops = {self._stop: 1} if ended and self._stop else {}
        return Progress(running, 1, int(ended), self._last - self._first, seconds, stops)


@atexit.register
def _cancel_all() -> None:
    """Before Python takes things apart under a running lane."""
    running = [runner for runner in _background if runner.is_running()]
    for runner in running:
        runner.cancel()
    for runner in running:
        if runner._thread is not None:
            runner._thread.join(5)
