"""What stands for a space's operations, as methods that Python calls."""

from __future__ import annotations

from typing import Any

from kvrm.memory.space import Space
from kvrm.staging.operations import Operations


def as_space(owner: type, operations: Operations) -> Any:
    """A class whose objects are spaces by these operations, in Python as in native code."""
    methods = {name: operations[method] for name, method in vars(Space).items() if method in operations}
    return type(owner.__name__, (owner,), methods)
