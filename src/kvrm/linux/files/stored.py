"""What a node or an open file is made of, for a pickle of the process (`kvrm.linux.storing`)."""

from __future__ import annotations

from typing import Any


def attributes(thing: object) -> dict[str, Any]:
    """The attributes of an object by name, in its dictionary or in slots."""
    state = thing.__getstate__()
    own, slots = state if isinstance(state, tuple) else (state, None)
    return {**(own or {}), **(slots or {})}
