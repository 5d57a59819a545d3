"""The device code on the host: the same LLVM code for the host's processor, one thread after the other.

It shows what a lane does, not what a warp does: lanes do not wait for each other.
"""

from __future__ import annotations

import ctypes
import math
import re
import weakref
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from kvrm.backend.gpu import driver
from kvrm.backend.gpu.device_abi import OWN_WORDS
from kvrm.staging import native
from kvrm.staging.emitter import I32, Emitter
from kvrm.staging.llvm import target_machine
from kvrm.staging.objects import Object

SPECIAL = ("ctaid.x", "ntid.x", "tid.x")
MOST_PREFETCHES = 4096
PREFETCH = f"""
@"prefetches" = global [{MOST_PREFETCHES + 1} x i64] zeroinitializer
define internal void @"prefetch"(i64 %a) {{
  %p = inttoptr i64 %a to ptr
  %v = load volatile i8, ptr %p
  %w = zext i8 %v to i64
  %n = load i64, ptr @"prefetches"
  %m = add i64 %n, 1
  store i64 %m, ptr @"prefetches"
  %r = urem i64 %n, {MOST_PREFETCHES}
  %q = add i64 %r, 1
  %s = getelementptr i64, ptr @"prefetches", i64 %q
  store i64 %w, ptr %s
  ret void
}}
"""
"""What is prefetched must be there; it is counted, and the byte is kept."""


def host_text(text: str) -> str:
    """LLVM text of device code as the host can compile it: thread numbers come from variables."""
    text = re.sub(r"target (triple|datalayout) = .*", "", text).replace("ptx_kernel", "")
    text = re.sub(r'asm sideeffect "prefetch[^"]*", "l"(?= ?\(i64)', '@"prefetch"', text) + PREFETCH
    words = rf"\1 = internal \2 [{1024 * OWN_WORDS} x i64] undef"
    text = re.sub(r'(@"own_words") = external (addrspace\(3\) global) \[0 x i64\]', words, text)
    for name in SPECIAL:
        full = f'@"llvm.nvvm.read.ptx.sreg.{name}"'
        text = re.sub(rf"declare i32 {re.escape(full)}\(\)", "", text).replace(full, f'@"get.{name}"')
        text += f'@"{name}" = internal global i32 0\ndefine internal i32 @"get.{name}"() {{\n'
        text += f'  %v = load i32, ptr @"{name}"\n  ret i32 %v\n}}\n'
        text += f'define void @"set.{name}"(i32 %v) {{\n  store i32 %v, ptr @"{name}"\n  ret void\n}}\n'
    return text


def quickly_compiled(text: str) -> bytes:
    """Object code of a module given as LLVM text, not optimised.

    LLVM takes longer to optimise a kernel than most tests take to run it, and what would be found says little
    about a GPU, for which LLVM and ptxas optimise by other rules.
    """
    machine = llvm.Target.from_triple(target_machine().triple).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=0,
        reloc="pic",
        codemodel="small",
    )
    module = llvm.parse_assembly(text, context=llvm.create_context())
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    options = llvm.PipelineTuningOptions(speed_level=0)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


class WarpOfOne:
    """A warp that has one lane: what `kvrm.backend.gpu.warp.Warp` emits for it."""

    def present(self, e: Emitter) -> ir.Value:
        return ir.Constant(I32, 1)

    def least(self, e: Emitter, value: ir.Value, among: ir.Value) -> ir.Value:
        return value

    def every(self, e: Emitter, condition: ir.Value) -> ir.Value:
        return condition

    def meet(self, e: Emitter) -> None:
        pass


