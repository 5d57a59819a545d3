"""Policies for loops: what is proposed for a body, by hand or by the analyser itself."""

from __future__ import annotations

from collections.abc import Sequence

from kvrm.neural.loops.analysis import analyse
from kvrm.neural.loops.sites import Body, Policy
from kvrm.neural.loops.structure import Structure
from kvrm.neural.loops.turn import Unsuitable


def oracle(bodies: Sequence[Body]) -> list[Structure | None]:
    """What the analyser says: nothing better can be proposed."""
    return [_analysed(body) for body in bodies]


def _analysed(body: Body) -> Structure | None:
    try:
        return analyse(body, 0).structure
    except Unsuitable:
        return None


def make(name: str) -> Policy:
    """The policy of a name."""
    return {"oracle": oracle}[name]
