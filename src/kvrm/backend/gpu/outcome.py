"""How lanes stopped, as columns: a kernel that also finds out what was refused to each lane that was.

`outcome(params, reasons, retired, pcs)` fills arrays of bytes, words and words. A lane that stopped at an
access or a jump has FAULT, FULL, or a reason for which the CPU goes on with it, in its state too; with FAULT,
ADDRESS has no tag and KIND may have IS_MAPPED. So the host learns all of it by reading columns.
"""

from __future__ import annotations

from llvmlite import ir

from kvrm.backend.gpu.device_abi import IS_MAPPED, LINUX, PAGES_LEFT, PLAIN, Param, pointer
from kvrm.backend.gpu.group_memory import CODE, MAPPED, READ, SHARED, WRITE
from kvrm.backend.gpu.ranges import is_beyond
from kvrm.backend.gpu.thread import Thread
from kvrm.engine.interpreter.abi import untagged
from kvrm.engine.interpreter.slots import PAGE_SLOTS
from kvrm.lane.stops import Reason
from kvrm.linux.resident.layout import FILE, Word
from kvrm.machine import state as layout
from kvrm.memory import AccessKind
from kvrm.staging.emitter import I1, I8, I32, I64, Emitter


def _c(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


def outcome(
    e: Emitter, t: Thread, params: ir.Value, reasons: ir.Value, retired: ir.Value, pcs: ir.Value
) -> None:
    """Emit the kernel's body for one thread."""
    state = pointer(e, t.state)
    _settle_access(e, t, state)
    _settle_jump(e, t, state)
    reason, ip, pc, horizon, left = (
        e.load_at(state, 32 * o, I64)
        for o in (layout.REASON, layout.IP, layout.PC, layout.HORIZON, layout.REMAINING)
    )
    e.store(e.trunc(reason, I8), pointer(e, e.add(reasons, t.number)))
    words = e.shl(t.number, _c(3))
    e.store(e.sub(horizon, left), pointer(e, e.add(retired, words)))
    number = e.and_(ip, _c(PLAIN - 1))
    none = e.icmp_unsigned("==", number, _c(0))
    at = e.select(none, _c(0), e.sub(number, _c(1)))
    page, within = e.udiv(at, _c(PAGE_SLOTS)), e.urem(at, _c(PAGE_SLOTS))
    pages = pointer(e, e.load_at(t.params, 8 * Param.PAGES, I64))
    here = e.add(e.load_at(pages, e.shl(page, _c(3)), I64), e.shl(within, _c(2)))
    e.store(e.select(none, pc, here), pointer(e, e.add(pcs, words)))


def _settle_access(e: Emitter, t: Thread, state: ir.Value) -> None:
    """What a refused access is: a fault, the lane's limit of pages, or something for the CPU.

    The CPU writes to code, and where the device's pool of pages has run out before the lane's limit. It knows
    what may be done past the end of a mapped file, and so which of two faults that is.
    """
    reason = e.load_at(state, 32 * layout.REASON, I64)
    with e.if_then(e.icmp_unsigned("==", reason, _c(Reason.MEMORY))):
        address, kind, left = (
            e.load_at(state, 32 * at, I64) for at in (layout.ADDRESS, layout.KIND, PAGES_LEFT)
        )
        a = t.access(e)
        entry = a.entry(address)
        writes = e.icmp_unsigned("==", kind, _c(AccessKind.WRITE))
        allowed = a.bit(e.select(writes, *(e.load_at(entry, mask, I32) for mask in (WRITE, READ))))
        for_cpu = e.or_(_is_code(e, entry), e.icmp_unsigned("!=", left, _c(0)))
        mapped = a.bit(e.load_at(entry, MAPPED, I32))
        beyond = e.and_(mapped, _is_beyond(e, t, entry))
        settled = e.select(e.or_(beyond, for_cpu), _c(Reason.CODE_WRITE), _c(Reason.FULL))
        with e.if_else(e.or_(allowed, beyond)) as (then, otherwise):
            with then:
                e.store_at(settled, state, 32 * layout.REASON)
            with otherwise:
                _fault(e, state, address, kind, mapped)


def _settle_jump(e: Emitter, t: Thread, state: ir.Value) -> None:
    """A jump that led to no slot is a fault, unless what is there is code to the CPU.

    That is so if the address had a tag, and if the lane may have made the page executable itself. The CPU
    knows too which fault it is past the end of a mapped file, and that there is none yet where the run ended
    with the jump, as the grant did.
    """
    reason, ip, pc, left = (
        e.load_at(state, 32 * at, I64) for at in (layout.REASON, layout.IP, layout.PC, layout.REMAINING)
    )
    begun_nowhere = e.and_(
        e.icmp_unsigned("==", reason, _c(Reason.HANDLER)),
        e.icmp_unsigned("==", e.and_(ip, _c(PLAIN - 1)), _c(0)),
    )
    lost = e.or_(begun_nowhere, e.icmp_unsigned("==", reason, _c(Reason.CODE)))
    with e.if_then(e.and_(lost, e.icmp_unsigned("!=", left, _c(0)))):
        target, a = untagged(e, pc), t.access(e)
        entry = a.entry(target)
        mapped = a.bit(e.load_at(entry, MAPPED, I32))
        made = e.icmp_unsigned("!=", e.load_at(state, 256 * (LINUX + Word.HAS_CODE), I64), _c(0))
        for_cpu = e.or_(_is_code(e, entry), e.and_(mapped, e.or_(made, _is_beyond(e, t, entry))))
        misaligned = e.icmp_unsigned("!=", e.and_(target, _c(3)), _c(0))
        with e.if_then(e.or_(misaligned, e.not_(for_cpu))):
            _fault(e, state, target, _c(AccessKind.FETCH), mapped)
            e.store_at(target, state, 32 * layout.PC)


def _fault(e: Emitter, state: ir.Value, address: ir.Value, kind: ir.Value, mapped: ir.Value) -> None:
    e.store_at(_c(Reason.FAULT), state, 32 * layout.REASON)
    e.store_at(untagged(e, address), state, 32 * layout.ADDRESS)
    e.store_at(e.or_(kind, e.select(mapped, _c(IS_MAPPED), _c(0))), state, 32 * layout.KIND)


def _is_code(e: Emitter, entry: ir.Value) -> ir.Value:
    return e.icmp_unsigned("!=", e.and_(e.load_at(entry, SHARED, I64), _c(CODE)), _c(0))


def _is_beyond(e: Emitter, t: Thread, entry: ir.Value) -> ir.Value:
    """Whether a page lies past the end of its file; only the lanes of a program can have files."""
    shared = e.load_at(entry, SHARED, I64)
    is_file = e.icmp_unsigned("!=", e.and_(shared, _c(FILE)), _c(0))
    return e.rare(is_file, lambda: is_beyond(e, t, shared), ir.Constant(I1, 0))
