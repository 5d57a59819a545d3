"""What stands for a space's operations, as methods that Python calls."""

from __future__ import annotations

from typing import Any

from kvrm.memory.space import Space
from kvrm.staging.operations import Operations


def as_space(owner: type, operations: Operations) -> Any:
    """A class whose objects are spaces by these operations, in Python as in native code."""
    members = {name: member for name, member in vars(Space).items() if callable(member)}
    methods = {name: operations[member] for name, member in members.items() if member in operations}
    return type(owner.__name__, (owner,), methods)
