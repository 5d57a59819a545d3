"""Planning and compiling away from the guest: a process that gets traces and sends regions back.

The guest's own process would need its interpreter lock for that work, and every start the instruction
definitions. When its input ends, the process finishes what it has begun, for the next start of the program,
and ends. Where no process can be started, a thread does the same work.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import BinaryIO

from kvrm.engine.translator import messages
from kvrm.engine.translator.compile import Compiled
from kvrm.staging import native

CORES_EACH, MOST = 4, 4
"""One compiling process for that many cores, and the most there are: the other cores are the guest's."""
LINGER = 60.0
"""Seconds that the process goes on after the guest's has ended: the next start finds what it finished."""


@dataclass(frozen=True, slots=True)
class Job:
    """What an engine saw of its program, to plan regions from.

    `trace` is the addresses of instructions that ran one after the other, 64-bit little-endian; `code` the
    bytes of their pages; `known` the blocks of each region that there is, by its entry. `program` names the
    program whose next start gets the regions, "" for none. Without a trace, the engine is gone.
    """

    engine: int
    program: str
    features: frozenset[str]
    trace: bytes
    code: dict[int, bytes]
    known: dict[int, frozenset[int]]


Deliver = Callable[[Compiled | None], None]


class Background:
    """The process as its parent sees it; it starts with the first job."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._deliver: dict[int, Deliver] = {}
        self._lock = threading.Lock()
        self._started = False

    def submit(self, job: Job, deliver: Deliver) -> None:
        """Plan and compile; another thread calls `deliver` for each region, then with None.

        A later job of an engine replaces this one, which is then the one that ends with None.
        """
        self._deliver[job.engine] = deliver
        self._jobs.put(job)
        with self._lock:
            if not self._started:
                self._started = True
                # A daemon, or Python would wait for it at exit: a guest that ends does not wait for regions.
                threading.Thread(target=self._send, name="kvrm-translator", daemon=True).start()

    def withdraw(self, engine: int) -> None:
        """There is no such engine any more."""
        if self._deliver.pop(engine, None) is not None:
            self._jobs.put(Job(engine, "", frozenset(), b"", {}, {}))

    def _send(self) -> None:
        try:
            process = messages.start(serve)
        except OSError:
            _Worker(self._jobs.get, self._answer).run()
            return
        assert process.stdin is not None and process.stdout is not None
        threading.Thread(target=self._receive, args=(process.stdout,), daemon=True).start()
        with messages.until_the_end():
            while True:
                messages.write(process.stdin, self._jobs.get())
        while True:  # it has died, and what killed it may come again: no more regions
            self._jobs.get()

    def _receive(self, answers: BinaryIO) -> None:
        with messages.until_the_end():
            while True:
                self._answer(*messages.read(answers))

    def _answer(self, engine: int, region: Compiled | None) -> None:
        deliver = self._deliver.get(engine)
        if deliver is not None:
            deliver(region)


def serve() -> None:
    """What the process does."""
    requests, answers = messages.ends()
    with contextlib.suppress(OSError):
        os.nice(10)
    jobs: SimpleQueue[Job | None] = SimpleQueue()

    def read() -> None:
        with messages.until_the_end():
            while True:
                jobs.put(messages.read(requests))
        jobs.put(None)

    threading.Thread(target=read, daemon=True).start()

    def answer(engine: int, region: Compiled | None) -> None:
        with contextlib.suppress(BrokenPipeError):
            messages.write(answers, (engine, region))

    _Worker(jobs.get, answer, min(len(os.sched_getaffinity(0)) // CORES_EACH, MOST)).run()


class _Worker:
    """Works on jobs, the newest of each engine, until there is a None."""

    def __init__(self, get: Callable[..., Job | None], answer: Callable[..., None], helpers: int = 0) -> None:
        self._get, self._answer, self._helpers = get, answer, helpers
        self._waiting: dict[int, Job] = {}
        self._end: float | None = None

    def run(self) -> None:
        from kvrm.engine.translator.planner import Planner

        planner = Planner(self._helpers)
        while self._more(wait=not self._waiting):
            job = self._waiting.pop(next(iter(self._waiting)))
            for region in planner.regions(job, partial(self._is_late, job)):
                self._answer(job.engine, region)
            if job.engine not in self._waiting:
                self._answer(job.engine, None)

    def _is_late(self, job: Job) -> bool:
        """Whether there is something newer than this job, or no time left."""
        return not self._more(wait=False) or job.engine in self._waiting

    def _more(self, wait: bool) -> bool:
        """Take in the jobs that have come; whether there is more to do."""
        with contextlib.suppress(Empty):
            while self._end is None:
                job = self._get(wait)
                if job is None:
                    self._end = time.monotonic() + (0 if native.dumps() else LINGER)
                else:
                    self._waiting[job.engine] = job
                    wait = False
        if wait:
            return False
        return self._end is None or time.monotonic() < self._end
