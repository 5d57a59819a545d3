"""Memory accesses of regions: near ones, to a page that their site remembers, and far ones.

A near access is a comparison and a load or store, in line. A far one calls a function that finds the page,
makes the access and tells what to remember (`kvrm.backend.gpu.far`). In line, both take some fifty of the
GPU's instructions, and what does not fit into its instruction cache costs more than that: only few regions
have near accesses (`kvrm.backend.gpu.region_plan.ALL`), and handlers none.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from kvrm.backend.gpu import far, group_memory
from kvrm.backend.gpu.device_abi import pointer
from kvrm.backend.gpu.far import DONE, REFUSED, WORD
from kvrm.backend.gpu.group_memory import OWN_STRIDE, inside, offset_of
from kvrm.engine.interpreter.abi import unlikely
from kvrm.staging.emitter import I1, I64, Emitter


def _c(value: int) -> ir.Constant:
    return ir.Constant(I64, value & (1 << 64) - 1)


@dataclass(frozen=True, slots=True)
class Site:
    """Where an access of a region finds the page that it last used; each is a stack slot.

    They hold a page number, and what a far access returned.
    """

    page: ir.Value
    base: ir.Value

    def forget(self, e: Emitter) -> None:
        e.store(_c(-1), self.page)


def read(
    e: Emitter, own: ir.Value, address: ir.Value, t: ir.Type, site: Site | None
) -> tuple[ir.Value, ir.Value]:
    """A little-endian `t`, and whether it was refused; without a `site` it is far."""
    if site is None:
        status, value = far.read(e, own, address, t)
        return value, e.icmp_unsigned("==", status, _c(REFUSED))
    near, away, done = (e.append_basic_block(name) for name in ("near", "far", "read"))
    unlikely(e.cbranch(_hits(e, address, t.width // 8, site), near, away))
    e.position_at_end(near)
    where, stride = place(e, e.load(site.base, typ=I64), address)
    value = group_memory.join(
        e, t, [e.load(pointer(e, p), typ=w) for p, w in group_memory.words(e, where, stride, t)]
    )
    e.branch(done)
    e.position_at_end(away)
    status, other = far.read(e, own, address, t)
    _remember(e, address, status, site)
    after = e.block
    e.branch(done)
    e.position_at_end(done)
    return _either(e, value, near, other, after), _refused(e, near, status, after)


def write(
    e: Emitter, own: ir.Value, address: ir.Value, value: ir.Value, site: Site | None
) -> tuple[ir.Value, ir.Value]:
    """Store `value`; whether it was done by a far access, and whether it was refused.

    A far access may give the lane its own copy of a page.
    """
    if site is None:
        status = far.write(e, own, address, value)
        return ir.Constant(I1, 1), e.icmp_unsigned("==", status, _c(REFUSED))
    t = value.type
    near, away, done = (e.append_basic_block(name) for name in ("near", "far", "written"))
    unlikely(e.cbranch(_hits(e, address, t.width // 8, site), near, away))
    e.position_at_end(near)
    where, _ = place(e, e.load(site.base, typ=I64), address)
    for i, (p, w) in enumerate(group_memory.words(e, where, _c(OWN_STRIDE), t)):
        part = value if w == t else e.trunc(e.lshr(value, ir.Constant(t, 64 * i)), w)
        e.store(part, pointer(e, p))
    e.branch(done)
    e.position_at_end(away)
    status = far.write(e, own, address, value)
    _remember(e, address, status, site)
    after = e.block
    e.branch(done)
    e.position_at_end(done)
    return _either(e, ir.Constant(I1, 0), near, ir.Constant(I1, 1), after), _refused(e, near, status, after)


def _hits(e: Emitter, address: ir.Value, size: int, site: Site) -> ir.Value:
    """Whether an access lies in whole words (one, if it is small) of the page that is remembered."""
    if not group_memory.fast(size):
        return ir.Constant(I1, 0)
    hit = e.icmp_unsigned("==", e.lshr(address, _c(12)), e.load(site.page, typ=I64))
    return e.and_(hit, group_memory.is_easy(e, offset_of(e, address), size))


def place(e: Emitter, base: ir.Value, address: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Where an address is on the device, and how far the next word is; `base` as far accesses return it."""
    stride = e.select(e.trunc(base, I1), _c(OWN_STRIDE), _c(WORD))
    return e.add(e.and_(base, _c(-2)), inside(e, offset_of(e, address), stride)), stride


def _remember(e: Emitter, address: ir.Value, status: ir.Value, site: Site) -> None:
    known = e.icmp_unsigned(">", status, _c(DONE))
    e.store(e.select(known, e.lshr(address, _c(12)), _c(-1)), site.page)
    e.store(status, site.base)


def _either(e: Emitter, one: ir.Value, there: ir.Block, other: ir.Value, elsewhere: ir.Block) -> ir.Value:
    value = e.phi(one.type)
    value.add_incoming(one, there)
    value.add_incoming(other, elsewhere)
    return value


def _refused(e: Emitter, near: ir.Block, status: ir.Value, after: ir.Block) -> ir.Value:
    return e.icmp_unsigned("==", _either(e, _c(DONE), near, status, after), _c(REFUSED))
