"""The loops of a translated region, found again from its guest code."""

from __future__ import annotations

from collections.abc import Iterable

from kvrm.engine.translator.survey import flow_of
from kvrm.isa.a64 import decode
from kvrm.isa.features import ALL
from kvrm.isa.probe import effects_of

LINK = 30
"""The register that a call leaves its return address in."""


def find_loops(code: Iterable[tuple[int, bytes]]) -> dict[int, frozenset[int]]:
    """From each loop's head to its blocks, those of functions that it calls included.

    `code` is pairs of a block's address and bytes. Only branches to known addresses are seen, and a loop is
    taken to be closed by one that goes backwards.
    """
    graph = _Graph(code)
    loops: dict[int, frozenset[int]] = {}
    for latch, following in graph.following.items():
        for head in following:
            if head <= latch:
                loops[head] = loops.get(head, frozenset()) | graph.loop(head, latch)
    return loops


class _Graph:
    """Blocks by their addresses: `following` inside a function, `called` from it."""

    def __init__(self, code: Iterable[tuple[int, bytes]]) -> None:
        blocks = dict(code)
        self.following: dict[int, list[int]] = {}
        self.called: dict[int, int] = {}
        for start, data in blocks.items():
            end = start + len(data)
            word = int.from_bytes(data[-4:], "little")
            last, decoded = flow_of(word, end - 4, ALL), decode(word)
            calls = last.branches and decoded is not None and LINK in effects_of(decoded).x_written
            goes_on = calls or last.conditional or not last.branches
            out = [end] if goes_on else []
            if last.target is not None and calls:
                self.called[start] = last.target
            elif last.target is not None:
                out.append(last.target)
            self.following[start] = [pc for pc in out if pc in blocks]
        self._before: dict[int, list[int]] = {}
        for one, others in self.following.items():
            for other in others:
                self._before.setdefault(other, []).append(one)

    def loop(self, head: int, latch: int) -> frozenset[int]:
        """What gets to `latch` without passing `head`, and what that calls."""
        body, work = {head}, [latch]
        while work:
            pc = work.pop()
            if pc not in body:
                body.add(pc)
                work += self._before.get(pc, ())
        work = [self.called[pc] for pc in body if pc in self.called]
        while work:
            pc = work.pop()
            if pc not in body and pc in self.following:
                body.add(pc)
                work += self.following[pc]
                work += [self.called[pc]] if pc in self.called else []
        return frozenset(body)
