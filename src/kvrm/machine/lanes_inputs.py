"""What differs between lanes before they run, and what is wanted of each afterwards; all checked at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvrm.errors import UsageError
from kvrm.machine import state as layout

Words = npt.NDArray[np.uint64]
VA_END = 1 << 39
STREAMS = ("stdout", "stderr")
WRITABLE = (*(f"x{i}" for i in range(31)), "sp", "pc", "nzcv", *(f"v{i}" for i in range(32)))
"""Registers that lanes may differ in; all but pc, which is always kept, can be kept."""


def offset_of(register: str) -> int:
    """Where a register is in the state, in bytes."""
    if register in ("sp", "pc", "nzcv"):
        return {"sp": 8 * layout.SP, "pc": layout.PC, "nzcv": layout.FLAGS_OFFSET}[register]
    number = int(register[1:])
    return 8 * number if register[0] == "x" else layout.V_OFFSET + 16 * number


def words_of(register: str) -> int:
    """How many 64-bit words it has."""
    return 2 if register[0] == "v" else 1


class RegisterInputs:
    """`lanes.registers[name] = values`: one value for each lane.

    Names are x0 to x30, sp, pc, nzcv (four bits, N highest) and v0 to v31; values an integer array of shape
    (lanes,), or (lanes, 2) for v: the low 64 bits, then the high ones. Negative values are taken modulo 2^64.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._values: dict[str, Words] = {}

    def __setitem__(self, name: str, values: npt.ArrayLike) -> None:
        if name not in WRITABLE:
            raise UsageError(f"lanes.registers[{name!r}]: registers are x0 to x30, sp, pc, nzcv, v0 to v31")
        shape = (self._lanes, 2) if name[0] == "v" else (self._lanes,)
        array = _integers(values)
        if array.shape != shape or array.dtype.kind not in "iu":
            given = f"{array.dtype} of {array.shape}"
            raise UsageError(f"lanes.registers[{name!r}] takes integers of shape {shape}, not {given}")
        self._values[name] = array.astype(np.uint64)

    def __getitem__(self, name: str) -> Words:
        if name not in self._values:
            raise UsageError(f"lanes.registers[{name!r}] was not set: all lanes begin with the machine's")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def rows(self) -> list[tuple[Words, int, int, int]]:
        """For each word: the array, first byte in it, bytes from lane to lane, offset in the state."""
        found = []
        for name, values in self._values.items():
            raw = _flag_bytes(values) if name == "nzcv" else values
            count = words_of(name)
            found += [(raw, 8 * i, 8 * count, offset_of(name) + 8 * i) for i in range(count)]
        return found


class MemoryInputs:
    """`lanes.memory[start:stop] = data`: bytes of shape (lanes, stop - start) that each lane begins with.

    They are written whatever the guest's permissions; the addresses must be mapped when the lanes begin.
    Target "cuda" takes contiguous arrays with `__cuda_array_interface__` too, which are not copied.
    """

    def __init__(
        self, lanes: int, copied: Callable[[Any], npt.NDArray[Any]], takes_device_arrays: bool
    ) -> None:
        self._lanes, self._copied, self._takes_device_arrays = lanes, copied, takes_device_arrays
        self._ranges: dict[tuple[int, int], Any] = {}

    def __setitem__(self, key: slice, data: Any) -> None:
        start, stop = span_of(key, "lanes.memory")
        shape, where = (self._lanes, stop - start), f"lanes.memory[{start:#x}:{stop:#x}]"
        there = getattr(data, "__cuda_array_interface__", None)
        if there is None:
            array = _array(data)
            given, dtype, good = array.shape, array.dtype, True
        elif self._takes_device_arrays:
            given, dtype = tuple(there["shape"]), np.dtype(there["typestr"])
            array, good = data, there.get("strides") is None
        else:
            raise UsageError(f"{where} has an array on a GPU, and the machine's target is not cuda")
        if given != shape or dtype != np.uint8 or not good:
            raise UsageError(f"{where} takes contiguous uint8 of shape {shape}, not {dtype} of {given}")
        self._ranges[start, stop] = self._copied(array) if there is None else array

    def __getitem__(self, key: slice) -> Any:
        span = span_of(key, "lanes.memory")
        if span not in self._ranges:
            raise UsageError(f"lanes.memory[{span[0]:#x}:{span[1]:#x}] was not set")
        return self._ranges[span]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    def items(self) -> list[tuple[int, Any]]:
        """Start address and array of each."""
        return [(start, array) for (start, _), array in self._ranges.items()]


def span_of(key: Any, name: str) -> tuple[int, int]:
    """Start and stop of a slice of guest memory. Raises UsageError."""
    good = isinstance(key, slice) and key.step is None
    start, stop = (key.start, key.stop) if good else (None, None)
    if not (isinstance(start, int) and isinstance(stop, int) and 0 <= start < stop <= VA_END):
        raise UsageError(f"{name} takes [start:stop] with 0 <= start < stop <= 2**39, not {key!r}")
    return start, stop


def checked_keep(names: Sequence[str | slice]) -> tuple[str | slice, ...]:
    """What `lanes.keep` may be. Raises UsageError."""
    for name in names:
        if isinstance(name, slice):
            span_of(name, "lanes.keep")
        elif name == "pc" or name not in (*WRITABLE, *STREAMS):
            raise UsageError(f"lanes.keep has {name!r}: it takes registers but pc, stdout, stderr and slices")
    return tuple(names)


def checked_per_lane(name: str, values: Sequence[Any], lanes: int, of: type | tuple[type, ...]) -> list[Any]:
    """A list with something for each lane. Raises UsageError."""
    if isinstance(values, str | bytes) or len(values) != lanes:
        raise UsageError(f"lanes.{name} takes a list of {lanes}, one for each lane")
    bad = next((value for value in values if not isinstance(value, of)), None)
    if bad is not None or None in values:
        raise UsageError(f"lanes.{name} has a {type(bad).__name__} in it")
    return list(values)


def _integers(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """As an array; numpy alone makes floating point of a list with a number above 2^63."""
    if not isinstance(values, list | tuple):
        return _array(values)
    exact = np.array(values, object) if values else np.empty(0, object)
    numbers = exact.ravel().tolist()
    if not all(type(n) is int and -(1 << 63) <= n < 1 << 64 for n in numbers):
        return _array(values)
    return np.array([n & (1 << 64) - 1 for n in numbers], np.uint64).reshape(exact.shape)


def _array(values: npt.ArrayLike) -> npt.NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:
        return np.empty(0, object)


def _flag_bytes(nzcv: Words) -> Words:
    """The flags as the state has them: a byte each, N first."""
    shifts = np.arange(3, -1, -1, dtype=np.uint64)
    flags = np.zeros((len(nzcv), 8), np.uint8)
    flags[:, :4] = nzcv[:, None] >> shifts & np.uint64(1)
    return flags.view(np.uint64).reshape(-1)


def flags_of(raw: Words) -> Words:
    """The flags as four bits again: `_flag_bytes` undone."""
    flags = raw.view(np.uint8).reshape(-1, 8)[:, :4].astype(np.uint64)
    weights = np.array([8, 4, 2, 1], np.uint64)
    nzcv: Words = (flags * weights).sum(axis=1, dtype=np.uint64)
    return nzcv
