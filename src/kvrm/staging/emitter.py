"""LLVM's side of the primitives: an IR builder that also has constants, lanes and intrinsics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
PTR = ir.PointerType()
Module, Type, Value = ir.Module, ir.Type, ir.Value
FLOATS = {16: ir.HalfType(), 32: ir.FloatType(), 64: ir.DoubleType()}

UNLIKELY = (1, 100_000)
"""Branch weights of a rarely taken branch."""


def integer(width: int, lanes: int = 1) -> ir.Type:
    """The LLVM type of a `Bits` of that shape."""
    scalar = ir.IntType(width)
    return scalar if lanes == 1 else ir.VectorType(scalar, lanes)


def constant(t: ir.Type, value: Any) -> ir.Constant:
    """A constant of type `t`: an int (repeated over lanes) or a tuple of lanes."""
    if isinstance(t, ir.VectorType):
        lanes = value if isinstance(value, tuple) else (value,) * t.count
        return ir.Constant(t, [ir.Constant(t.element, _signed(t.element, v)) for v in lanes])
    return ir.Constant(t, _signed(t, value))


def _signed(t: ir.Type, value: int) -> int:
    return value & ((1 << int(t.width)) - 1)


def i64(value: int) -> ir.Constant:
    """A constant of 64 bits, modulo 2^64."""
    return constant(I64, value)


def _mangle(t: ir.Type) -> str:
    if isinstance(t, ir.VectorType):
        return f"v{t.count}{_mangle(t.element)}"
    return {"half": "f16", "float": "f32", "double": "f64"}.get(str(t), str(t))


class Callee:
    """A function's address as something that llvmlite can call."""

    def __init__(self, pointer: ir.Value, function_type: ir.FunctionType) -> None:
        self.get_reference = pointer.get_reference
        self.function_type = function_type


