"""Streams: accesses of an iteration that go through memory side by side."""

from __future__ import annotations

from dataclasses import dataclass

from kvrm.loops.affine import Affine
from kvrm.loops.iteration import Access, Unsuitable
from kvrm.loops.sums import Sum, Value
from kvrm.values.primitives import signed

FARTHEST = 1 << 16
"""Bytes that accesses of one stream may lie apart in an iteration."""


@dataclass(frozen=True, slots=True)
class Stream:
    """`size` bytes from `address` on, all of them loads or all stores, in each iteration further by `step`.

    `before` bytes in front of that are accessed too, by the iteration before the first.
    """

    store: bool
    address: Value
    step: Value
    size: int
    before: int = 0

    @property
    def stride(self) -> int | None:
        """The step as a signed number, if it is known."""
        return signed(64, self.step) if isinstance(self.step, int) else None


@dataclass(frozen=True, slots=True)
class Place:
    """Where an access is: the number of its stream, and how many bytes after its address."""

    stream: int
    offset: int


def streams_of(accesses: list[Access], affine: Affine) -> tuple[list[Stream], list[Place]]:
    """Sort accesses into streams; a place for each. Raises Unsuitable where an address is not affine."""
    groups: dict[tuple[object, ...], list[int]] = {}
    steps = [affine.rate(access.address, 64) for access in accesses]
    for i, access in enumerate(accesses):
        step = steps[i] if isinstance(steps[i], int) else id(steps[i])
        terms = access.address.terms if isinstance(access.address, Sum) else ()
        groups.setdefault((access.store, step, terms), []).append(i)
    streams: list[Stream] = []
    places: dict[int, Place] = {}
    for members in groups.values():
        first = _const(accesses[members[0]].address)
        apart = {i: signed(64, _const(accesses[i].address) - first & (1 << 64) - 1) for i in members}
        low, high = min(apart.values()), max(apart[i] + accesses[i].size for i in members)
        if high - low > FARTHEST:
            raise Unsuitable("accesses far apart")
        start = next(i for i in members if apart[i] == low)
        places |= {i: Place(len(streams), apart[i] - low) for i in members}
        streams.append(Stream(accesses[start].store, accesses[start].address, steps[start], high - low))
    return streams, [places[i] for i in range(len(accesses))]


def _const(value: Value) -> int:
    return value if isinstance(value, int) else value.const
