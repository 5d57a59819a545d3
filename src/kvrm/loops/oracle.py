"""The oracle for loops: the analyser's own answer."""

from __future__ import annotations

from collections.abc import Sequence

from kvrm.loops.analysis import analyse
from kvrm.loops.iteration import Unsuitable
from kvrm.loops.sites import Body
from kvrm.loops.structure import Structure


def oracle(bodies: Sequence[Body]) -> list[Structure | None]:
    """What the analyser says: nothing better can be proposed."""
    return [_analysed(body) for body in bodies]


def _analysed(body: Body) -> Structure | None:
    try:
        return analyse(body, 0).structure
    except Unsuitable:
        return None
