"""What device functions agree on: their arguments, the lane's variables, and where things lie in memory.

A *group* is the 32 lanes of a warp. In device memory their states lie side by side, word by word, and so do
the copies of a private page (`kvrm.backend.gpu.group_memory`), so that lanes in step touch whole cache lines.
"""

from __future__ import annotations

from enum import IntEnum, auto

from llvmlite import ir

from kvrm.backend.gpu.warp import Warp
from kvrm.engine.interpreter.abi import unlikely, untagged
from kvrm.lane import words as layout
from kvrm.lane.stops import Reason
from kvrm.linux.resident import layout as layout_of_calls
from kvrm.staging.emitter import I32, I64, PTR, Emitter

CHUNKS = 1 << 18
"""Pieces of 2 MiB that the address space has."""
GROUP = 32
"""Lanes of a group: a warp."""
PAGES_LEFT = layout.PAGE_TABLE
"""Offset in the state: how many pages of its own the lane may still get."""
STATE_WORDS = PAGES_LEFT // 8 + 1
"""64-bit words of a lane's state that the device keeps."""
SCRATCH = 8 * STATE_WORDS
"""Offset after the state of a lane that runs: memory for a handler, up to `STATE_BYTES`."""
STOPPED = (1 << 32) - 1
"""Instead of a slot's number: the lane does not run."""
PLAIN = 1 << 31
"""Set in a slot's number: the word's own handler runs, whatever region or breakpoint stands there."""
IS_MAPPED = 1 << 8
"""Set in KIND of a lane that stopped with FAULT: something is mapped at ADDRESS."""
PLAIN_ID = 4
"""Offset in a slot of the handler's number where a region stands in it; its own is at 0, 32 bits both."""


class Param(IntEnum):
    """Words of the parameter block, device addresses unless they say otherwise."""

    STATES = 0
    SLOTS = auto()
    CODE = auto()  # for each 2 MiB of guest addresses, 32 bits: which row of 512 x 32 bits after it; slots
    PAGES = auto()  # addresses of the pages that have slots, in their order
    ROOT = auto()  # for each 2 MiB, 32 bits: which chunk of the group's table
    TABLES = auto()
    TABLE_BYTES = auto()  # bytes of a group's table
    SLABS = auto()
    SLAB_NEXT = auto()  # a counter: slabs taken
    SLAB_LIMIT = auto()  # how many there are
    LANES = auto()  # how many
    COUNTERS = auto()  # two words: lanes that used up what they were granted, instructions retired
    PROCESS = auto()  # what system calls need to know (`kvrm.linux.resident.layout.Fixed`); 0: a bare machine
    WORDS = auto()  # for each slot its word, 32 bits; 0: none is asked about
    SITES = auto()  # loops that are skipped (`kvrm.backend.gpu.skipping`); 0: none is


LINUX = STATE_WORDS
"""The first word of a lane that only its system calls use (`kvrm.linux.resident.layout.Word`)."""
LANE_WORDS = LINUX + layout_of_calls.LANE_WORDS
"""64-bit words of a lane."""


class Var(IntEnum):
    """Words of a lane that runs, kept in registers wherever handlers are inlined."""

    IP = 0  # number of the slot
    BUDGET = auto()
    FLAGS = auto()  # four facets (`kvrm.engine.interpreter.flags`)


FACETS = 4
VAR_WORDS = Var.FLAGS + FACETS


REGISTER_WORDS = layout.V_OFFSET // 8
"""Words of a state that are general registers."""


class Own(IntEnum):
    """Offsets of what a thread has at hand, after the lane's general registers, which are at 0."""

    TABLE = 8 * REGISTER_WORDS  # the address of the group's page table
    ROOT = TABLE + 8  # the parameters of that name
    CODE = ROOT + 8
    PARAMS = CODE + 8
    STATE = PARAMS + 8  # the address of the lane's state
    VARIABLES = STATE + 8


OWN_WORDS = Own.VARIABLES // 8 + VAR_WORDS | 1
"""64-bit words that a thread has at hand. The number is odd: threads that access the same one in shared
memory use different banks."""
LOCAL, SHARED = 5, 3
"""LLVM's numbers of the address spaces that are a thread's own and its block's."""
LOCAL_POINTER, SHARED_POINTER = (ir.PointerType(addrspace=n) for n in (LOCAL, SHARED))
REGION = ir.FunctionType(ir.VoidType(), [LOCAL_POINTER, SHARED_POINTER, I32])
"""Arguments: state, the thread's words at hand, which of its blocks the region is entered at."""


