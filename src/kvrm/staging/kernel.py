"""Functions of 64-bit integers, written once in Python and run natively through LLVM.

A *kernel* is a plain function of arrays (int64, one dimension) and ints, written in a subset of Python:
names, members of an IntEnum, subscripts, integer arithmetic, comparisons (signed), `if`, `while`,
`for ... in range(n)`, and calls: of other functions of the same kind, global or in a closure, and of the
operations on the host's memory in `kvrm.staging.host`. Both sides of `a if test else b` are evaluated. It
runs as Python too, which is how tests check the native code. Arithmetic is modulo 2^64 here, so a kernel
keeps its numbers within 63 bits.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from kvrm.staging import host, native
from kvrm.staging.emitter import I1, I8, I16, I64, PTR, Callee, Emitter

Array = npt.NDArray[np.int64]

OPERATIONS: dict[type, str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "ashr",
    ast.FloorDiv: "udiv",
}
RELATIONS: dict[type, str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


class Kernel:
    """A function compiled; `name` tells it from others that close over something else.

    Calling it checks that arrays are contiguous int64, and gives an int.
    """

    def __init__(self, function: Callable[..., int], name: str = "") -> None:
        self.function, self.name = function, name or function.__name__
        self._native: Any = None

    def __call__(self, *arguments: Array | int) -> int:
        """Run it natively; it is compiled the first time."""
        if self._native is None:
            self._native, self._loader = _compiled(self.function, self.name)
        return int(self._native(*map(_argument, arguments)))


def _argument(value: Array | int) -> int:
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype != np.int64 or not value.flags.c_contiguous:
        raise ValueError("an array for a kernel is contiguous int64")
    return value.ctypes.data


def _compiled(function: Callable[..., int], name: str) -> tuple[Any, native.Loader]:
    """The native function, and what keeps it."""
    loader = native.loaded(module_text(function, name))
    types = [ctypes.c_void_p if t is PTR else ctypes.c_int64 for t in _parameters(function)]
    return ctypes.CFUNCTYPE(ctypes.c_int64, *types)(loader.address(name)), loader


def module_text(function: Callable[..., int], name: str) -> str:
    """LLVM text of a module whose function `name` is the kernel."""
    module = ir.Module(name=name)
    _Translation(module, function, name)
    return str(module)


def define(module: ir.Module, function: Callable[..., int]) -> ir.Function:
    """The function of `module` that a kernel is compiled to, by the kernel's name; it returns 64 bits."""
    name = function.__name__
    return module.globals.get(name) or _Translation(module, function, name).fn


def _parameters(function: Callable[..., int]) -> list[ir.Type]:
    annotations = [p.annotation for p in inspect.signature(function).parameters.values()]
    return [I64 if a in ("int", int) else PTR for a in annotations]


