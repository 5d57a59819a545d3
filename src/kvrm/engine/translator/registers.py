"""Guest registers and flags as SSA values.

A register that a region uses has a stack slot that LLVM promotes to SSA. Inside a block its value is passed
along as a `Bits`, so that constants fold and a flag knows the comparison that it came from; `spill` stores
what a block has changed where other blocks find it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kvrm.engine.emitter import FLOATS, I64, Emitter
from kvrm.engine.interpreter import flags
from kvrm.engine.nodes import RunNode
from kvrm.isa.context import Flags
from kvrm.machine import state as layout
from kvrm.values import Bits

VECTOR = ir.VectorType(I64, 2)
ZEROS = ir.Constant(VECTOR, [ir.Constant(I64, 0)] * 2)


class Registers:
    """The registers of a region under construction.

    `widths` has the most bits that the region uses of each SIMD&FP register: one that is never used as 128
    bits is kept as a number, and what lies above it apart, since only exits need that.
    """

    def __init__(self, stage: Any, e: Emitter, state: ir.Value, widths: dict[int, int]) -> None:
        self._stage, self._e, self._state = stage, e, state
        self._entry = e.block
        self._widths = {r: 128 if w > 64 else max(w, 32) for r, w in widths.items()}
        self._slots: dict[str, ir.Value] = {}
        self._written: set[str] = set()
        self._now: dict[str, Bits] = {}
        self._dirty: set[str] = set()
        self._flags: Flags | None = None
        self._flags_dirty = False

    def slot(self, name: str, t: ir.Type, first: ir.Value | int | None = None) -> ir.Value:
        """The stack slot `name`, which holds a value or a word of the state at that offset on entry."""
        if name not in self._slots:
            e = self._e
            with e.goto_block(self._entry):
                self._slots[name] = e.alloca(t)
                if first is not None:
                    value = e.load_at(self._state, first, t) if isinstance(first, int) else first
                    e.store(value, self._slots[name])
        return self._slots[name]

    def begin(self) -> None:
        """A new block: nothing is known."""
        self._now.clear()
        self._dirty.clear()
        self._flags, self._flags_dirty = None, False

    # -- general registers -----------------------------------------------------------------------------------
    def x(self, number: int) -> Bits:
        """64 bits of x0 to x30, or SP as number `layout.SP`."""
        name = f"x{number}"
        if name not in self._now:
            self._now[name] = self._wrap(self._e.load(self.slot(name, I64, 8 * number), typ=I64), 64)
        return self._now[name]

    def set_x(self, number: int, value: Bits) -> None:
        """Set all 64 bits."""
        self._set(f"x{number}", value)
        self.slot(f"x{number}", I64, 8 * number)

    def _set(self, name: str, value: Bits) -> None:
        self._now[name] = value
        self._dirty.add(name)
        self._written.add(name)

    # -- SIMD&FP registers -----------------------------------------------------------------------------------
    def v(self, number: int) -> Bits:
        """As many low bits as the region ever uses of v0 to v31."""
        name, width = f"v{number}", self._widths[number]
        if name not in self._now:
            e, slot = self._e, self._v_slot(number)
            loaded = e.load(slot, typ=VECTOR if width == 128 else FLOATS[width])
            self._now[name] = self._wrap(e.bitcast(loaded, ir.IntType(width)), width)
        return self._now[name]

    def set_v(self, number: int, value: Bits) -> None:
        """Set the register, zero above `value`."""
        self._v_slot(number)
        self._set(f"v{number}", value.zext(self._widths[number]))

    def _v_slot(self, number: int) -> ir.Value:
        offset, width = layout.V_OFFSET + 16 * number, self._widths[number]
        if width == 128:
            return self.slot(f"v{number}", VECTOR, offset)
        self.slot(f"above{number}", VECTOR, offset)
        return self.slot(f"v{number}", FLOATS[width], offset)

    # -- flags -----------------------------------------------------------------------------------------------
    @property
    def flags(self) -> Flags:
        """N, Z, C, V."""
        if self._flags is None:
            facets = [self._e.load(slot, typ=I64) for slot in self._flag_slots()]
            n, z, c, v = (self._wrap(f, 1) for f in flags.read(self._e, facets))
            self._flags = n, z, c, v
        return self._flags

    @flags.setter
    def flags(self, nzcv: Flags) -> None:
        self._flag_slots()
        self._flags, self._flags_dirty = nzcv, True

    def _flag_slots(self) -> list[ir.Value]:
        return [self.slot(f"flag{i}", I64, facet) for i, facet in enumerate(self._stage.entry_flags)]

    # -- between blocks --------------------------------------------------------------------------------------
    def spill(self) -> None:
        """Store what the block has changed, for other blocks to load."""
        e = self._e
        for name in sorted(self._dirty):
            value, slot = self._now[name], self._slots[name]
            if name[0] == "x":
                e.store(self._stage.value(value), slot)
            elif value.width == 128:
                e.store(self._stage.value(value.split(64)), slot)
            else:
                e.store(e.bitcast(self._stage.value(value), FLOATS[value.width]), slot)
                e.store(ZEROS, self._slots[f"above{name[1:]}"])
        if self._flags_dirty and self._flags is not None:
            facets = flags.write(e, self._flags, [self._stage.value(f) for f in self._flags])
            for slot, facet in zip(self._flag_slots(), facets, strict=True):
                e.store(facet, slot)

    def write_back(self) -> list[ir.Value] | None:
        """Store all that the region may have changed to the state; the flags' facets if it uses them."""
        e = self._e
        for name in sorted(self._written):
            number = int(name[1:])
            if name[0] == "x":
                e.store_at(e.load(self._slots[name], typ=I64), self._state, 8 * number)
            else:
                value = self._whole(number)
                e.store_at(value, self._state, layout.V_OFFSET + 16 * number, align=16)
        if "flag0" not in self._slots:
            return None
        return [e.load(slot, typ=I64) for slot in self._flag_slots()]

    def _whole(self, number: int) -> ir.Value:
        e, width = self._e, self._widths[number]
        if width == 128:
            return e.load(self._slots[f"v{number}"], typ=VECTOR)
        low = e.load(self._slots[f"v{number}"], typ=FLOATS[width])
        above = e.load(self._slots[f"above{number}"], typ=VECTOR)
        t = ir.VectorType(FLOATS[width], 128 // width)
        return e.insert_element(e.bitcast(above, t), low, e.index(0))

    def _wrap(self, value: ir.Value, width: int) -> Bits:
        return Bits(width, RunNode(self._stage, value))


def signed_less(n: Bits, v: Bits) -> tuple[Bits, Bits] | None:
    """x and y, if N and V are those of x - y: then N != V says x < y."""
    difference, overflow = _sign_of(n), _sign_of(v)
    if difference is None or overflow is None or difference.width != overflow.width:
        return None
    sub, both = _made(difference, "sub"), _made(overflow, "and")
    if sub is None or both is None:
        return None
    x, y = sub.args
    one, other = (_made(a, "xor") for a in both.args)
    if one is None or other is None:
        return None
    fits = _is(one.args, (x, y)) and _is(other.args, (x, difference))
    return (x, y) if fits else None


def _is(found: Any, wanted: tuple[Bits, Bits]) -> bool:
    return all(
        a.payload is b.payload or (a.known and b.known and a.payload == b.payload)
        for a, b in zip(found, wanted, strict=True)
    )


def _made(b: Bits, row: str) -> RunNode | None:
    p = b.payload
    return p if isinstance(p, RunNode) and p.row == row else None


def _sign_of(flag: Bits) -> Bits | None:
    """x, if the flag is x<width-1>."""
    cut = _made(flag, "trunc")
    shift = cut and _made(cut.args[0], "lsr")
    if not shift:
        return None
    x, amount = shift.args
    return x if amount.known and int(amount) == x.width - 1 else None