class HostDevice:
    """What `kvrm.backend.gpu.driver.Device` is, on the host."""

    name, arch, compiler, memory = "the host", "sm_90", "the host's, not optimising", 1 << 30
    warp = WarpOfOne()

    def __init__(self) -> None:
        self.taken = 0

    @property
    def free_bytes(self) -> int:
        return max(self.memory - self.taken, 0)

    def use(self) -> None:
        pass

    def compile(self, ptx: str, registers: int) -> bytes:
        return quickly_compiled(host_text(ptx))

    def load(self, cubin: bytes) -> HostModule:
        return HostModule(cubin)

    def allocate(self, size: int, zero: bool = False) -> HostBuffer:
        buffer = HostBuffer(size)
        self._take(size)
        weakref.finalize(buffer, self._take, -size)
        return buffer

    def _take(self, size: int) -> None:
        self.taken += size

    def upload(self, data: Any) -> HostBuffer:
        buffer = self.allocate(memoryview(data).nbytes)
        buffer.write(data)
        return buffer

    def copied(self, array: Any) -> Any:
        return np.array(array)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return np.full(shape, 0xA5, dtype)

    def view(self, array: Any) -> HostBuffer:
        interface = array.__cuda_array_interface__
        buffer = HostBuffer(0)
        buffer.address, buffer._at = interface["data"][0], 0
        buffer.size = math.prod(interface["shape"]) * np.dtype(interface["typestr"]).itemsize
        buffer._bytes = np.ctypeslib.as_array((ctypes.c_uint8 * buffer.size).from_address(buffer.address))
        return buffer

    def event(self) -> int:
        return 0

    def record(self, event: int) -> None:
        pass

    def seconds(self, start: int, end: int) -> float:
        return 0.0

    def synchronize(self) -> None:
        pass


class HostBuffer:
    def __init__(self, size: int) -> None:
        self.size = size
        self._bytes = np.zeros(size + 64, np.uint8)
        self.address = self._bytes.ctypes.data + 31 & -32
        self._at = self.address - self._bytes.ctypes.data

    def write(self, data: Any, offset: int = 0) -> None:
        raw = np.frombuffer(memoryview(data).cast("B"), np.uint8)
        assert offset + len(raw) <= self.size
        self._bytes[self._at + offset : self._at + offset + len(raw)] = raw

    def read(self, out: Any, offset: int = 0) -> Any:
        assert offset + out.nbytes <= self.size
        at = self._at + offset
        out.reshape(-1).view(np.uint8)[:] = self._bytes[at : at + out.nbytes]
        return out

    def repeat(self, size: int) -> None:
        whole = self._bytes[self._at : self._at + self.size]
        whole[:] = np.resize(whole[:size].copy(), self.size)

    def fill(self, byte: int) -> None:
        self._bytes[:] = byte


class HostModule:
    def __init__(self, code: bytes) -> None:
        self._loader = native.Loader()
        self._loader.load(Object("", code))

    def function(self, name: str) -> HostKernel:
        return HostKernel(self._loader, name)


class HostKernel:
    registers = stack_bytes = 0

    def __init__(self, loader: native.Loader, name: str) -> None:
        self._loader, self._address = loader, loader.address(name)
        setter = ctypes.CFUNCTYPE(None, ctypes.c_uint32)
        self._set = [setter(loader.address(f"set.{name}")) for name in SPECIAL]

    def allow_shared(self, size: int) -> None:
        pass

    def launch(self, blocks: int, threads: int, arguments: list[int], shared: int = 0) -> None:
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * len(arguments))(self._address)
        self._set[1](threads)
        for block in range(blocks):
            self._set[0](block)
            for thread in range(threads):
                self._set[2](thread)
                call(*arguments)


def prefetches(code: Any) -> tuple[int, list[int]]:
    """How often kernels of a `Code` have prefetched something on the host, and the bytes it begins with."""
    words = ctypes.c_uint64 * (MOST_PREFETCHES + 1)
    count, *kept = words.from_address(code.kernels["run"]._loader.address("prefetches"))
    return count, kept[:count]


def install(monkeypatch: Any) -> None:
    """Have target "cuda" run on the host in a test."""
    from kvrm.backend.gpu import code, device_engine, runner

    host = HostDevice()
    monkeypatch.setattr(driver, "device", lambda: host)
    for module in (device_engine, runner):
        monkeypatch.setattr(module, "device", lambda: host)
    monkeypatch.setattr(code, "compile_ptx", lambda text, arch: text)


PLACES = ("host", pytest.param("gpu", marks=pytest.mark.gpu))
"""Where a test can have the device's code run."""


def use(place: str, monkeypatch: Any) -> None:
    """Have it run there; the test is skipped if there is no GPU."""
    if place == "host":
        install(monkeypatch)
        return
    try:
        driver.device()
    except driver.DeviceError as error:
        pytest.skip(f"no GPU: {error}")