class _Translation:
    """One function on its way into a module."""

    def __init__(self, module: ir.Module, function: Callable[..., int], name: str) -> None:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        closed = inspect.getclosurevars(function)
        self._known = {**closed.globals, **closed.nonlocals}
        self._module = module
        self.fn = ir.Function(module, ir.FunctionType(I64, _parameters(function)), name)
        self._e = Emitter(self.fn.append_basic_block("entry"))
        self._e.position_at_end(self.fn.append_basic_block("body"))
        self._locals: dict[str, ir.Value] = {}
        self._arrays: dict[str, ir.Value] = {}
        self._loops: list[tuple[ir.Block, ir.Block]] = []
        for argument, value in zip(tree.args.args, self.fn.args, strict=True):
            if value.type is PTR:
                self._arrays[argument.arg] = value
            else:
                self._locals[argument.arg] = self._variable()
                self._e.store(value, self._locals[argument.arg])
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                stored = isinstance(node.ctx, ast.Store) and node.id not in self._locals
                self._locals |= {node.id: self._variable()} if stored else {}
        self._block(tree.body)
        if not self._e.block.is_terminated:
            self._e.ret(ir.Constant(I64, 0))
        with self._e.goto_block(self.fn.entry_basic_block):
            self._e.branch(self.fn.basic_blocks[1])

    def _variable(self) -> ir.Value:
        with self._e.goto_block(self.fn.entry_basic_block):
            return self._e.alloca(I64)

    # -- statements ------------------------------------------------------------------------------------------
    def _block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            getattr(self, f"_{type(statement).__name__.lower()}")(statement)
            if self._e.block.is_terminated:
                return

    def _expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self._value(node.value)

    def _assign(self, node: ast.Assign) -> None:
        value = self._value(node.value)
        for target in node.targets:
            self._e.store(value, self._place(target))

    def _annassign(self, node: ast.AnnAssign) -> None:
        assert node.value is not None
        self._e.store(self._value(node.value), self._place(node.target))

    def _augassign(self, node: ast.AugAssign) -> None:
        place = self._place(node.target)
        operation = getattr(self._e, OPERATIONS[type(node.op)])
        self._e.store(operation(self._e.load(place, typ=I64), self._value(node.value)), place)

    def _return(self, node: ast.Return) -> None:
        self._e.ret(self._value(node.value) if node.value else ir.Constant(I64, 0))

    def _break(self, node: ast.Break) -> None:
        self._e.branch(self._loops[-1][1])

    def _continue(self, node: ast.Continue) -> None:
        self._e.branch(self._loops[-1][0])

    def _if(self, node: ast.If) -> None:
        then, other, after = (self._e.append_basic_block(n) for n in ("then", "else", "after"))
        self._e.cbranch(self._test(node.test), then, other)
        for block, body in ((then, node.body), (other, node.orelse)):
            self._e.position_at_end(block)
            self._block(body)
            if not self._e.block.is_terminated:
                self._e.branch(after)
        self._e.position_at_end(after)

    def _while(self, node: ast.While) -> None:
        self._loop(lambda: self._test(node.test), node.body, lambda: None)

    def _for(self, node: ast.For) -> None:
        """`for name in range(count)` or `range(first, end)`, both evaluated once."""
        assert isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)
        *first, end = map(self._value, node.iter.args)
        counter, place = self._variable(), self._locals[node.target.id]
        self._e.store(first[0] if first else ir.Constant(I64, 0), counter)

        def test() -> ir.Value:
            value = self._e.load(counter, typ=I64)
            self._e.store(value, place)
            return self._e.icmp_signed("<", value, end)

        def step() -> None:
            self._e.store(self._e.add(self._e.load(counter, typ=I64), ir.Constant(I64, 1)), counter)

        self._loop(test, node.body, step)

    def _loop(self, test: Callable[[], ir.Value], body: list[ast.stmt], step: Callable[[], None]) -> None:
        head, inside, again, after = (self._e.append_basic_block(n) for n in ("head", "in", "step", "after"))
        self._e.branch(head)
        self._e.position_at_end(head)
        self._e.cbranch(test(), inside, after)
        self._e.position_at_end(inside)
        self._loops.append((again, after))
        self._block(body)
        self._loops.pop()
        if not self._e.block.is_terminated:
            self._e.branch(again)
        self._e.position_at_end(again)
        step()
        self._e.branch(head)
        self._e.position_at_end(after)

    # -- expressions -----------------------------------------------------------------------------------------
    def _place(self, node: ast.expr) -> ir.Value:
        if isinstance(node, ast.Name):
            return self._locals[node.id]
        assert isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
        return self._e.gep(self._arrays[node.value.id], [self._value(node.slice)], source_etype=I64)

    def _test(self, node: ast.expr) -> ir.Value:
        """An i1; `and` and `or` look at their right side only where it matters."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._e.not_(self._test(node.operand))
        if isinstance(node, ast.Compare):
            (relation,), (right,) = node.ops, node.comparators
            return self._e.icmp_signed(RELATIONS[type(relation)], self._value(node.left), self._value(right))
        if isinstance(node, ast.BoolOp):
            return self._short(node)
        return self._e.icmp_signed("!=", self._value(node), ir.Constant(I64, 0))

    def _short(self, node: ast.BoolOp) -> ir.Value:
        stop = isinstance(node.op, ast.Or)
        after, ways = self._e.append_basic_block("known"), []
        for part in node.values[:-1]:
            value, following = self._test(part), self._e.append_basic_block("right")
            ways.append((ir.Constant(I1, stop), self._e.block))
            self._e.cbranch(value, *((after, following) if stop else (following, after)))
            self._e.position_at_end(following)
        ways.append((self._test(node.values[-1]), self._e.block))
        self._e.branch(after)
        self._e.position_at_end(after)
        known = self._e.phi(I1)
        for way in ways:
            known.add_incoming(*way)
        return known

    def _value(self, node: ast.expr) -> ir.Value:
        match node:
            case ast.Constant(value=int(value)):
                return ir.Constant(I64, int(value))
            case ast.Name(id=name) if name in self._arrays:
                return self._e.ptrtoint(self._arrays[name], I64)
            case ast.Name(id=name) if name not in self._locals:
                return ir.Constant(I64, int(self._known[name]))
            case ast.Attribute(value=ast.Name(id=name), attr=member):
                return ir.Constant(I64, int(getattr(self._known[name], member)))
            case ast.Name() | ast.Subscript():
                return self._e.load(self._place(node), typ=I64)
            case ast.BinOp(op=op, left=left, right=right):
                return getattr(self._e, OPERATIONS[type(op)])(self._value(left), self._value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._e.neg(self._value(operand))
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return self._e.not_(self._value(operand))
            case ast.IfExp(test=test, body=body, orelse=other):
                return self._e.select(self._test(test), self._value(body), self._value(other))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._call(name, arguments)
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return self._e.zext(self._test(node), I64)
            case _:
                raise SyntaxError(f"a kernel has no {ast.unparse(node)} ({self.fn.name}, line {node.lineno})")

    def _call(self, name: str, arguments: list[ast.expr]) -> ir.Value:
        if name in ("min", "max"):
            a, b = map(self._value, arguments)
            return self._e.select(self._e.icmp_signed("<" if name == "min" else ">", a, b), a, b)
        if name == "abs":
            value = self._value(arguments[0])
            return self._e.select(self._test_negative(value), self._e.neg(value), value)
        callee = self._known[name]
        if callee in OPERATIONS_OF_MEMORY:
            return OPERATIONS_OF_MEMORY[callee](self._e, *map(self._value, arguments))
        known = callee.__name__ in self._module.globals
        fn = define(self._module, callee)
        if not known:
            fn.linkage = "internal"
        return self._e.call(fn, [self._passed(a, t.type) for a, t in zip(arguments, fn.args, strict=True)])

    def _passed(self, node: ast.expr, t: ir.Type) -> ir.Value:
        """An argument as a parameter's type wants it: addresses are ints here."""
        if t is not PTR:
            return self._value(node)
        if isinstance(node, ast.Name) and node.id in self._arrays:
            return self._arrays[node.id]
        return self._e.inttoptr(self._value(node), PTR)

    def _test_negative(self, value: ir.Value) -> ir.Value:
        return self._e.icmp_signed("<", value, ir.Constant(I64, 0))