class Emitter(ir.IRBuilder):
    """An llvmlite builder with the vocabulary that `Primitive.emit` uses."""

    false = ir.Constant(I1, 0)

    def const(self, t: ir.Type, value: Any) -> ir.Constant:
        """A constant of type `t`."""
        return constant(t, value)

    def width(self, value: ir.Value) -> int:
        """Lane width in bits."""
        return self.width_of(value.type)

    def width_of(self, t: ir.Type) -> int:
        """Lane width of an integer type in bits."""
        return int(t.element.width if isinstance(t, ir.VectorType) else t.width)

    def lanes(self, value: ir.Value) -> int:
        """How many lanes; 1 for a scalar."""
        return int(value.type.count) if isinstance(value.type, ir.VectorType) else 1

    def together(self, scalars: Sequence[ir.Value]) -> ir.Value:
        """Lanes of scalars."""
        out = ir.Constant(ir.VectorType(scalars[0].type, len(scalars)), ir.Undefined)
        for at, scalar in enumerate(scalars):
            out = self.insert_element(out, scalar, self.index(at))
        return out

    def resized(self, t: ir.Type, width: int) -> ir.Type:
        """The type with the lanes of `t`, each `width` bits."""
        return integer(width, t.count if isinstance(t, ir.VectorType) else 1)

    def known(self, value: ir.Value) -> int | None:
        """The int that a constant is, in every lane if there are several; None for anything else."""
        if not isinstance(value, ir.Constant):
            return None
        lanes = value.constant if isinstance(value.type, ir.VectorType) else [value]
        first = lanes[0].constant if isinstance(lanes, list) else None
        same = isinstance(first, int) and all(lane.constant == first for lane in lanes)
        return first if same else None

    def index(self, i: int) -> ir.Constant:
        """A known lane number."""
        return ir.Constant(I32, i)

    def lane_index(self, vector: ir.Value, i: ir.Value) -> ir.Value:
        """An unknown lane number, modulo the number of lanes."""
        wide = i if i.type.width == 32 else (self.zext if i.type.width < 32 else self.trunc)(i, I32)
        return self.and_(wide, ir.Constant(I32, vector.type.count - 1))

    def splat(self, scalar: ir.Value, lanes: int) -> ir.Value:
        """A scalar repeated over lanes."""
        t = ir.VectorType(scalar.type, lanes)
        one = self.insert_element(ir.Constant(t, ir.Undefined), scalar, self.index(0))
        return self.shuffle(one, one, (0,) * lanes)

    def shuffle(self, a: ir.Value, b: ir.Value, indices: tuple[int, ...]) -> ir.Value:
        """Lanes picked from `a` followed by `b`; one index gives a scalar."""
        if not isinstance(a.type, ir.VectorType):
            picked = [(a, b)[i] for i in indices]
            return picked[0] if len(picked) == 1 else self.together(picked)
        if len(indices) == 1:
            i = indices[0]
            return self.extract_element(a if i < a.type.count else b, self.index(i % a.type.count))
        mask = ir.Constant(ir.VectorType(I32, len(indices)), [ir.Constant(I32, i) for i in indices])
        return self.shuffle_vector(a, b, mask)

    def real(self, value: ir.Value) -> ir.Value:
        """The same bits as floating-point numbers of 16, 32 or 64 bits."""
        t, scalar = value.type, FLOATS[self.width(value)]
        return self.bitcast(value, ir.VectorType(scalar, t.count) if isinstance(t, ir.VectorType) else scalar)

    def bits(self, number: ir.Value) -> ir.Value:
        """Floating-point numbers as the bits that they are: `real` undone."""
        t = number.type
        vector = isinstance(t, ir.VectorType)
        scalar = ir.IntType(next(n for n, f in FLOATS.items() if f == (t.element if vector else t)))
        return self.bitcast(number, ir.VectorType(scalar, t.count) if vector else scalar)

    def apart(self, value: ir.Value) -> ir.Value:
        """The same bits, hidden from the optimiser: rare uses as integers leave it a number elsewhere."""
        number = self.real(value)
        return self.bitcast(self.intrinsic("arithmetic.fence", number.type, number), value.type)

    def looked_up(self, t: ir.Type, name: str, entries: Sequence[int], index: ir.Value) -> ir.Value:
        """The entries, of type `t`, at `index`, lane by lane, in the module's constant table `name`."""
        if not isinstance(t, ir.VectorType):
            table = self.table(t, name, entries)
            return self.load(self.gep(table, [self.zext(index, I64)], source_etype=t), typ=t)
        numbers = [self.extract_element(index, self.index(i)) for i in range(t.count)]
        return self.together([self.looked_up(t.element, name, entries, number) for number in numbers])

    def table(self, t: ir.Type, name: str, entries: Sequence[int], space: int = 0) -> ir.GlobalVariable:
        """The address, in an address space, of a constant table of the module."""
        if name in self.module.globals:
            return self.module.globals[name]
        table = ir.GlobalVariable(self.module, ir.ArrayType(t, len(entries)), name, addrspace=space)
        table.linkage, table.global_constant, table.unnamed_addr = "internal", True, True
        table.type, table.align = ir.PointerType(addrspace=space), 16
        table.initializer = ir.Constant(table.value_type, [ir.Constant(t, v) for v in entries])
        return table

    def any(self, flags: ir.Value) -> ir.Value:
        """One i1: whether a lane of `flags` (i1 or lanes of i1) is set."""
        if not isinstance(flags.type, ir.VectorType):
            return flags
        mask = ir.IntType(flags.type.count)
        return self.icmp_unsigned("!=", self.bitcast(flags, mask), ir.Constant(mask, 0))

    def rare(self, condition: ir.Value, other: Callable[[], ir.Value], value: ir.Value) -> ir.Value:
        """`value`, or what `other` emits if the i1 `condition` holds: after a branch marked unlikely."""
        usual, cold, after = self.block, self.append_basic_block("rare"), self.append_basic_block("usual")
        self.cbranch(condition, cold, after).set_weights(list(UNLIKELY))
        self.position_at_end(cold)
        fixed = other()
        end = self.block
        self.branch(after)
        self.position_at_end(after)
        merged = self.phi(value.type)
        merged.add_incoming(value, usual)
        merged.add_incoming(fixed, end)
        return merged

    def intrinsic(self, name: str, t: ir.Type, *args: ir.Value) -> ir.Value:
        """A call of ``llvm.<name>`` overloaded on the type of its first argument; the result has type `t`."""
        return self.call(self._declare(f"llvm.{name}.{_mangle(args[0].type)}", t, args), args)

    def convert(self, name: str, t: ir.Type, value: ir.Value) -> ir.Value:
        """A call of an intrinsic overloaded on result and argument (``llvm.fptosi.sat.i64.f64``)."""
        return self.call(
            self._declare(f"llvm.{name}.{_mangle(t)}.{_mangle(value.type)}", t, [value]), [value]
        )

    def external(self, full: str, t: ir.Type, *args: ir.Value) -> ir.Value:
        """A call of a function of this full name that is defined elsewhere; the result has type `t`."""
        return self.call(self._declare(full, t, args), args)

    def _declare(self, full: str, t: ir.Type, args: Any) -> ir.Function:
        known = self.module.globals.get(full)
        return known or ir.Function(self.module, ir.FunctionType(t, [a.type for a in args]), full)

    @contextmanager
    def repeat(self, count: ir.Value | int) -> Iterator[ir.Value]:
        """What is emitted inside runs with 0, 1 ... below `count`, 64 bits."""
        start = self.block
        loop, body, done = (self.append_basic_block(name) for name in ("loop", "body", "after"))
        self.branch(loop)
        self.position_at_end(loop)
        i = self.phi(I64)
        i.add_incoming(ir.Constant(I64, 0), start)
        limit = ir.Constant(I64, count) if isinstance(count, int) else count
        self.cbranch(self.icmp_unsigned("<", i, limit), body, done)
        self.position_at_end(body)
        yield i
        i.add_incoming(self.add(i, ir.Constant(I64, 1)), self.block)
        self.branch(loop)
        self.position_at_end(done)

    def words(self, count: int) -> ir.Value:
        """The address of as many words of the function's own; to be called in its first block."""
        found = self.alloca(ir.ArrayType(I64, count))
        found.type, found.align = PTR, 16
        return found

    def at(self, base: ir.Value, offset: ir.Value | int) -> ir.Value:
        """The address `offset` bytes after `base`."""
        off = ir.Constant(I64, offset) if isinstance(offset, int) else offset
        return self.gep(base, [off], source_etype=I8)

    def load_at(
        self, base: ir.Value, offset: ir.Value | int, t: ir.Type, align: int | None = None
    ) -> ir.Value:
        """A `t` loaded `offset` bytes after `base`."""
        return self.load(self.at(base, offset), typ=t, align=align)

    def store_at(
        self, value: ir.Value, base: ir.Value, offset: ir.Value | int, align: int | None = None
    ) -> None:
        """Store `value` `offset` bytes after `base`."""
        self.store(value, self.at(base, offset), align=align)
