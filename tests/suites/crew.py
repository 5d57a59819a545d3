"""Worker processes that outlive what they run: one that dies, or takes too long, is replaced."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Final, Generic, TypeVar

Task = TypeVar("Task")
Answer = TypeVar("Answer")
_CONTEXT: Final = multiprocessing.get_context("spawn")
_POLL: Final = 5.0
"""Seconds between two looks for workers that take too long."""


@dataclass(frozen=True, slots=True)
class Lost:
    """There is no answer."""

    reason: str


class _Worker(Generic[Task, Answer]):
    """One process and the task it is at."""

    def __init__(self, function: Callable[[Task], Answer]) -> None:
        self.connection, other = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_serve, args=(other, function), daemon=True)
        self.process.start()
        other.close()
        self.task: Task | None = None
        self.deadline = 0.0

    def give(self, task: Task, seconds: float) -> None:
        self.task, self.deadline = task, time.monotonic() + seconds
        self.connection.send(task)

    def answer(self) -> Answer | Lost:
        try:
            answer: Answer = self.connection.recv()
        except EOFError:
            self.process.join()
            return Lost(f"the process ended with code {self.process.exitcode}")
        return answer

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def run_all(
    function: Callable[[Task], Answer], tasks: Iterable[Task], jobs: int, seconds: float
) -> Iterator[tuple[Task, Answer | Lost]]:
    """Each task with what `function` makes of it, in the order in which they are done.

    `function` is importable; it runs in `jobs` processes. A task that raises, whose process dies, or that
    takes longer than `seconds`, gives Lost. Leaving the iterator ends the processes.
    """
    left = iter(tasks)
    workers: list[_Worker[Task, Answer]] = []
    try:
        while True:
            while len(workers) < jobs and (task := next(left, None)) is not None:
                workers.append(_Worker(function))
                workers[-1].give(task, seconds)
            if not workers:
                return
            wait([w.connection for w in workers], timeout=_POLL)
            for worker in list(workers):
                if worker.connection.poll():
                    answer: Answer | Lost = worker.answer()
                elif time.monotonic() > worker.deadline:
                    answer = Lost(f"no end after {seconds:.0f} s")
                else:
                    continue
                assert worker.task is not None
                yield worker.task, answer
                following = None if isinstance(answer, Lost) else next(left, None)
                if following is not None:
                    worker.give(following, seconds)
                else:
                    workers.remove(worker)
                    worker.end()
    finally:
        for worker in workers:
            worker.end()


def _serve(connection: Connection, function: Callable[[Task], Answer]) -> None:
    try:
        while True:
            task = connection.recv()
            try:
                connection.send(function(task))
            except Exception as error:
                connection.send(Lost(f"{type(error).__name__}: {error}"))
    except (EOFError, KeyboardInterrupt):
        return
