"""Guest registers and flags as SSA values.

A register that a region uses has a stack slot that LLVM promotes to SSA, or, in a brief region, its place in
the state. Inside a block its value is passed along as a `Bits`, so that constants fold and a flag knows the
comparison that it came from; `spill` stores what a block has changed where other blocks find it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from kvrm.engine.interpreter import flags
from kvrm.engine.nodes import RunNode
from kvrm.engine.translator.lazy_flags import LazyFlags
from kvrm.isa.context import Flags
from kvrm.lane import words as layout
from kvrm.staging.emitter import FLOATS, I64, Emitter, i64
from kvrm.values import Bits

VECTOR = ir.VectorType(I64, 2)
ZEROS = ir.Constant(VECTOR, [i64(0)] * 2)


class Registers:
    """The registers of a region under construction.

    `widths` has the most bits that the region uses of each SIMD&FP register: one that is never used as 128
    bits is kept as a number, and what lies above it apart, since only exits need that. With `in_state`,
    blocks find registers in the state, and exits have nothing to write back but flags. `place` tells where
    the word at an offset of the state is.
    """

    def __init__(
        self,
        stage: Any,
        e: Emitter,
        place: Callable[[int], ir.Value],
        widths: dict[int, int],
        in_state: bool = False,
    ) -> None:
        self._stage, self._e, self._place, self._in_state = stage, e, place, in_state
        self._entry = e.block
        self._widths = {r: 128 if w > 64 else max(w, 32) for r, w in widths.items()}
        self._slots: dict[str, ir.Value] = {}
        self._written: set[str] = set()
        self._now: dict[str, Bits] = {}
        self._origins: dict[RunNode, int] = {}
        self._dirty: set[str] = set()
        self._flags: Flags | None = None
        self._flags_dirty = False
        self.lazy_flags = LazyFlags(e, self.slot, stage.entry_flags)

    def slot(self, name: str, t: ir.Type, first: ir.Value | int | None = None) -> ir.Value:
        """The stack slot `name`, which holds a value or a word of the state at that offset on entry."""
        if name not in self._slots:
            with self._e.goto_block(self._entry):
                if self._in_state and isinstance(first, int):
                    self._slots[name] = self._place(first)
                else:
                    self._slots[name] = self._on_stack(t, first)
        return self._slots[name]

    def _on_stack(self, t: ir.Type, first: ir.Value | int | None) -> ir.Value:
        e = self._e
        slot = e.alloca(t)
        if first is not None:
            e.store(e.load(self._place(first), typ=t) if isinstance(first, int) else first, slot)
        return slot

    def begin(self, flags: Flags | None) -> None:
        """A new block: nothing is known but, perhaps, the flags that its only predecessor ends with."""
        self._now.clear()
        self._origins.clear()
        self._dirty.clear()
        self._flags, self._flags_dirty = flags, False

    # -- general registers -----------------------------------------------------------------------------------
    def x(self, number: int) -> Bits:
        """64 bits of x0 to x30, or SP as number `layout.SP`."""
        name = f"x{number}"
        if name not in self._now:
            node = RunNode(self._stage, self.at_entry(number))
            self._now[name] = Bits(64, node)
            self._origins[node] = number
        return self._now[name]

    def at_entry(self, number: int) -> ir.Value:
        """64 bits of a register as other blocks left them."""
        return self._e.load(self.slot(f"x{number}", I64, 8 * number), typ=I64)

    def origin(self, node: RunNode) -> int | None:
        """The register whose value at the beginning of the block a node is."""
        return self._origins.get(node)

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
            if width == 128:
                self._now[name] = Bits(64, RunNode(self._stage, e.load(slot, typ=VECTOR)), 2).whole
            else:
                loaded = e.bitcast(e.load(slot, typ=FLOATS[width]), ir.IntType(width))
                self._now[name] = self._wrap(loaded, width)
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
            n, z, c, v = (self._wrap(f, 1) for f in flags.read(self._e, self.lazy_flags.load()))
            self._flags = n, z, c, v
        return self._flags

    @flags.setter
    def flags(self, nzcv: Flags) -> None:
        self._flags, self._flags_dirty = nzcv, True

    @property
    def known_flags(self) -> Flags | None:
        """The flags, if the block has read or set them."""
        return self._flags

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
                # first, for in the state the number lies in the same 16 bytes
                e.store(ZEROS, self._slots[f"above{name[1:]}"], align=16)
                e.store(e.bitcast(self._stage.value(value), FLOATS[value.width]), slot)
        if self._flags_dirty and self._flags is not None:
            self.lazy_flags.store(self._flags, self._stage.value)

    def write_back(self) -> list[ir.Value]:
        """Store all that the region may have changed to the state; the flags' facets."""
        e = self._e
        for name in sorted(self._written) if not self._in_state else ():
            number = int(name[1:])
            if name[0] == "x":
                e.store(e.load(self._slots[name], typ=I64), self._place(8 * number))
            else:
                value = self._whole(number)
                e.store(value, self._place(layout.V_OFFSET + 16 * number), align=16)
        return self.lazy_flags.load()

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
