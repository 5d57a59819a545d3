"""Policies for loops, by name."""

from __future__ import annotations

from pathlib import Path

from kvrm.loops.oracle import oracle
from kvrm.loops.sites import Policy
from kvrm.neural.weights import SHIPPED, load


def make(name: str, directory: Path = SHIPPED) -> Policy:
    """The policy of a name, with the table and the network in `directory`. Raises UsageError."""
    from kvrm.loops.rule import rule

    if name == "table":
        from kvrm.loops.table import Table, read

        return Table(read(directory))
    if name in ("network", "random"):
        from kvrm.neural.loops.network import COUNT, NAME, Network, random_weights

        return Network(load(NAME, COUNT, directory) if name == "network" else random_weights(0))
    return {"rule": rule, "oracle": oracle}[name]
