"""Dispatch-10,279 on a GPU: each of the 2^32 words evaluated, and compared with its class.

The arithmetic is that of `kvrm.neural.dispatch_staged`, so it gives the bits that the CPU gives. The
parameters are constants of the code. A thread's words have their top byte in common, so the compiler takes
what that chooses, and the sums that begin with it, out of the loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from llvmlite import ir

from kvrm.backend.gpu.device_abi import pointer
from kvrm.backend.gpu.kernel import LAYOUT, TRIPLE
from kvrm.backend.gpu.ptx import compile_ptx
from kvrm.backend.protocols import Driver
from kvrm.isa.definition import Execution
from kvrm.isa.execution import classes
from kvrm.neural.dispatch_staged import constants, emit_decision, emit_outputs
from kvrm.neural.weights import Floats
from kvrm.staging.emitter import I8, I32, I64, Emitter

THREADS, BLOCKS = 256, 4096
REGISTERS = 128
"""What a thread may use: the outputs of two layers are in registers."""
CONSTANT = 4
"""LLVM's number of the address space of constants."""
WRONG, LEAST, COUNTS = 0, 1, 2
"""Words of the result: wrong ones, bits of the least lead as float32, then one count for each class."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the kernel found: wrong words, the least lead of the others, words of each class, and its time."""

    wrong: int
    least_lead: float
    histogram: dict[str, int]
    seconds: float


def verify(
    gpu: Driver,
    flat: Floats,
    first: int = 0,
    words: int = 1 << 32,
    blocks: int = BLOCKS,
    threads: int = THREADS,
) -> Verdict:
    """Evaluate words on the GPU, all of them by default.

    Each thread takes as many as the others, a power of two and at most 2^24.
    """
    gpu.use()
    module = gpu.load(gpu.compile(compile_ptx(device_text(flat), gpu.arch), REGISTERS))
    result = np.zeros(COUNTS + len(Execution), np.uint64)
    result[LEAST] = np.array(np.inf, np.float32).view(np.uint32)
    buffers = [gpu.upload(array) for array in (classes(), result)]
    start, end = gpu.event(), gpu.event()
    gpu.record(start)
    arguments = [*(buffer.address for buffer in buffers), first, words // (blocks * threads)]
    module.function("verify").launch(blocks, threads, arguments)
    gpu.record(end)
    gpu.synchronize()
    buffers[1].read(result)
    counts = {work.label: int(result[COUNTS + work]) for work in Execution}
    least = float(result[LEAST : LEAST + 1].astype(np.uint32).view(np.float32)[0])
    return Verdict(int(result[WRONG]), least, counts, gpu.seconds(start, end))


def device_text(flat: Floats) -> str:
    """`verify(table, result, first, count)`: thread n takes `count` words, from `first` + n * `count` on."""
    module = ir.Module(name="verify")
    module.triple, module.data_layout = TRIPLE, LAYOUT
    fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * 4), "verify")
    fn.calling_convention = "ptx_kernel"
    e, weights = Emitter(fn.append_basic_block("entry")), constants(module, flat, CONSTANT)
    table, result = (pointer(e, a) for a in fn.args[:2])
    start = _first_word(e, *(e.trunc(a, I32) for a in fn.args[2:]))
    top = e.shl(e.lshr(start, ir.Constant(I32, 24)), ir.Constant(I32, 24))
    with e.goto_entry_block():
        wrong, least = e.alloca(I64), e.alloca(I32)
        counts = [e.alloca(I64) for _ in Execution]
    for place in (wrong, *counts):
        e.store(ir.Constant(I64, 0), place)
    e.store(ir.Constant(I32, -1), least)
    with e.repeat(fn.args[3]) as i:
        low = e.and_(e.add(start, e.trunc(i, I32)), ir.Constant(I32, (1 << 24) - 1))
        word = e.or_(top, low)
        work, margin = emit_decision(e, emit_outputs(e, weights, word))
        right = e.icmp_unsigned("==", work, e.zext(e.load_at(table, _cell(e, word), I8), I32))
        _add(e, wrong, e.not_(right))
        _lower(e, least, e.select(right, e.bitcast(margin, I32), ir.Constant(I32, -1)))
        for number, place in enumerate(counts):
            _add(e, place, e.icmp_unsigned("==", work, ir.Constant(I32, number)))
    lead = e.load(least, typ=I32)
    e.atomic_rmw("umin", e.at(result, 8 * LEAST), e.zext(lead, I64), "monotonic")
    for at, place in ((WRONG, wrong), *((COUNTS + n, place) for n, place in enumerate(counts))):
        e.atomic_rmw("add", e.at(result, 8 * at), e.load(place, typ=I64), "monotonic")
    e.ret_void()
    return str(module)


def _first_word(e: Emitter, first: ir.Value, count: ir.Value) -> ir.Value:
    """The word that a thread begins with."""
    names = ("ctaid.x", "ntid.x", "tid.x")
    block, size, thread = (e.external(f"llvm.nvvm.read.ptx.sreg.{n}", I32) for n in names)
    return e.add(first, e.mul(e.add(e.mul(block, size), thread), count))


def _cell(e: Emitter, word: ir.Value) -> ir.Value:
    """`kvrm.isa.execution.cells_of`."""
    high = e.shl(e.lshr(word, ir.Constant(I32, 19)), ir.Constant(I32, 7))
    low = e.and_(e.lshr(word, ir.Constant(I32, 10)), ir.Constant(I32, 0x7F))
    return e.zext(e.or_(high, low), I64)


def _add(e: Emitter, place: ir.Value, flag: ir.Value) -> None:
    e.store(e.add(e.load(place, typ=I64), e.zext(flag, I64)), place)


def _lower(e: Emitter, place: ir.Value, bits: ir.Value) -> None:
    """The less of two; of float32 that are not negative, the bits order as the numbers do."""
    before = e.load(place, typ=I32)
    e.store(e.select(e.icmp_unsigned("<", bits, before), bits, before), place)