def _pointer(e: Emitter, address: ir.Value) -> ir.Value:
    return e.inttoptr(address, PTR)


def _load(t: ir.Type) -> Callable[[Emitter, ir.Value], ir.Value]:
    return lambda e, address: e.zext(e.load(_pointer(e, address), typ=t, align=1), I64)


def _load_word(e: Emitter, address: ir.Value) -> ir.Value:
    return e.load(_pointer(e, address), typ=I64)


def _store(t: ir.Type) -> Callable[[Emitter, ir.Value, ir.Value], ir.Value]:
    def emit(e: Emitter, address: ir.Value, value: ir.Value) -> ir.Value:
        e.store(e.trunc(value, t), _pointer(e, address), align=1)
        return value

    return emit


def _store_word(e: Emitter, address: ir.Value, value: ir.Value) -> ir.Value:
    e.store(value, _pointer(e, address))
    return value


def _move(e: Emitter, function: ir.Value, *arguments: ir.Value) -> ir.Value:
    to, source, size = arguments
    callee = Callee(_pointer(e, function), ir.FunctionType(PTR, [PTR, PTR, I64]))
    e.call(callee, [_pointer(e, to), _pointer(e, source), size])
    return to


def _run(e: Emitter, function: ir.Value, argument: ir.Value) -> ir.Value:
    callee = Callee(_pointer(e, function), ir.FunctionType(ir.VoidType(), [PTR]))
    e.call(callee, [_pointer(e, argument)])
    return argument


def _below(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return e.zext(e.icmp_unsigned("<", a, b), I64)


OPERATIONS_OF_MEMORY: dict[Callable[..., int], Callable[..., ir.Value]] = {
    host.load: _load_word,
    host.load_byte: _load(I8),
    host.store: _store_word,
    host.store_byte: _store(I8),
    host.store_half: _store(I16),
    host.move: _move,
    host.run: _run,
    host.below: _below,
}
"""What is emitted for the functions of `kvrm.staging.host`."""
