"""The CUDA driver as this project uses it: one device, its memory, modules of PTX, launches.

PTX is compiled by the driver itself, so nothing but the driver and `cuda-bindings` (extra `kvrm[cuda]`) is
needed. Every failure is a `DeviceError` that names the call and the driver's reason.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kvrm.backend.gpu.locked import LockedMemory
from kvrm.backend.gpu.warp import NvidiaWarp, Warp
from kvrm.backend.protocols import Driver
from kvrm.errors import KvrmError

LOG_BYTES = 1 << 14
"""Of the PTX compiler's messages; it cuts off what is more."""


class DeviceError(KvrmError):
    """There is no usable GPU, or the driver refused something."""


def _driver() -> Any:
    try:
        driver = importlib.import_module("cuda.bindings.driver")
    except ImportError:
        raise DeviceError('target "cuda" needs the package cuda-bindings: pip install "kvrm[cuda]"') from None
    return driver


class Device:
    """One GPU with a context of its own, as a `Driver`. Use `device()`: there is one."""

    warp: Warp = NvidiaWarp()

    def __init__(self, number: int = 0) -> None:
        self._cu = cu = _driver()
        self._call(cu.cuInit, 0)
        self._handle = self._call(cu.cuDeviceGet, number)
        context = self._call(cu.cuDevicePrimaryCtxRetain, self._handle)
        self._call(cu.cuCtxSetCurrent, context)
        name = self._call(cu.cuDeviceGetName, 128, self._handle)
        self.name = name.split(b"\0")[0].decode()
        kinds = cu.CUdevice_attribute
        major = self._attribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        minor = self._attribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        self.arch = f"sm_{major}{minor}"
        self.compiler = f"{self.arch}, driver {self._call(cu.cuDriverGetVersion)}"
        self._context = context
        self._locked = LockedMemory(self._lock, self._unlock)

    def _attribute(self, kind: Any) -> int:
        return int(self._call(self._cu.cuDeviceGetAttribute, kind, self._handle))

    def _call(self, function: Any, *args: Any) -> Any:
        """Call a driver function; its result without the status."""
        try:
            status, *results = function(*args)
        except RuntimeError as error:
            raise DeviceError(f"the NVIDIA driver cannot be used: {error}") from None
        if status != self._cu.CUresult.CUDA_SUCCESS:
            raise DeviceError(f"{function.__name__}: {status.name}")
        return results[0] if len(results) == 1 else results

    @property
    def free_bytes(self) -> int:
        return int(self._call(self._cu.cuMemGetInfo)[0])

    def use(self) -> None:
        self._call(self._cu.cuCtxSetCurrent, self._context)

    def compile(self, ptx: str, registers: int) -> bytes:
        """The DeviceError of text that is wrong has the compiler's words."""
        cu, log = self._cu, bytearray(LOG_BYTES)
        kinds = cu.CUjit_option
        options = {
            kinds.CU_JIT_MAX_REGISTERS: registers,
            kinds.CU_JIT_ERROR_LOG_BUFFER: log,
            kinds.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: LOG_BYTES,
        }
        link = self._call(cu.cuLinkCreate, len(options), list(options), list(options.values()))
        text = ptx.encode() + b"\0"
        kind = cu.CUjitInputType.CU_JIT_INPUT_PTX
        try:
            self._call(cu.cuLinkAddData, link, kind, text, len(text), b"kvrm", 0, [], [])
            address, size = self._call(cu.cuLinkComplete, link)
        except DeviceError as error:
            raise DeviceError(f"{error}: {log.split(bytes(1))[0].decode(errors='replace')}") from None
        cubin = ctypes.string_at(address, size)
        self._call(cu.cuLinkDestroy, link)
        return cubin

    def load(self, cubin: bytes) -> Module:
        return Module(self, self._call(self._cu.cuModuleLoadData, cubin))

    def allocate(self, size: int, zero: bool = False) -> Buffer:
        buffer = Buffer(self, int(self._call(self._cu.cuMemAlloc, max(size, 16))), size)
        if zero:
            buffer.fill(0)
        return buffer

    def upload(self, data: Any) -> Buffer:
        view = memoryview(data).cast("B")
        buffer = self.allocate(view.nbytes)
        buffer.write(view)
        return buffer

    def copied(self, array: Any) -> Any:
        return self._locked.copied(array)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self._locked.empty(shape, dtype)

    def _lock(self, size: int) -> int:
        """The address of that many page-locked bytes; 0 if the host has none."""
        status, address = self._cu.cuMemHostAlloc(size, 0)
        return int(address) if status == self._cu.CUresult.CUDA_SUCCESS else 0

    def _unlock(self, address: int) -> None:
        self._call(self._cu.cuMemFreeHost, address)

    def view(self, array: Any) -> Buffer:
        interface = array.__cuda_array_interface__
        size = math.prod(interface["shape"]) * np.dtype(interface["typestr"]).itemsize
        return Buffer(self, int(interface["data"][0]), size, owner=array)

    def event(self) -> Any:
        return self._call(self._cu.cuEventCreate, 0)

    def record(self, event: Any) -> None:
        self._call(self._cu.cuEventRecord, event, 0)

    def seconds(self, start: Any, end: Any) -> float:
        return float(self._call(self._cu.cuEventElapsedTime, start, end)) / 1e3

    def synchronize(self) -> None:
        self._call(self._cu.cuCtxSynchronize)


