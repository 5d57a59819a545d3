"""Functions of 64-bit integers, written once in Python and run natively through LLVM.

A *kernel* is a plain function of arrays (int64, one dimension), objects and ints, written in a subset of
Python: names, members of an IntEnum, subscripts, integer arithmetic, comparisons (signed), `if`, `while`,
`for ... in range(n)`, and calls: of other functions of the same kind, global or in a closure, of an object's
methods, and of the functions in a dict, `CALLS[number](...)`. Both sides of `a if test else b` are evaluated
if nothing in it is called.
`number in known` looks at what is known when the kernel is compiled, as does a starred comprehension among
arguments. A kernel runs as Python too, which is how tests check the native code. Arithmetic is modulo 2^64
here, so a kernel keeps its numbers within 63 bits.

What differs between targets is *operations*: functions and methods that a table (`Operations`) maps to what
stands for them there, another kernel or code that Python emits (`Emitted`). All others are kernels. An object
is the address of its words on every target; its class says, for Python, what its methods do.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections import ChainMap
from collections.abc import Callable, Collection, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

from llvmlite import ir

from kvrm.staging.emitter import I1, I64, PTR, Emitter, i64
from kvrm.staging.host import local
from kvrm.staging.operations import ARITHMETIC, HOST, RELATIONS, Emitted, Operations

_MADE: WeakKeyDictionary[ir.Module, dict[Callable[..., int], ir.Function]] = WeakKeyDictionary()
"""What kernels of a module have been compiled to."""


def define(
    module: ir.Module, function: Callable[..., int], operations: Operations = HOST, name: str = ""
) -> ir.Function:
    """The function of `module` that a kernel is compiled to, by the kernel's name; it returns 64 bits."""
    made = _MADE.setdefault(module, {})
    if function not in made:
        _Translation(module, function, name or function.__name__, operations)
    return made[function]


def define_inner(module: ir.Module, function: Callable[..., int], operations: Operations) -> ir.Function:
    """The same for a kernel that only code of the module calls."""
    fn = _MADE.setdefault(module, {}).get(function)
    if fn is None:
        # a name that no function has which Python emits, and none of the C library
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        fn = define(module, function, operations, module.get_unique_name(name))
        fn.linkage = "internal"
    return fn


def parameters(function: Callable[..., int]) -> list[ir.Type]:
    """The LLVM types of a kernel's parameters."""
    annotations = [p.annotation for p in inspect.signature(function).parameters.values()]
    return [I64 if a in ("int", int) else PTR for a in annotations]


