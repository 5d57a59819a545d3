"""The operations on a GPU's global memory that kernels have (`kvrm.staging.translation`), and the kernels.

Global memory is what all threads of the device see, and the host. As Python the addresses are the host's, and
one thread runs; for memory of a thread's own there are the operations of `kvrm.staging.host`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llvmlite import ir

from kvrm.staging import host
from kvrm.staging.emitter import I8, I32, I64, Emitter
from kvrm.staging.operations import MEMORY, Emitted, Operations
from kvrm.staging.translation import define_inner

AT_ONCE: Final = 16
"""Words that `copy_words` loads before it stores the first of them. The compiler must assume that a store
changes what the next load reads: one by one, each word would wait for the one before it."""
U32 = (1 << 32) - 1


# -- what they do --------------------------------------------------------------------------------------------
def load(address: int) -> int:
    """The word at an address that is a multiple of 8, signed."""
    return host.load(address)


def load_four(address: int) -> int:
    """The 32 bits at an address that is a multiple of 4, unsigned."""
    return host.load_four(address)


def load_byte(address: int) -> int:
    """The byte at an address."""
    return host.load_byte(address)


def store(address: int, value: int) -> int:
    """Write a word at an address that is a multiple of 8."""
    return host.store(address, value)


def store_byte(address: int, value: int) -> int:
    """Write the low byte."""
    return host.store_byte(address, value)


def look(address: int) -> int:
    """The word at an address, which other threads may be changing."""
    return host.load(address)


def look_four(address: int) -> int:
    """The 32 bits at an address, which other threads may be changing."""
    return host.load_four(address)


def add(address: int, value: int) -> int:
    """Add to a word, at once for all that do; what was there before."""
    return host.add(address, value)


def exchange(address: int, value: int) -> int:
    """Write a word; what was there before."""
    before = host.load(address)
    host.store(address, value)
    return before


def replace(address: int, expected: int, value: int) -> int:
    """Write a word if the expected one is there; what was there before."""
    before = host.load(address)
    if before == expected:
        host.store(address, value)
    return before


def set_bits(address: int, bits: int) -> int:
    """Set bits of a word; what was there before."""
    return exchange(address, host.load(address) | bits)


def clear_bits(address: int, bits: int) -> int:
    """Clear bits of a word; what was there before."""
    return exchange(address, host.load(address) & ~bits)


def set_four(address: int, bits: int) -> int:
    """Set bits of 32 at an address that is a multiple of 4; what was there before."""
    before = host.load_four(address)
    host.store_half(address, before | bits)
    host.store_half(address + 2, (before | bits) >> 16)
    return before


def clear_four(address: int, bits: int) -> int:
    """Clear bits of 32; what was there before."""
    before = set_four(address, bits)
    host.store_half(address, before & ~bits)
    host.store_half(address + 2, (before & ~bits) >> 16)
    return before


def fence() -> int:
    """Of two threads of a block that each write a word and then look at the other's, one sees the other's.

    Weaker orders let both look at the old words.
    """
    return 0


def copy_words(to: int, to_step: int, source: int, step: int, count: int) -> int:
    """Copy words, a multiple of AT_ONCE, that are so many bytes apart; the steps are constants."""
    for i in range(count):
        store(to + to_step * i, load(source + step * i))
    return to


# -- what stands for them ------------------------------------------------------------------------------------
def _at(e: Emitter, address: ir.Value) -> ir.Value:
    return e.inttoptr(address, ir.PointerType(addrspace=1))


def _load(t: ir.Type) -> Emitted:
    return Emitted(lambda e, address: _wide(e, e.load(_at(e, address), typ=t)))


def _look(t: ir.Type) -> Emitted:
    size = t.width // 8
    return Emitted(lambda e, address: _wide(e, e.load_atomic(_at(e, address), "monotonic", size, typ=t)))


def _store(t: ir.Type) -> Emitted:
    def emit(e: Emitter, address: ir.Value, value: ir.Value) -> ir.Value:
        e.store(value if t == I64 else e.trunc(value, t), _at(e, address))
        return value

    return Emitted(emit)


def _atomic(operation: str, t: ir.Type, inverted: bool = False) -> Emitted:
    def emit(e: Emitter, address: ir.Value, value: ir.Value) -> ir.Value:
        operand = value if t == I64 else e.trunc(value, t)
        operand = e.not_(operand) if inverted else operand
        return _wide(e, e.atomic_rmw(operation, _at(e, address), operand, "monotonic"))

    return Emitted(emit)


def _wide(e: Emitter, value: ir.Value) -> ir.Value:
    return value if value.type == I64 else e.zext(value, I64)


def _replace(e: Emitter, address: ir.Value, expected: ir.Value, value: ir.Value) -> ir.Value:
    return e.extract_value(e.cmpxchg(_at(e, address), expected, value, "monotonic", "monotonic"), 0)


def _fence(e: Emitter) -> ir.Value:
    e.fence("seq_cst", "block")
    return ir.Constant(I64, 0)


def _copy_words(
    e: Emitter, to: ir.Value, to_step: ir.Constant, source: ir.Value, step: ir.Constant, count: ir.Value
) -> ir.Value:
    with e.repeat(e.udiv(count, ir.Constant(I64, AT_ONCE))) as i:
        here, there = (
            e.at(_at(e, base), e.mul(i, ir.Constant(I64, AT_ONCE * by.constant)))
            for base, by in ((source, step), (to, to_step))
        )
        words = [e.load_at(here, step.constant * k, I64) for k in range(AT_ONCE)]
        for k, word in enumerate(words):
            e.store_at(word, there, to_step.constant * k)
    return to


DEVICE: Operations = {
    **MEMORY,
    load: _load(I64),
    load_four: _load(I32),
    load_byte: _load(I8),
    store: _store(I64),
    store_byte: _store(I8),
    look: _look(I64),
    look_four: _look(I32),
    add: _atomic("add", I64),
    exchange: _atomic("xchg", I64),
    replace: Emitted(_replace),
    set_bits: _atomic("or", I64),
    clear_bits: _atomic("and", I64, inverted=True),
    set_four: _atomic("or", I32),
    clear_four: _atomic("and", I32, inverted=True),
    fence: Emitted(_fence),
    copy_words: Emitted(_copy_words),
}
"""On a GPU."""


# -- kernels -------------------------------------------------------------------------------------------------
@Emitted
def thread_number(e: Emitter) -> ir.Value:
    """Which of all threads of a launch this is."""
    names = ("ctaid.x", "ntid.x", "tid.x")
    block, size, thread = (e.external(f"llvm.nvvm.read.ptx.sreg.{n}", I32) for n in names)
    return e.zext(e.add(e.mul(block, size), thread), I64)


def begin_kernel(module: ir.Module, name: str, arguments: int) -> tuple[Emitter, list[ir.Value]]:
    """A kernel of a module, where it begins, and its arguments, 64 bits each."""
    fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * arguments), name)
    fn.calling_convention = "ptx_kernel"
    return Emitter(fn.append_basic_block("entry")), list(fn.args)


def define_kernel(
    module: ir.Module, name: str, text: Callable[..., int], operations: Operations = DEVICE
) -> None:
    """Have a kernel of this name that runs a text, whose arguments are its own."""
    body = define_inner(module, text, operations)
    body.attributes.add("alwaysinline")
    e, arguments = begin_kernel(module, name, len(body.args))
    e.call(body, arguments)
    e.ret_void()


def call(
    e: Emitter, text: Callable[..., int], *arguments: ir.Value, operations: Operations = DEVICE
) -> ir.Value:
    """The result of a text, of 64 bits, called by code that is emitted otherwise."""
    return e.call(define_inner(e.module, text, operations), arguments)
