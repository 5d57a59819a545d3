"""Vectors as vectors: views of 128 bits, and joins of several, that are undone where they are looked into."""

from __future__ import annotations

from collections.abc import Sequence

from kvrm.engine.interpreter.flags import made_by
from kvrm.values import Bits, Primitive


def shaped(row: Primitive, width: int, args: Sequence[Bits]) -> Bits | None:
    """What a result is the bits of, in another shape, perhaps: that under a view, or a part of a join."""
    if row.name == "reshape":
        view = made_by(args[0], "reshape")
        return view.args[0] if view else None
    if row.name != "trunc" or width != 128:
        return None
    at, joined = 0, args[0]
    shift = made_by(joined, "lsr")
    if shift and shift.args[1].known:
        joined, at = shift.args[0], int(shift.args[1])
    found = parts(joined)
    return found[at // 128] if found and at % 128 == 0 and at < joined.width else None


def parts(value: Bits) -> list[Bits] | None:
    """The parts of 128 bits, lowest first, that `concat` has joined to a value."""
    found: dict[int, Bits] = {}
    while both := made_by(value, "or"):
        value, high = both.args
        shift = made_by(high, "lsl")
        wide = shift and made_by(shift.args[0], "zext")
        if not shift or not wide or wide.args[0].width != 128 or not shift.args[1].known:
            return None
        found[int(shift.args[1])] = wide.args[0]
    places = [128 * i for i in range(len(found))]
    whole = len(found) > 1 and value.width == 128 * len(found) and value.known and not int(value)
    return [found[at] for at in places] if whole and sorted(found) == places else None
