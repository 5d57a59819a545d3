"""Dispatch-10,279 on a GPU: each of the 2^32 words evaluated, and compared with its class.

The arithmetic is that of `kvrm.neural.dispatch_staged`, so it gives the bits that the CPU gives. The
parameters are constants of the code. A thread's words have their top byte in common, so the compiler takes
what that chooses, and the sums that begin with it, out of the loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvrm.backend.protocols import Driver
from kvrm.isa.definition import Execution
from kvrm.isa.execution import classes
from kvrm.neural.dispatch_staged import constants, emit_decision, emit_outputs
from kvrm.neural.weights import Floats
from kvrm.staging.device import define_kernel, thread_number
from kvrm.staging.emitter import I32, I64, PTR, Emitter, Module, Value
from kvrm.staging.host import add, load_byte, local
from kvrm.staging.operations import MEMORY, Emitted, Operations
from kvrm.staging.ptx import LAYOUT, TRIPLE, compile_ptx

CLASSES = len(Execution)
THREADS, BLOCKS = 256, 4096
REGISTERS = 128
"""What a thread may use: the outputs of two layers are in registers."""
CONSTANT = 4
"""LLVM's number of the address space of constants."""
LOW, MOST = (1 << 24) - 1, (1 << 32) - 1
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
    result = np.zeros(COUNTS + CLASSES, np.uint64)
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
    """`verify(table, result, first, count)`, for a thread's share of the words."""
    module = Module(name="verify")
    module.triple, module.data_layout = TRIPLE, LAYOUT

    def answer(e: Emitter, word: Value) -> Value:
        work, lead = emit_decision(e, emit_outputs(e, constants(e, flat, CONSTANT), e.trunc(word, I32)))
        return e.or_(e.zext(work, I64), e.shl(e.zext(e.bitcast(lead, I32), I64), e.const(I64, 32)))

    operations: Operations = {**MEMORY, answered: Emitted(answer)}
    define_kernel(module, "verify", check, operations)
    return str(module)


@Emitted
def lower(e: Emitter, address: Value, bits: Value) -> Value:
    """Have the word at an address be no more; of float32 that are not negative, bits order as numbers do."""
    return e.atomic_rmw("umin", e.inttoptr(address, PTR), bits, "monotonic")


def check(table: int, result: int, first: int, count: int) -> int:
    """Thread n takes `count` words, from `first` + n * `count` on."""
    start = first + thread_number() * count
    wrong = 0
    least = MOST
    counts = local(CLASSES)
    for work in range(CLASSES):
        counts[work] = 0
    for i in range(count):
        word = start & ~LOW | (start + i) & LOW
        found = answered(word)
        work = found & MOST
        cell = word >> 19 << 7 | word >> 10 & 0x7F  # `kvrm.isa.execution.cells_of`
        if load_byte(table + cell) == work:
            least = min(least, found >> 32)
        else:
            wrong += 1
        counts[work] += 1
    add(result + 8 * WRONG, wrong)
    lower(result + 8 * LEAST, least)
    for work in range(CLASSES):
        add(result + 8 * (COUNTS + work), counts[work])
    return 0


def answered(word: int) -> int:
    """The class of a word, and from bit 32 on the bits of its lead as float32."""
    raise NotImplementedError
