"""The CPU's cores as what runs lanes: threads, each with a worker that runs one lane after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Set
from typing import Any

import numpy as np

from kvrm.backend.cpu.worker import Worker
from kvrm.errors import UsageError
from kvrm.machine.engines import EngineKind
from kvrm.machine.lane import Lane
from kvrm.machine.lanes_inputs import Words
from kvrm.machine.lanes_job import Job
from kvrm.machine.lanes_results import NOT_RUN
from kvrm.machine.runner import Plan

MOST_AT_ONCE = 4096
"""Fresh lanes that a thread takes at a time, at most. Each time is a call from Python; but `cancel` and a
last thread that is still busy are waited for by that many lanes."""


class CpuBackend:
    """As `kvrm.backend.protocols.Backend`: nothing is on a device, and workers run everything."""

    takes_device_arrays, empty = False, None
    device_bytes, device_seconds, left_device, ended = 0, 0.0, 0, 0

    def __init__(self, origin: Lane, kind: EngineKind, lanes: int) -> None:
        self._origin, self._kind = origin, kind.unwatched()
        self.workers: list[Worker] = []

    def copied(self, array: Any) -> Any:
        return np.array(array)

    @property
    def on_device(self) -> Any:
        raise UsageError("nothing is on a device; the machine's target is cpu")

    def on_host(self, job: Job) -> Job:
        return job

    @property
    def retired(self) -> int:
        """Instructions of all lanes so far."""
        return sum(worker.counted.value for worker in self.workers)

    def run(self, job: Job, plan: Plan, breakpoints: Set[int], threads: int) -> None:
        """Batch after batch, all lanes that have not ended."""
        left = plan.budget
        # policies count what they are asked, by each lane
        if left and job.has_common_start and not breakpoints and not self._kind.policies:
            self._have_workers(1, job)
            job.base = self.workers[0].past_startup(job, min(plan.batch, left) - 1)
        while left and not job.cancel.value:
            fresh = np.flatnonzero(job.outputs.stop == NOT_RUN).astype(np.uint64)
            work = Work(fresh, sorted(job.kept.keys() | job.again), threads)
            if not len(work):
                break
            batch = min(plan.batch, left)
            left -= batch
            self.run_all(job, work, batch, breakpoints, last=not left)

    def run_all(self, job: Job, work: Work, budget: int, breakpoints: Set[int], last: bool) -> None:
        """Run every lane of the work once; whether that is the `last` time in a run."""
        count = min(work.threads, len(work))
        self._have_workers(count, job)
        errors: list[BaseException] = []

        def run(worker: Worker) -> None:
            try:
                worker.begin(job, breakpoints, budget, last)
                while not job.cancel.value and (task := work.take()) is not None:
                    task(worker)
            except BaseException as error:
                errors.append(error)
                job.cancel.value = 1

        jobs = [threading.Thread(target=run, args=(w,), daemon=True) for w in self.workers[:count]]
        for thread in jobs:
            thread.start()
        try:
            for thread in jobs:
                thread.join()
        finally:
            job.cancel.value |= any(thread.is_alive() for thread in jobs)
            for thread in jobs:
                thread.join()
        if errors:
            raise errors[0]

    def _have_workers(self, count: int, job: Job) -> None:
        while len(self.workers) < count:
            worker = Worker(self._origin, self._kind, job)
            if self.workers:
                worker.learn_from(self.workers[0])
            self.workers.append(worker)


class Work:
    """Lanes that a pass has left to run, for threads to take from: fresh ones first."""

    def __init__(self, fresh: Words, kept: list[int], threads: int) -> None:
        self._fresh, self._kept, self.threads = fresh, kept, threads
        self._lock = threading.Lock()
        self._next = 0

    def __len__(self) -> int:
        return len(self._fresh) + len(self._kept)

    def take(self) -> Callable[[Worker], None] | None:
        """What to do next, fewer lanes at a time towards the end; None if nothing is left."""
        with self._lock:
            at = self._next
            if at < len(self._fresh):
                size = min(MOST_AT_ONCE, max(1, (len(self._fresh) - at) // (2 * self.threads)))
                self._next += size
                numbers = self._fresh[at : at + size]
                return lambda worker: worker.run_fresh(numbers)
            if at < len(self):
                self._next += 1
                lane = self._kept[at - len(self._fresh)]
                return lambda worker: worker.run_kept(lane)
            return None
