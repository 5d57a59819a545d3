"""What differs between lanes before they run, and what is wanted of each afterwards; all checked at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvrm import arguments
from kvrm.errors import UsageError
from kvrm.lane.words import REGISTERS, words_of
from kvrm.memory import untagged
from kvrm.memory.addresses import sliced

Words = npt.NDArray[np.uint64]
STREAMS = ("stdout", "stderr")


class RegisterInputs:
    """`lanes.registers[name] = values`: one value for each lane.

    Names are x0 to x30, sp, pc, nzcv (four bits, N highest) and v0 to v31; values an integer array of shape
    (lanes,), or (lanes, 2) for v: the low 64 bits, then the high ones. Negative values are taken modulo 2^64,
    and pc is without its tag.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._values: dict[str, Words] = {}

    def __setitem__(self, name: str, values: npt.ArrayLike) -> None:
        if not isinstance(name, str) or name not in REGISTERS:
            given = arguments.shown(name)
            raise UsageError(f"lanes.registers[{given}]: registers are x0 to x30, sp, pc, nzcv, v0 to v31")
        shape = (self._lanes, 2) if name[0] == "v" else (self._lanes,)
        array = _integers(f"lanes.registers[{name!r}]", values)
        if array.shape != shape or array.dtype.kind not in "iu":
            given = f"{array.dtype} of {array.shape}"
            raise UsageError(f"lanes.registers[{name!r}] takes integers of shape {shape}, not {given}")
        words = array.astype(np.uint64)
        if name == "pc":
            unique, where = np.unique(words, return_inverse=True)
            words = np.array([untagged(int(pc)) for pc in unique], np.uint64)[where]
        self._values[name] = words

    def __getitem__(self, name: str) -> Words:
        if not isinstance(name, str) or name not in self._values:
            given = arguments.shown(name)
            raise UsageError(f"lanes.registers[{given}] was not set: all lanes begin with the machine's")
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
            found += [(raw, 8 * i, 8 * count, REGISTERS[name] + 8 * i) for i in range(count)]
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
        there = arguments.on_device(where, data)
        if there is None:
            array = arguments.array(where, data)
            given, dtype, good = array.shape, array.dtype, True
        elif self._takes_device_arrays:
            array, (given, dtype, good) = data, there
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
    """Start and stop of a slice of guest memory that is not empty. Raises UsageError."""
    start, stop = sliced(name, key)
    if start == stop:
        raise UsageError(f"{name}[{start:#x}:{stop:#x}] is empty; it takes start < stop")
    return start, stop


def checked_keep(names: Sequence[str | slice]) -> tuple[str | slice, ...]:
    """What `lanes.keep` may be. Raises UsageError."""
    kept: list[str | slice] = []
    for name in arguments.sequence("lanes.keep", names, "names and slices"):
        if isinstance(name, slice):
            kept.append(slice(*span_of(name, "lanes.keep")))
        elif isinstance(name, str) and name != "pc" and name in (*REGISTERS, *STREAMS):
            kept.append(name)
        else:
            given = arguments.shown(name)
            raise UsageError(f"lanes.keep has {given}: it takes registers but pc, stdout, stderr and slices")
    return tuple(kept)


def checked_per_lane(name: str, values: Sequence[Any], lanes: int, of: type | tuple[type, ...]) -> list[Any]:
    """A list with something for each lane. Raises UsageError."""
    if len(arguments.sequence(f"lanes.{name}", values, "values, one for each lane")) != lanes:
        raise UsageError(f"lanes.{name} takes a list of {lanes}, one for each lane")
    for value in values:
        if not isinstance(value, of):
            raise UsageError(f"lanes.{name} has {arguments.shown(value)} in it")
    return list(values)


def _integers(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """As an array; numpy alone makes floating point of a list with a number above 2^63."""
    array = arguments.array(name, values)
    if array.dtype.kind in "iu" or not isinstance(values, list | tuple):
        return array
    least, most = -(1 << 63), (1 << 64) - 1
    exact = np.array(values, object)
    words = [arguments.integer(f"a value of {name}", n, least, most) & most for n in exact.ravel().tolist()]
    return np.array(words, np.uint64).reshape(exact.shape)


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
