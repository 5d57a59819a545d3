"""What stands for the operations of kernels in native code (`kvrm.staging.kernel`)."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llvmlite import ir

from kvrm.staging import host
from kvrm.staging.emitter import I8, I16, I32, I64, PTR, Callee, Emitter

ARITHMETIC: dict[type, str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "ashr",
    ast.FloorDiv: "udiv",
    ast.Mod: "urem",
}
RELATIONS: dict[type, str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
"""LLVM's names for Python's operators: division is unsigned, comparisons are signed."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """Code that a Python function emits, of an emitter and the values of the operation's arguments.

    All are 64 bits, as is the result; addresses too. A kernel can call it, too, for what has no meaning in
    Python.
    """

    emit: Callable[..., ir.Value]

    def __call__(self, *arguments: int) -> int:
        """Only in a kernel."""
        raise NotImplementedError


Operations = Mapping[Callable[..., int], Emitted | Callable[..., int]]
"""For functions and methods what stands for them: other kernels, or code."""


def standing_for(owner: type, *functions: Callable[..., int]) -> Operations:
    """Functions that stand for the methods of a class, of the same names."""
    return {getattr(owner, function.__name__): function for function in functions}


def _pointer(e: Emitter, address: ir.Value) -> ir.Value:
    return e.inttoptr(address, PTR)


def _load(t: ir.Type) -> Emitted:
    return Emitted(lambda e, address: e.zext(e.load(_pointer(e, address), typ=t, align=1), I64))


def _load_word(e: Emitter, address: ir.Value) -> ir.Value:
    return e.load(_pointer(e, address), typ=I64)


def _store(t: ir.Type) -> Emitted:
    def emit(e: Emitter, address: ir.Value, value: ir.Value) -> ir.Value:
        e.store(e.trunc(value, t), _pointer(e, address), align=1)
        return value

    return Emitted(emit)


def _store_word(e: Emitter, address: ir.Value, value: ir.Value) -> ir.Value:
    e.store(value, _pointer(e, address))
    return value


def _add(e: Emitter, address: ir.Value, value: ir.Value) -> ir.Value:
    return e.atomic_rmw("add", _pointer(e, address), value, "monotonic")


def _move(e: Emitter, function: ir.Value, *arguments: ir.Value) -> ir.Value:
    to, source, size = arguments
    callee = Callee(_pointer(e, function), ir.FunctionType(PTR, [PTR, PTR, I64]))
    e.call(callee, [_pointer(e, to), _pointer(e, source), size])
    return to


def _position(e: Emitter, function: ir.Value, start: ir.Value, byte: ir.Value, count: ir.Value) -> ir.Value:
    callee = Callee(_pointer(e, function), ir.FunctionType(PTR, [PTR, I32, I64]))
    at = e.ptrtoint(e.call(callee, [_pointer(e, start), e.trunc(byte, I32), count]), I64)
    none = e.icmp_unsigned("==", at, ir.Constant(I64, 0))
    return e.select(none, count, e.sub(at, start))


def _run(e: Emitter, function: ir.Value, argument: ir.Value) -> ir.Value:
    callee = Callee(_pointer(e, function), ir.FunctionType(ir.VoidType(), [PTR]))
    e.call(callee, [_pointer(e, argument)])
    return argument


def _below(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return e.zext(e.icmp_unsigned("<", a, b), I64)


def called(function: Callable[[ir.Module], ir.Function]) -> Emitted:
    """A call of a function of the module; addresses are its pointers, and nothing is returned as 0."""

    def emit(e: Emitter, *values: ir.Value) -> ir.Value:
        fn = function(e.module)
        pairs = zip(values, fn.args, strict=True)
        result = e.call(fn, [_pointer(e, v) if argument.type == PTR else v for v, argument in pairs])
        if isinstance(result.type, ir.VoidType):
            return ir.Constant(I64, 0)
        return e.zext(result, I64) if result.type.width < 64 else result

    return Emitted(emit)


MEMORY: Operations = {
    min: Emitted(lambda e, a, b: e.intrinsic("smin", I64, a, b)),
    max: Emitted(lambda e, a, b: e.intrinsic("smax", I64, a, b)),
    abs: Emitted(lambda e, a: e.intrinsic("abs", I64, a, e.false)),
    host.address: Emitted(lambda e, words: words),
    host.load: Emitted(_load_word),
    host.load_byte: _load(I8),
    host.load_four: _load(I32),
    host.store: Emitted(_store_word),
    host.store_byte: _store(I8),
    host.store_half: _store(I16),
    host.add: Emitted(_add),
    host.below: Emitted(_below),
}
"""On every target, addresses being those of its own memory."""
HOST: Operations = {
    **MEMORY,
    host.move: Emitted(_move),
    host.position: Emitted(_position),
    host.run: Emitted(_run),
}