class Module(ir.Module):  # type: ignore[misc]
    """The device's code. The words that a thread has at hand are in shared or local memory, as `own` says.

    `warp` emits what lanes do together.
    """

    def __init__(self, own: ir.PointerType, warp: Warp) -> None:
        super().__init__(name="kernel")
        self.own, self.warp = own, warp


def handler(module: Module) -> ir.FunctionType:
    """Arguments: state, variables, number of the slot, its three words of operands, the words at hand."""
    return ir.FunctionType(ir.VoidType(), [PTR] * 2 + [I64] * 4 + [module.own])


def pointer(e: Emitter, address: ir.Value) -> ir.Value:
    """An address of device memory as a pointer."""
    return e.addrspacecast(e.inttoptr(address, ir.PointerType(addrspace=1)), PTR)


def shared(module: ir.Module, name: str, words: int | None) -> ir.GlobalVariable:
    """Words that the threads of a block share; None: as many as the launch says."""
    if name not in module.globals:
        made = ir.GlobalVariable(module, ir.ArrayType(I64, words or 0), name, addrspace=SHARED)
        made.type, made.align = SHARED_POINTER, 16
        if words is not None:
            made.linkage, made.initializer = "internal", ir.Constant(made.value_type, ir.Undefined)
    return module.globals[name]


def shared_words(e: Emitter) -> ir.Value:
    """The address of the thread's words of shared memory."""
    thread = e.zext(e.external("llvm.nvvm.read.ptx.sreg.tid.x", I32), I64)
    return e.at(shared(e.module, "own_words", None), e.mul(thread, ir.Constant(I64, 8 * OWN_WORDS)))


def lane_number(e: Emitter) -> ir.Value:
    """Which lane of its warp a thread is, 64 bits."""
    thread = e.external("llvm.nvvm.read.ptx.sreg.tid.x", I32)
    return e.zext(e.and_(thread, ir.Constant(I32, GROUP - 1)), I64)


