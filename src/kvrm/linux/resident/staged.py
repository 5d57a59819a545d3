"""Where staged system calls stand."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module

MODULES = ("calls", "descriptors", "mappings", "files")
"""Of this package, in the order in which programs need them: what has a call's name is that call."""


@functools.cache
def text_of(name: str) -> Callable[..., int] | None:
    """The text of a call, if it is staged; a module is imported once those before it do not have that."""
    modules = (import_module(f"kvrm.linux.resident.{module}") for module in MODULES)
    return next((vars(module)[name] for module in modules if name in vars(module)), None)
