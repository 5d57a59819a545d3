"""Planning and compiling away from the guest: a process that gets traces and sends regions back.

The guest's own process would need its interpreter lock for that work, and every start the instruction
definitions. Messages are pickles on the other process' standard input and output, each after its length in 8
bytes. When the input ends, the process finishes what it has begun, for the next start of the program, and
ends. Where no process can be started, a thread does the same work.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, BinaryIO

from kvrm.engine.translator.compile import Compiled
from kvrm.staging import native

if TYPE_CHECKING:
    import subprocess

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


Deliver = Callable[[Compiled], None]


class Background:
    """The process as its parent sees it; it starts with the first job."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._deliver: dict[int, Deliver] = {}
        self._lock = threading.Lock()
        self._started = False

    def submit(self, job: Job, deliver: Deliver) -> None:
        """Plan and compile; another thread calls `deliver`. A later job of an engine replaces this one."""
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
            process = _start()
        except OSError:
            _Worker(self._jobs.get, self._answer).run()
            return
        assert process.stdin is not None and process.stdout is not None
        threading.Thread(target=self._receive, args=(process.stdout,), daemon=True).start()
        with contextlib.suppress(OSError):
            while True:
                _write(process.stdin, self._jobs.get())
        while True:  # it has died, and what killed it may come again: no more regions
            self._jobs.get()

    def _receive(self, answers: BinaryIO) -> None:
        with contextlib.suppress(EOFError, pickle.UnpicklingError):
            while True:
                self._answer(*_read(answers))

    def _answer(self, engine: int, region: Compiled) -> None:
        deliver = self._deliver.get(engine)
        if deliver is not None:
            deliver(region)


def _start() -> subprocess.Popen[bytes]:
    import subprocess  # not for starts that need no process

    command = [sys.executable, "-c", f"from {__name__} import serve; serve()"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A reader of our standard error waits for its end: a process that outlives us must not hold it.
        stderr=None if native.dumps() else subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


def serve() -> None:
    """What the process does."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # Whatever else is printed must not get between the answers.
    os.dup2(2, 1)
    with contextlib.suppress(OSError):
        os.nice(10)
    jobs: SimpleQueue[Job | None] = SimpleQueue()

    def read() -> None:
        # A guest that ends in the middle of a message leaves a part of one.
        with contextlib.suppress(EOFError, pickle.UnpicklingError):
            while True:
                jobs.put(_read(requests))
        jobs.put(None)

    threading.Thread(target=read, daemon=True).start()

    def answer(engine: int, region: Compiled) -> None:
        with contextlib.suppress(BrokenPipeError):
            _write(answers, (engine, region))

    _Worker(jobs.get, answer).run()


class _Worker:
    """Works on jobs, the newest of each engine, until there is a None."""

    def __init__(self, get: Callable[..., Job | None], answer: Callable[..., None]) -> None:
        self._get, self._answer = get, answer
        self._waiting: dict[int, Job] = {}
        self._end: float | None = None

    def run(self) -> None:
        from kvrm.engine.translator.planner import Planner

        planner = Planner()
        while self._more(wait=not self._waiting):
            job = self._waiting.pop(next(iter(self._waiting)))
            for region in planner.regions(job):
                self._answer(job.engine, region)
                if not self._more(wait=False) or job.engine in self._waiting:
                    break

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


def _write(file: BinaryIO | Any, message: Any) -> None:
    data = pickle.dumps(message)
    file.write(len(data).to_bytes(8, "little") + data)
    file.flush()


def _read(file: BinaryIO | Any) -> Any:
    size = file.read(8)
    if len(size) < 8:
        raise EOFError
    return pickle.loads(file.read(int.from_bytes(size, "little")))
