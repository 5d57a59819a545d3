"""Arrays in the GPU's memory that CuPy, PyTorch and others read and write without a copy.

They have `__cuda_array_interface__` (version 3, as numba defines it): `cupy.asarray(a)`,
`torch.as_tensor(a, device="cuda")`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kvrm.arguments import shown
from kvrm.backend.gpu.device_abi import GROUP, LANE_WORDS
from kvrm.backend.protocols import Driver
from kvrm.errors import UsageError
from kvrm.lane.words import REGISTERS, words_of
from kvrm.machine.lanes_inputs import span_of

if TYPE_CHECKING:
    from kvrm.backend.gpu.device_lanes import DeviceLanes


class DeviceArray:
    """An array of `dtype` in device memory; `owner` keeps it there."""

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...],
        dtype: npt.DTypeLike,
        owner: Any,
        strides: tuple[int, ...] | None = None,
    ) -> None:
        self.address, self.shape, self.dtype, self.strides = address, shape, np.dtype(dtype), strides
        self._owner = owner

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": self.strides,
            "version": 3,
            "stream": 1,
        }

    def __repr__(self) -> str:
        return f"<kvrm.DeviceArray {self.dtype} of {self.shape}>"


class OnDevice:
    """What lanes hold after a run, where it is.

    `registers[name]` is uint64 of shape (groups, 32), or (groups, 32, 2) for v registers: lane i is element
    (i // 32, i % 32), and the last group may have more than there are lanes. It is the state itself: what is
    written there is what the lanes go on with. `memory[start:stop]` is a copy in device memory, uint8 of
    shape (lanes, stop - start).
    """

    def __init__(self, lanes: DeviceLanes) -> None:
        self.registers, self.memory = _Registers(lanes), _Memory(lanes)


class _Registers:
    def __init__(self, lanes: DeviceLanes) -> None:
        self._lanes = lanes

    def __getitem__(self, name: str) -> DeviceArray:
        if not isinstance(name, str) or name in ("pc", "nzcv") or name not in REGISTERS:
            raise UsageError(f"registers[{shown(name)}]: on the device there are x0 to x30, sp and v0 to v31")
        states, groups = self._lanes.states, self._lanes.groups
        shape: tuple[int, ...] = (groups, GROUP)
        strides: tuple[int, ...] = (GROUP * LANE_WORDS * 8, 8)
        if words_of(name) == 2:
            shape, strides = (*shape, 2), (*strides, GROUP * 8)
        return DeviceArray(states.address + GROUP * REGISTERS[name], shape, np.uint64, states, strides)


class _Memory:
    def __init__(self, lanes: DeviceLanes) -> None:
        self._lanes = lanes

    def __getitem__(self, key: slice) -> DeviceArray:
        start, stop = span_of(key, "memory")
        rows = self._lanes.collect(start, stop)
        return DeviceArray(rows.address, (len(self._lanes), stop - start), np.uint8, rows)


def on_host(gpu: Driver, array: Any) -> npt.NDArray[np.uint8]:
    """Bytes that may be in device memory."""
    if isinstance(array, np.ndarray):
        return array
    return gpu.view(array).read(np.empty(array.shape, np.uint8))  # type: ignore[no-any-return]
