"""A process that compiles regions for another, which meanwhile needs its interpreter lock for the guest.

Requests and answers are pickles on standard input and output, each behind its length in 8 bytes. The process
ends with its input.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, BinaryIO

from kvrm.engine.translator.compile import Compiled
from kvrm.engine.translator.region import Region


class Worker:
    """The process as its parent sees it, and a queue of requests; both start with the first one.

    `compile_here` is what the process does, too; it does the work where the process cannot.
    """

    def __init__(self, compile_here: Callable[[Region], Compiled]) -> None:
        self._compile_here = compile_here
        self._jobs: SimpleQueue[tuple[Region, Future[Compiled]]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def request(self, region: Region) -> Future[Compiled]:
        """Compile a region when those requested before are done."""
        job: Future[Compiled] = Future()
        self._jobs.put((region, job))
        with self._lock:
            if self._thread is None:
                # Nobody waits for a daemon: a program that ends does not wait for regions.
                self._thread = threading.Thread(target=self._work, name="kvrm-translator", daemon=True)
                self._thread.start()
        return job

    def _work(self) -> None:
        while True:
            region, job = self._jobs.get()
            if not job.set_running_or_notify_cancel():
                continue
            try:
                job.set_result(self._compile(region))
            except Exception as error:
                job.set_exception(error)

    def _compile(self, region: Region) -> Compiled:
        try:
            self._process = self._process or _start()
            assert self._process.stdin is not None and self._process.stdout is not None
            _send(self._process.stdin, region)
            answer = _receive(self._process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            self._process = None
            return self._compile_here(region)
        if isinstance(answer, BaseException):
            raise answer
        made: Compiled = answer
        return made


def _start() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", f"from {__name__} import serve; serve()"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
    )


def serve() -> None:
    """Answer requests until there are no more."""
    from kvrm.engine.translator.store import store

    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # Whatever else is printed must not get between the answers.
    os.dup2(2, 1)
    while True:
        try:
            region = _receive(requests)
        except EOFError:
            return
        try:
            answer: Any = store().make(region)
        except Exception as error:
            answer = error
        try:
            _send(answers, answer)
        except BrokenPipeError:
            return


def _send(file: BinaryIO | Any, message: Any) -> None:
    data = pickle.dumps(message)
    file.write(len(data).to_bytes(8, "little") + data)
    file.flush()


def _receive(file: BinaryIO | Any) -> Any:
    size = file.read(8)
    if len(size) < 8:
        raise EOFError
    return pickle.loads(file.read(int.from_bytes(size, "little")))