class Buffer:
    """Device memory; freed with the object, unless it is part of what `owner` has."""

    def __init__(self, device: Device, address: int, size: int, owner: Any = None) -> None:
        self._device, self.address, self.size, self._owner = device, address, size, owner

    def write(self, data: Any, offset: int = 0) -> None:
        view = memoryview(data).cast("B")
        if offset < 0 or offset + view.nbytes > self.size:
            raise ValueError(f"{view.nbytes} bytes at {offset} of {self.size}")
        if view.nbytes:
            source = np.frombuffer(view, np.uint8)
            d = self._device
            d._call(d._cu.cuMemcpyHtoD, self.address + offset, source.ctypes.data, view.nbytes)

    def read(self, out: Any, offset: int = 0) -> Any:
        if offset < 0 or offset + out.nbytes > self.size:
            raise ValueError(f"{out.nbytes} bytes at {offset} of {self.size}")
        d = self._device
        if out.nbytes:
            d._call(d._cu.cuMemcpyDtoH, out.ctypes.data, self.address + offset, out.nbytes)
        return out

    def repeat(self, size: int) -> None:
        d = self._device
        while size < self.size:
            more = min(size, self.size - size)
            d._call(d._cu.cuMemcpyDtoD, self.address + size, self.address, more)
            size += more

    def fill(self, byte: int) -> None:
        d = self._device
        d._call(d._cu.cuMemsetD8, self.address, byte, self.size)

    def __del__(self) -> None:
        d = self._device
        if self._owner is None:
            d._cu.cuCtxSetCurrent(d._context)
            d._cu.cuMemFree(self.address)


class Module:
    """A module of machine code, as the driver has it."""

    def __init__(self, owner: Device, handle: Any) -> None:
        self._device, self._handle = owner, handle

    def function(self, name: str) -> Kernel:
        d = self._device
        return Kernel(d, d._call(d._cu.cuModuleGetFunction, self._handle, name.encode()))


class Kernel:
    """A function of such a module."""

    def __init__(self, owner: Device, handle: Any) -> None:
        self._device, self._handle = owner, handle
        kinds = owner._cu.CUfunction_attribute
        self.registers = self._attribute(kinds.CU_FUNC_ATTRIBUTE_NUM_REGS)
        self.stack_bytes = self._attribute(kinds.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)

    def allow_shared(self, size: int) -> None:
        kind = self._device._cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._device._call(self._device._cu.cuFuncSetAttribute, self._handle, kind, size)

    def _attribute(self, kind: Any) -> int:
        return int(self._device._call(self._device._cu.cuFuncGetAttribute, kind, self._handle))

    def launch(self, blocks: int, threads: int, arguments: Sequence[int], shared: int = 0) -> None:
        d, words = self._device, np.array(arguments, np.uint64)
        pointers = np.array([words.ctypes.data + 8 * i for i in range(len(arguments))], np.uint64)
        d._call(
            d._cu.cuLaunchKernel,
            self._handle,
            blocks,
            1,
            1,
            threads,
            1,
            1,
            shared,
            0,
            pointers.ctypes.data,
            0,
        )


@functools.cache
def device() -> Driver:
    """The process's GPU; DeviceError if there is none."""
    return Device()


def has_device() -> bool:
    """Whether there is a usable GPU."""
    try:
        device()
    except DeviceError:
        return False
    return True
