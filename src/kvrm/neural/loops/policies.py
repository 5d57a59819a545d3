"""Policies for loops, by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kvrm.neural.loops.analysis import analyse
from kvrm.neural.loops.iteration import Unsuitable
from kvrm.neural.loops.sites import Body, Policy
from kvrm.neural.loops.structure import Structure
from kvrm.neural.weights import SHIPPED, load


def oracle(bodies: Sequence[Body]) -> list[Structure | None]:
    """What the analyser says: nothing better can be proposed."""
    return [_analysed(body) for body in bodies]


def _analysed(body: Body) -> Structure | None:
    try:
        return analyse(body, 0).structure
    except Unsuitable:
        return None


def make(name: str, directory: Path = SHIPPED) -> Policy:
    """The policy of a name, with the table and the network in `directory`. Raises UsageError."""
    from kvrm.neural.loops.rule import rule

    if name == "table":
        from kvrm.neural.loops.table import Table, read

        return Table(read(directory))
    if name in ("network", "random"):
        from kvrm.neural.loops.network import COUNT, NAME, Network, random_weights

        return Network(load(NAME, COUNT, directory) if name == "network" else random_weights(0))
    return {"rule": rule, "oracle": oracle}[name]
