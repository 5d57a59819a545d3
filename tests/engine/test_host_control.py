"""What the host's libraries do to the host's floating-point control register does not reach guests."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator

import pytest
from llvmlite import ir

import kvrm
from kvrm.staging import native
from kvrm.staging.emitter import PTR

FLUSH_AND_DENORMALS_ARE_ZERO = 0x8040
TOWARDS_ZERO = 0x6000
STATUS = 0x3F


@pytest.fixture(scope="module")
def mxcsr() -> Iterator[Callable[[int | None], int]]:
    """Reads the calling thread's MXCSR and, given a value, sets it."""
    if not native.host_is_x86():
        pytest.skip("MXCSR is a register of x86")
    module = ir.Module()
    for name in ("ldmxcsr", "stmxcsr"):
        fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR]), f"{name}_at")
        builder = ir.IRBuilder(fn.append_basic_block())
        intrinsic = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR]), f"llvm.x86.sse.{name}")
        builder.call(intrinsic, [fn.args[0]])
        builder.ret_void()
    loader = native.Loader()
    loader.load(native.compile_object(str(module)))
    load, store = (
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loader.address(f"{name}_at"))
        for name in ("ldmxcsr", "stmxcsr")
    )

    def access(value: int | None = None) -> int:
        word = ctypes.c_uint32()
        store(ctypes.addressof(word))
        before = word.value
        if value is not None:
            word.value = value
            load(ctypes.addressof(word))
        return before

    yield access  # the code lives as long as `loader`


@pytest.mark.parametrize("set_by_host", [FLUSH_AND_DENORMALS_ARE_ZERO, TOWARDS_ZERO])
def test_the_hosts_control_register_is_not_the_guests(mxcsr, set_by_host: int) -> None:
    words = (
        0x1E620820,  # fmul d0, d1, d2
        0x4E65D483,  # fadd v3.2d, v4.2d, v5.2d
        0x1E281927,  # fdiv s7, s9, s8
        0xD4200000,  # brk #0
    )
    m = kvrm.Machine(engine="interpreter")
    m.write_memory(0x1000, struct.pack("<4I", *words), prot="rx")
    m.set_pc(0x1000)
    m.v[1], m.v[2] = 1 << 52, 0x3FE0 << 48
    m.v[4], m.v[5] = 1 | 1 << 64, 2 | 2 << 64
    m.v[8], m.v[9] = 0x40400000, 0x40000000
    before = mxcsr(0x1F80 | set_by_host)
    try:
        m.run()
        after = mxcsr()
    finally:
        mxcsr(before)
    assert m.v[0] == 1 << 51
    assert m.v[3] == 3 | 3 << 64
    assert m.v[7] == 0x3F2AAAAB
    assert after & ~STATUS == 0x1F80 | set_by_host