class DeviceFunction:
    """A handler that leaves in the variables where to go on, since PTX has no tail calls."""

    def __init__(
        self, module: Module, name: str, linkage: str = "internal", emitter: type[Emitter] = Emitter
    ) -> None:
        e = self._begin(module, handler(module), name, linkage, emitter)
        self.state, self.vars, self.number, *self.operands, self.registers = self.fn.args
        self.ip = e.inttoptr(e.shl(self.number, ir.Constant(I64, 5)), PTR)
        self._load_variables(e)

    def _begin(
        self, module: ir.Module, t: ir.FunctionType, name: str, linkage: str, emitter: type[Emitter]
    ) -> Emitter:
        self.fn = ir.Function(module, t, name)
        self.fn.linkage = linkage
        self.e = emitter(self.fn.append_basic_block("entry"))
        for argument in self.fn.args[:2]:
            argument.add_attribute("noalias")
        return self.e

    def _load_variables(self, e: Emitter) -> None:
        self.budget = e.zext(e.load_at(self.vars, 8 * Var.BUDGET, I32), I64)
        self.flags = [e.load_at(self.vars, 8 * (Var.FLAGS + i), I64) for i in range(FACETS)]

    def tail(self, target: ir.Value, ip: ir.Value, budget: ir.Value) -> None:
        """Return to the loop, which runs the next slot."""
        self.go_on(self._number(ip), budget)

    def _number(self, ip: ir.Value) -> ir.Value:
        e = self.e
        distance = e.sub(e.ptrtoint(ip, I64), e.ptrtoint(self.ip, I64))
        return e.add(self.number, e.ashr(distance, ir.Constant(I64, 5)))

    def go_on(self, number: ir.Value, budget: ir.Value) -> None:
        """Return to the loop, which runs the slot of that number."""
        e = self.e
        e.store_at(e.trunc(number, I32), self.vars, 8 * Var.IP)
        e.store_at(e.trunc(budget, I32), self.vars, 8 * Var.BUDGET)
        for i, facet in enumerate(self.flags):
            e.store_at(facet, self.vars, 8 * (Var.FLAGS + i))
        e.ret_void()

    def leave(
        self, reason: int | ir.Value, ip: ir.Value | None, budget: ir.Value, **fields: ir.Value
    ) -> None:
        """Stop the lane with the reason in the state, and in IP the number of a slot, or 0."""
        self._stop(reason, ir.Constant(I64, 0) if ip is None else self._number(ip), budget, fields)

    def _stop(
        self, reason: int | ir.Value, number: ir.Value, budget: ir.Value, fields: dict[str, ir.Value]
    ) -> None:
        e = self.e
        for name, value in fields.items():
            e.store_at(value, self.state, getattr(layout, name))
        reason = ir.Constant(I64, reason) if isinstance(reason, int) else reason
        e.store_at(reason, self.state, layout.REASON)
        e.store_at(number, self.state, layout.IP)
        self.go_on(ir.Constant(I64, STOPPED), budget)

    def advance(self, ip: ir.Value, cost: int = 1) -> None:
        """Retire `cost` instructions and go on with the slot at `ip`, or stop when the budget is used up."""
        self._advance(self._number(ip), cost)

    def _advance(self, number: ir.Value, cost: int) -> None:
        e, budget = self.e, self.budget
        if cost:
            budget = e.sub(budget, ir.Constant(I64, cost))
            with e.if_then(e.icmp_unsigned("==", e.trunc(budget, I32), ir.Constant(I32, 0)), likely=False):
                self._stop(Reason.BUDGET, number, budget, {})
        self.go_on(number, budget)

    def parameters(self) -> ir.Value:
        """The address of the parameter block."""
        return self.e.load_at(self.registers, Own.PARAMS, I64)

    def jump(self, target: ir.Value, cost: int = 1, flag: ir.Value | int = 0) -> None:
        """Retire and continue at the guest address `target`, or stop if its page is not predecoded.

        `flag` is 0 or PLAIN, 64 bits.
        """
        e, mark = self.e, ir.Constant(I64, flag) if isinstance(flag, int) else flag
        page = e.lshr(target, ir.Constant(I64, 12))
        odd = e.icmp_unsigned("!=", e.and_(target, ir.Constant(I64, 3)), ir.Constant(I64, 0))
        far = e.icmp_unsigned(">=", page, ir.Constant(I64, 1 << 27))
        lost, inside, found = (e.append_basic_block(name) for name in ("lost", "inside", "found"))
        unlikely(e.cbranch(e.or_(odd, far), lost, inside))
        e.position_at_end(inside)
        first = self._first_slot(page)
        unlikely(e.cbranch(e.icmp_unsigned("==", first, ir.Constant(I32, 0)), lost, found))
        e.position_at_end(lost)
        left = e.sub(self.budget, ir.Constant(I64, cost))
        self.leave(Reason.CODE, None, left, PC=untagged(e, target))
        e.position_at_end(found)
        within = e.lshr(e.and_(target, ir.Constant(I64, 4095)), ir.Constant(I64, 2))
        self._advance(e.or_(e.add(e.zext(first, I64), within), mark), cost)

    def _first_slot(self, page: ir.Value) -> ir.Value:
        e = self.e
        chunk = e.lshr(page, ir.Constant(I64, 9))
        code = pointer(e, e.load_at(self.registers, Own.CODE, I64))
        row = e.load_at(code, e.shl(chunk, ir.Constant(I64, 2)), I32)
        at = e.add(e.shl(e.zext(row, I64), ir.Constant(I64, 9)), e.and_(page, ir.Constant(I64, 511)))
        return e.load_at(e.at(code, 4 * CHUNKS), e.shl(at, ir.Constant(I64, 2)), I32)


class RegionFunction(DeviceFunction):
    """A region, whose variables are among the words at hand."""

    def __init__(self, module: ir.Module, name: str, emitter: type[Emitter]) -> None:
        e = self._begin(module, REGION, name, "internal", emitter)
        self.state, self.registers, self.entry = self.fn.args
        self.vars = e.at(self.registers, Own.VARIABLES)
        self._load_variables(e)

    def leave_to_handler(self) -> None:
        """Return to the loop, which runs the handler of the word that the region is entered at."""
        number = self.e.zext(self.e.load_at(self.vars, 8 * Var.IP, I32), I64)
        self.go_on(self.e.or_(number, ir.Constant(I64, PLAIN)), self.budget)
