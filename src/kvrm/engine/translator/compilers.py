"""Several processes that compile regions, on a machine with many cores.

LLVM takes a millisecond or more for each guest instruction, and an ordinary program has thousands that are
worth it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from subprocess import Popen

from kvrm.engine.translator import messages
from kvrm.engine.translator.compile import Compiled
from kvrm.engine.translator.region import Region
from kvrm.engine.translator.store import store

log = logging.getLogger("kvrm")


class Compilers:
    """Compiles in that many processes; in this one, if that would not be several."""

    def __init__(self, processes: int) -> None:
        self._count = processes
        self._pool = ThreadPoolExecutor(processes) if processes > 1 else None
        self._own = threading.local()
        self.processes: list[Popen[bytes]] = []

    def made(self, regions: Iterator[Region], stop: Callable[[], bool]) -> Iterator[Compiled]:
        """What becomes of regions, as they are done; no more are begun once `stop()` says so."""
        begun: set[Future[Compiled | None]] = set()
        for region in regions:
            if self._pool is None:
                yield from filter(None, [made(region)])
            else:
                begun.add(self._pool.submit(self._elsewhere, region))
                if len(begun) == self._count:
                    done, begun = wait(begun, return_when=FIRST_COMPLETED)
                    yield from filter(None, (future.result() for future in done))
            if stop():
                break
        yield from filter(None, (future.result() for future in begun))

    def _elsewhere(self, region: Region) -> Compiled | None:
        """By this thread's process; None if that has died, and the next region gets another one."""
        try:
            if not hasattr(self._own, "process"):
                self._own.process = messages.start(serve)
                self.processes.append(self._own.process)
            process: Popen[bytes] = self._own.process
            messages.write(process.stdin, region)
            found: Compiled | None = messages.read(process.stdout)
        except messages.ENDED:
            if hasattr(self._own, "process"):
                self.processes.remove(self._own.process)
                del self._own.process
            return None
        return found


def made(region: Region) -> Compiled | None:
    """The region compiled; None if that fails."""
    try:
        return store().make(region)
    except Exception:
        log.exception("the region at %#x cannot be translated; it stays interpreted", region.entry)
        return None


def serve() -> None:
    """What such a process does."""
    requests, answers = messages.ends()
    with messages.until_the_end():
        while True:
            messages.write(answers, made(messages.read(requests)))
