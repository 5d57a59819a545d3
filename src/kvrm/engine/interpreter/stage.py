"""The stage that makes handlers of definitions: fields are predecode values, the rest is LLVM code."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from enum import Enum, auto
from typing import Any

from llvmlite import ir

from kvrm.engine.interpreter import flags
from kvrm.engine.interpreter.abi import DECODER
from kvrm.engine.interpreter.handler_target import HandlerTarget, operand_width
from kvrm.engine.interpreter.slots import OPERANDS, SLOT, SLOT_PER_PC
from kvrm.engine.nodes import RunNode, StaticNode, StaticStage, compute
from kvrm.isa.context import Context, Flags, System
from kvrm.isa.definition import Definition
from kvrm.lane import words as layout
from kvrm.lane.stops import Reason
from kvrm.staging.emitter import I8, I64, Emitter, constant, i64, integer
from kvrm.values import Bits, Lift, Node, Primitive, StagingError, bits, cond


class Form(Enum):
    """Which words of a variant a handler is for: where predecoding knows more, fewer steps are left."""

    ALL = auto()
    NEAR = auto()
    """Branches to their own page."""
    AT_SP = auto()
    """Loads and stores that begin with SP, which must be aligned."""
    AT_X = auto()
    """Those that begin with any other register."""


class HandlerStage(Context):
    """Runs one variant of a definition over LLVM values and leaves a handler in the module.

    `f` is the function that it becomes, whose block `loads` fetches the operands.
    """

    level = 2

    def __init__(self, module: ir.Module, name: str, target: HandlerTarget, form: Form = Form.ALL) -> None:
        super().__init__()
        self._target, self._form = target, form
        self.f = target.begin(module, name)
        self.loads = self.f.e.block
        self._entry = self.f.fn.append_basic_block("body")
        self.f.e.position_at_end(self._entry)
        self._static = StaticStage()
        self._operands: dict[int, ir.Value] = {}
        self._stored: list[tuple[StaticNode, int]] = []
        self._next: tuple[Bits, Bits | None] | None = None
        self._event: tuple[Reason, Bits] | None = None
        self._fpcr = False
        self._base: Bits | None = None
        self.touches_memory = False

    # -- building --------------------------------------------------------------------------------------------
    def build(self, definition: Definition, statics: Sequence[int]) -> None:
        known = dict(zip((f.name for f in definition.statics), statics, strict=True))
        fields: dict[str, Any] = {
            f.name: known[f.name] if f.name in known else self._static.leaf(f.name, f.width)
            for f in definition.parameters
        }
        definition.run(self, fields)
        self.finish()

    @property
    def function(self) -> ir.Function:
        return self.f.fn

    def decoder(
        self, module: ir.Module, name: str, definition: Definition, special: HandlerStage | None
    ) -> ir.Function:
        """The function that fills a slot from a word and its address: handler and operands.

        Words that the `special` handler is for get that one.
        """
        fn = ir.Function(module, DECODER, name)
        fn.linkage = "internal"
        word, pc, slot = fn.args
        e = Emitter(fn.append_basic_block("entry"))
        leaves = {"pc": pc}
        for f in definition.parameters:
            shifted = e.lshr(word, ir.Constant(word.type, f.low)) if f.low else word
            leaves[f.name] = e.trunc(shifted, ir.IntType(f.width))
        if special is not None:
            with e.if_then(special._suits(e, leaves)):
                special._fill(e, leaves, slot)
                e.ret_void()
        self._fill(e, leaves, slot)
        e.ret_void()
        return fn

    @property
    def has_static_target(self) -> bool:
        """Whether the handler ends with a branch whose target predecoding knows."""
        return self._next is not None and isinstance(self._next[0].payload, StaticNode)

    @property
    def has_base(self) -> bool:
        """Whether the handler is of a load or store that begins with a register."""
        return self._base is not None

    def _suits(self, e: Emitter, leaves: dict[str, ir.Value]) -> ir.Value:
        """Whether the handler is for the word that is decoded."""
        if self._base is not None:
            return compute(e, leaves, self._base.eq(31), {})
        assert self._next is not None
        target = compute(e, leaves, self._next[0], {})
        other_page = e.lshr(e.xor(target, leaves["pc"]), i64(12))
        return e.icmp_unsigned("==", other_page, i64(0))

    def _fill(self, e: Emitter, leaves: dict[str, ir.Value], slot: ir.Value) -> None:
        """Store the handler and its operands to a slot; the pc in an undecoded slot was read before."""
        memo: dict[int, ir.Value] = {}
        self._target.name(e, self.function, slot)
        for node, offset in self._stored:
            value = compute(e, leaves, Bits(node.width, node), memo)
            t = ir.IntType(operand_width(node.width))
            e.store_at(value if value.type == t else e.zext(value, t), slot, OPERANDS + offset, align=1)

    def finish(self) -> None:
        """Emit the handler's end."""
        f = self.f
        following = f.e.at(f.ip, SLOT)
        if self._event is not None:
            event, value = self._event
            if event is Reason.SVC:
                self._target.call(self)
            left = f.e.sub(f.budget, i64(int(event.retires)))
            pc = self.value(self.pc + 4 * event.retires)
            f.leave(event, None, left, ADDRESS=self.value(value), PC=pc)
        elif self._next is None:
            f.advance(following)
        else:
            self._finish_branch(*self._next, following)
        f.e.position_at_end(self.loads)
        f.e.branch(self._entry)

    def _finish_branch(self, target: Bits, condition: Bits | None, following: ir.Value) -> None:
        f = self.f
        if condition is not None:
            taken = f.e.append_basic_block("taken")
            fall = f.e.append_basic_block("fall")
            f.e.cbranch(self.value(condition), taken, fall)
            f.e.position_at_end(fall)
            f.advance(following)
            f.e.position_at_end(taken)
        if self._form is Form.NEAR:
            delta = (target - self.pc).trunc(32) * SLOT_PER_PC
            f.advance(f.e.at(f.ip, f.e.sext(self.value(delta), I64)))
        elif isinstance(target.payload, StaticNode):
            self._target.jump_far(self, target)
        else:
            f.jump(self.value(target))

    # -- values ----------------------------------------------------------------------------------------------
    def apply(
        self, row: Primitive, width: int, lanes: int, args: Sequence[Bits], attrs: tuple[Any, ...]
    ) -> Node:
        values = [self.value(a) for a in args]
        return RunNode(self, row.emit(self.f.e, integer(width, lanes), *values, *attrs), row.name, args)

    def value(self, b: Bits) -> ir.Value:
        """The LLVM value of `b`; a predecode value becomes an operand."""
        p = b.payload
        if isinstance(p, RunNode):
            return p.value
        if isinstance(p, StaticNode):
            return self._operand(p)
        return constant(integer(b.width, b.lanes), p)

    def _operand(self, node: StaticNode) -> ir.Value:
        if id(node) not in self._operands:
            self._operands[id(node)] = self._extended(node) or self._spread(node) or self._loaded(node)
        return self._operands[id(node)]

    def _extended(self, node: StaticNode) -> ir.Value | None:
        """A zero-extended value is kept narrow in the slot; LLVM then knows its range too."""
        if isinstance(node.row, str) or node.row.name != "zext" or node.lanes > 1:
            return None
        inner = node.args[0].payload
        if not isinstance(inner, StaticNode):
            return None
        narrow = self._operand(inner)
        with self.f.e.goto_block(self.loads):
            return self.f.e.zext(narrow, ir.IntType(node.width))

    def _spread(self, node: StaticNode) -> ir.Value | None:
        """Several lanes or more than 64 bits fit no operand: the last steps to them are taken at run time."""
        if isinstance(node.row, str) or (node.lanes == 1 and node.width <= 64):
            return None
        args = [self.value(a) for a in node.args]
        with self.f.e.goto_block(self.loads):
            return node.row.emit(self.f.e, integer(node.width, node.lanes), *args, *node.attrs)

    def _loaded(self, node: StaticNode) -> ir.Value:
        value, at = self._target.operand(self, node)
        self._stored.append((node, at))
        return value

    def _wrap(self, value: ir.Value, width: int) -> Bits:
        return Bits(width, RunNode(self, value))

    # -- the machine -----------------------------------------------------------------------------------------
    @property
    def pc(self) -> Bits:
        """The address, a predecode value."""
        return self._static.leaf("pc", 64)

    @property
    def fpcr(self) -> int:
        """Zero: a handler that depends on the control register leaves for the host unless it is zero."""
        if not self._fpcr:
            self._fpcr = True
            f = self.f
            value = f.e.load_at(f.state, layout.SYSTEM_OFFSET + 8 * System.FPCR, I64)
            with f.e.if_then(f.e.icmp_unsigned("!=", value, i64(0)), likely=False):
                f.leave(Reason.STEP, f.ip, f.budget)
        return 0

    @property
    def retired(self) -> Bits:
        """Horizon minus what is left of the budget."""
        f = self.f
        horizon = f.e.load_at(f.state, layout.HORIZON, I64)
        return self._wrap(f.e.sub(horizon, f.budget), 64)

    def _x(self, r: Bits, slot31: int) -> ir.Value:
        e, slot = self.f.e, self._slot(r, slot31)
        if self._form is Form.AT_SP and slot31 == layout.SP:
            # the operand is not looked at, but has its place: the slow twin finds all others behind it
            slot = ir.Constant(I8, layout.SP)
        return e.shl(e.zext(slot, I64), i64(3))

    def _slot(self, r: Bits, slot31: int) -> ir.Value:
        """Which of the state's words a register is, 8 bits; register 31 is `slot31`."""
        wide = r.zext(8)
        return self.value(cond(r.eq(31), wide.like(slot31), wide))

    def read_x(self, r: Bits, n: int, sp: bool) -> Bits:
        offset = self._x(r, layout.SP if sp else layout.ZERO)
        return self._wrap(self.f.e.load_at(self.f.registers, offset, ir.IntType(n)), n)

    def write_x(self, r: Bits, value: Bits, sp: bool) -> None:
        offset = self._x(r, layout.SP if sp else layout.DISCARD)
        self.f.e.store_at(self.value(value), self.f.registers, offset)

    def _v(self, r: Bits) -> ir.Value:
        slot = self.value(r.zext(16).lsl(4) + layout.V_OFFSET)
        return self.f.e.zext(slot, I64)

    def read_v(self, r: Bits, n: int) -> Bits:
        return self._wrap(self.f.e.load_at(self.f.state, self._v(r), ir.IntType(n), align=n // 8), n)

    def write_v(self, r: Bits, value: Bits) -> None:
        """Store all 128 bits to the state, in one piece: a later vector load can then be forwarded."""
        self.f.e.store_at(self.value(value.zext(128).split(64)), self.f.state, self._v(r), align=16)

    def read_flags(self) -> Flags:
        """The flags travel in registers from handler to handler."""
        n, z, c, v = (self._wrap(f, 1) for f in flags.read(self.f.e, self.f.flags))
        return n, z, c, v

    def write_flags(self, nzcv: Flags) -> None:
        if any(f.width != 1 for f in nzcv):
            raise StagingError("a flag has one bit")
        self.f.flags = flags.write(self.f.e, nzcv, [self.value(f) for f in nzcv])

    def read_system(self, register: System) -> Bits:
        return self._wrap(self.f.e.load_at(self.f.state, layout.SYSTEM_OFFSET + 8 * register, I64), 64)

    def write_system(self, register: System, value: Bits) -> None:
        self.f.e.store_at(self.value(value), self.f.state, layout.SYSTEM_OFFSET + 8 * register)

    # -- memory ----------------------------------------------------------------------------------------------
    def read_memory(self, address: Bits, n: int) -> Bits:
        self.touches_memory = True
        return self._wrap(self._target.read(self, self.value(address), ir.IntType(n)), n)

    def write_memory(self, address: Bits, value: Bits, condition: Bits | None) -> None:
        """Nothing is accessed where the condition is 0."""
        self.touches_memory = True
        a, v = self.value(address), self.value(value)
        with nullcontext() if condition is None else self.f.e.if_then(self.value(condition)):
            self._target.write(self, a, v)

    def require_aligned(self, address: Bits, size: int, store: bool) -> None:
        """The host's single step tells of what is not."""
        if size > 1:
            self._target.step_if(self, self.value((address & (size - 1)).ne(0)))

    def require_sp_aligned(self, r: Bits, address: Bits) -> None:
        self._base = r
        if self._form is Form.AT_X:
            return
        wrong = self.value((address & 15).ne(0))
        if self._form is not Form.AT_SP:
            e = self.f.e
            is_sp = e.icmp_unsigned("==", self._slot(r, layout.SP), ir.Constant(I8, layout.SP))
            wrong = e.and_(is_sp, wrong)
        self._target.misaligned_if(self, wrong)

    def branch(self, target: Bits, condition: Bits | None = None) -> None:
        """Noted; the handler ends with it."""
        self._next = (target, condition)

    def event(self, event: Reason, value: Lift = 0) -> None:
        """Noted; the handler ends with it."""
        self._event = (event, value if isinstance(value, Bits) else bits(64, value))