class _Translation:
    """One function on its way into a module."""

    def __init__(
        self, module: ir.Module, function: Callable[..., int], name: str, operations: Operations
    ) -> None:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        closed = inspect.getclosurevars(function).nonlocals
        self._unrolled: dict[str, Any] = {}
        self._known = ChainMap(self._unrolled, dict(closed), function.__globals__, vars(builtins))
        self._module, self._operations = module, operations
        self.fn = ir.Function(module, ir.FunctionType(I64, parameters(function)), name)
        _MADE[module][function] = self.fn
        if getattr(function, "apart", False):
            self.fn.attributes.add("noinline")
        self._e = Emitter(self.fn.append_basic_block("entry"))
        self._e.position_at_end(self.fn.append_basic_block("body"))
        self._locals: dict[str, ir.Value] = {}
        self._arrays: dict[str, ir.Value] = {}
        self._classes: dict[str, Any] = {}
        self._loops: list[tuple[ir.Block, ir.Block]] = []
        for argument, value in zip(tree.args.args, self.fn.args, strict=True):
            if value.type is PTR:
                self._arrays[argument.arg] = value
                self._classes[argument.arg] = function.__annotations__[argument.arg]
            else:
                self._locals[argument.arg] = self._variable()
                self._e.store(value, self._locals[argument.arg])
        self._find_names(tree)
        self._block(tree.body)
        if not self._e.block.is_terminated:
            self._e.ret(i64(0))
        with self._e.goto_block(self.fn.entry_basic_block):
            self._e.branch(self.fn.basic_blocks[1])

    def _find_names(self, tree: ast.FunctionDef) -> None:
        """Make the arrays and variables that are assigned to, in the first block."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and (count := self._words(node)):
                (target,) = node.targets
                assert isinstance(target, ast.Name)
                with self._e.goto_block(self.fn.entry_basic_block):
                    self._arrays[target.id] = self._e.words(count)
        names = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        for name in dict.fromkeys(names):
            if name not in self._locals and name not in self._arrays:
                self._locals[name] = self._variable()

    def _words(self, node: ast.Assign) -> int:
        """How many words of the function's own the statement makes an array of; 0 if it does not."""
        match node.value:
            case ast.Call(func=ast.Name(id=name), args=[size]) if self._known.get(name) is local:
                return int(self._static(size))
            case _:
                return 0

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
        if self._words(node):
            return
        value = self._value(node.value)
        for target in node.targets:
            self._e.store(value, self._place(target))

    def _annassign(self, node: ast.AnnAssign) -> None:
        assert node.value is not None
        self._e.store(self._value(node.value), self._place(node.target))

    def _augassign(self, node: ast.AugAssign) -> None:
        place = self._place(node.target)
        operation = getattr(self._e, ARITHMETIC[type(node.op)])
        self._e.store(operation(self._e.load(place, typ=I64), self._value(node.value)), place)

    def _return(self, node: ast.Return) -> None:
        self._e.ret(self._value(node.value) if node.value else i64(0))

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
        self._e.store(first[0] if first else i64(0), counter)

        def test() -> ir.Value:
            value = self._e.load(counter, typ=I64)
            self._e.store(value, place)
            return self._e.icmp_signed("<", value, end)

        def step() -> None:
            self._e.store(self._e.add(self._e.load(counter, typ=I64), i64(1)), counter)

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
            return self._compare(node)
        if isinstance(node, ast.BoolOp):
            return self._short(node)
        return self._e.icmp_signed("!=", self._value(node), i64(0))

    def _compare(self, node: ast.Compare) -> ir.Value:
        """Of what is compared in a row, all is evaluated."""
        if isinstance(node.ops[0], ast.In | ast.NotIn):
            found = self._is_among(self._value(node.left), self._static(node.comparators[0]))
            return found if isinstance(node.ops[0], ast.In) else self._e.not_(found)
        values = [self._value(part) for part in (node.left, *node.comparators)]
        tests = (
            self._e.icmp_signed(RELATIONS[type(relation)], a, b)
            for relation, (a, b) in zip(node.ops, pairwise(values), strict=True)
        )
        return reduce(self._e.and_, tests)

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
        return self._joined(after, I1, ways)

    def _value(self, node: ast.expr) -> ir.Value:
        match node:
            case ast.Constant(value=int(value)):
                return i64(int(value))
            case ast.Name(id=name) if name in self._arrays:
                return self._e.ptrtoint(self._arrays[name], I64)
            case ast.Name(id=name) if name in self._unrolled or name not in self._locals:
                return i64(int(self._known[name]))
            case ast.Attribute():
                return i64(int(self._static(node)))
            case ast.Name() | ast.Subscript():
                return self._e.load(self._place(node), typ=I64)
            case ast.BinOp(op=op, left=left, right=right):
                return getattr(self._e, ARITHMETIC[type(op)])(self._value(left), self._value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._e.neg(self._value(operand))
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return self._e.not_(self._value(operand))
            case ast.IfExp() if any(isinstance(part, ast.Call) for part in ast.walk(node)):
                return self._either(node)
            case ast.IfExp(test=test, body=body, orelse=other):
                return self._e.select(self._test(test), self._value(body), self._value(other))
            case ast.Call(func=function, args=arguments):
                return self._call(function, arguments)
            case ast.NamedExpr(target=target, value=named):
                value = self._value(named)
                self._e.store(value, self._place(target))
                return value
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return self._e.zext(self._test(node), I64)
            case _:
                raise SyntaxError(f"a kernel has no {ast.unparse(node)} ({self.fn.name}, line {node.lineno})")

    def _either(self, node: ast.IfExp) -> ir.Value:
        """One of two values; the other is not evaluated."""
        then, other, after = (self._e.append_basic_block(n) for n in ("then", "else", "after"))
        self._e.cbranch(self._test(node.test), then, other)
        ways = []
        for block, value in ((then, node.body), (other, node.orelse)):
            self._e.position_at_end(block)
            ways.append((self._value(value), self._e.block))
            self._e.branch(after)
        return self._joined(after, I64, ways)

    def _static(self, node: ast.expr) -> Any:
        """What an expression is whose value is known now."""
        return eval(compile(ast.Expression(node), self.fn.name, "eval"), {}, self._known)

    def _call(self, function: ast.expr, given: list[ast.expr]) -> ir.Value:
        match function:
            case ast.Subscript(value=table, slice=key):
                return self._choose(self._static(table), self._value(key), given)
            case ast.Attribute(value=ast.Name(id=name) as owner, attr=method) if name in self._arrays:
                annotation = self._classes[name]
                owner_class = self._known[annotation] if isinstance(annotation, str) else annotation
                return self._apply(getattr(owner_class, method), [owner, *given])
            case _:
                return self._apply(self._static(function), given)

    def _apply(self, function: Callable[..., int], given: Sequence[ast.expr]) -> ir.Value:
        """A call of a function that is known."""
        callee = self._operations.get(function, function)
        if isinstance(callee, Emitted):
            return callee.emit(self._e, *map(self._value, given))
        fn = define_inner(self._module, callee, self._operations)
        types = [argument.type for argument in fn.args]
        values: list[ir.Value] = []
        for node in given:
            if isinstance(node, ast.Starred):
                values += self._each(node.value)
            else:
                values.append(self._passed(node, types[len(values)]))
        return self._e.call(fn, values)

    def _each(self, node: ast.expr) -> list[ir.Value]:
        """The values of a comprehension over what is known now."""
        assert isinstance(node, ast.ListComp)
        (loop,) = node.generators
        values = []
        for item in self._static(loop.iter):
            exec(f"{ast.unparse(loop.target)} = item", {"item": item}, self._unrolled)
            values.append(self._value(node.elt))
        self._unrolled.clear()
        return values

    def _switch(self, key: ir.Value, cases: Collection[int]) -> tuple[list[ir.Block], ir.Block]:
        """A block for each case, and one for all other numbers."""
        blocks = [self._e.append_basic_block("case") for _ in cases]
        other = self._e.append_basic_block("other")
        switch = self._e.switch(key, other)
        for case, block in zip(cases, blocks, strict=True):
            switch.add_case(i64(int(case)), block)
        return blocks, other

    def _choose(
        self, table: dict[int, Callable[..., int]], key: ir.Value, given: Sequence[ast.expr]
    ) -> ir.Value:
        """A call of one of several functions, each with the same arguments."""
        blocks, other = self._switch(key, table)
        self._e.position_at_end(other)
        self._e.unreachable()
        after = self._e.append_basic_block("after")
        ways = []
        for block, function in zip(blocks, table.values(), strict=True):
            self._e.position_at_end(block)
            ways.append((self._apply(function, given), self._e.block))
            self._e.branch(after)
        return self._joined(after, I64, ways)

    def _is_among(self, key: ir.Value, cases: Collection[int]) -> ir.Value:
        blocks, other = self._switch(key, cases)
        after = self._e.append_basic_block("known")
        for block in (*blocks, other):
            self._e.position_at_end(block)
            self._e.branch(after)
        found = [(ir.Constant(I1, block is not other), block) for block in (*blocks, other)]
        return self._joined(after, I1, found)

    def _joined(self, after: ir.Block, t: ir.Type, ways: Sequence[tuple[ir.Value, ir.Block]]) -> ir.Value:
        self._e.position_at_end(after)
        value = self._e.phi(t)
        for way in ways:
            value.add_incoming(*way)
        return value

    def _passed(self, node: ast.expr, t: ir.Type) -> ir.Value:
        """An argument as a parameter's type wants it: addresses are ints here."""
        if t is not PTR:
            return self._value(node)
        if isinstance(node, ast.Name) and node.id in self._arrays:
            return self._arrays[node.id]
        return self._e.inttoptr(self._value(node), PTR)
