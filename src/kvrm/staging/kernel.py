"""Kernels on the host: functions of 64-bit integers that are compiled when they are first called."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from kvrm.staging import native
from kvrm.staging.emitter import PTR
from kvrm.staging.operations import HOST, Operations
from kvrm.staging.translation import define, parameters

Array = npt.NDArray[np.int64]


class Kernel:
    """A function compiled; `name` tells it from others that close over something else.

    Calling it checks that arrays are contiguous int64, and gives an int.
    """

    def __init__(self, function: Callable[..., int], name: str = "") -> None:
        self.function, self.name = function, name or function.__name__
        self._native: Any = None

    def __call__(self, *arguments: Array | int) -> int:
        """Run it natively; it is compiled the first time."""
        if self._native is None:
            self._native, self._loader = _compiled(self.function, self.name)
        return int(self._native(*map(_argument, arguments)))


def _argument(value: Array | int) -> int:
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype != np.int64 or not value.flags.c_contiguous:
        raise ValueError("an array for a kernel is contiguous int64")
    return value.ctypes.data


def _compiled(function: Callable[..., int], name: str) -> tuple[Any, native.Loader]:
    """The native function, and what keeps it."""
    loader = native.loaded(module_text(name, {name: function}))
    types = [ctypes.c_void_p if t is PTR else ctypes.c_int64 for t in parameters(function)]
    return ctypes.CFUNCTYPE(ctypes.c_int64, *types)(loader.address(name)), loader


def module_text(name: str, kernels: Mapping[str, Callable[..., int]], operations: Operations = HOST) -> str:
    """LLVM text of a module with these kernels, by the names of its functions."""
    module = ir.Module(name=name)
    for function, kernel in kernels.items():
        define(module, kernel, operations, function)
    return str(module)
