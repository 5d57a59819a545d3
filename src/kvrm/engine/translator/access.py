"""Memory accesses of a region: each site remembers the page that it last used.

A site is a pair of SSA values, the guest address of a page and its host address. An access within that page
costs a subtraction, a comparison and a branch that is predicted; its latency is that of the subtraction. Any
other walks the page table, as the interpreter does, and the site remembers what it found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from kvrm.engine.emitter import I64, PTR, Emitter
from kvrm.engine.interpreter.abi import unlikely
from kvrm.engine.interpreter.memory import PERMISSION
from kvrm.engine.translator.registers import Registers
from kvrm.isa.definition import Decoded
from kvrm.machine import state as layout
from kvrm.memory import PAGE, VA_BITS

NOWHERE = 1 << 63
"""A page that no address is on, the top byte of one being ignored: what a site remembers at first."""


def _c(value: int) -> ir.Constant:
    return ir.Constant(I64, value & (1 << 64) - 1)


@dataclass(frozen=True, slots=True)
class _Site:
    page: ir.Value
    host: ir.Value


class Accesses:
    """The sites of a region under construction."""

    def __init__(self, stage: Any, e: Emitter, registers: Registers) -> None:
        self._stage, self._e, self._registers = stage, e, registers
        self._table = e.load_at(stage.state, layout.PAGE_TABLE, PTR)
        self._key = ""

    def begin(self, d: Decoded) -> None:
        """The instruction that accesses come from: those with one base register share what they remember."""
        base = d.fields.get("Rn", 32)
        index = d.fields.get("Rm", 32)
        self._key = f"{base}_{index}"

    def host(self, address: ir.Value, size: int, access: str) -> ir.Value:
        """The host address of `size` guest bytes on one page; leaves plain unless they may be accessed."""
        e, site = self._e, self._site(access)
        address = e.and_(address, _c((1 << 56) - 1))
        offset = e.sub(address, e.load(site.page, typ=I64))
        hit, walk = e.block, e.append_basic_block("walk")
        done = e.append_basic_block("access")
        unlikely(e.cbranch(e.icmp_unsigned(">", offset, _c(PAGE - size)), walk, done))
        e.position_at_end(walk)
        walked = self._walk(site, address, size, access)
        end = e.block
        e.branch(done)
        e.position_at_end(done)
        within = e.phi(I64)
        within.add_incoming(offset, hit)
        within.add_incoming(walked, end)
        return e.inttoptr(e.add(e.load(site.host, typ=I64), within), PTR)

    def _walk(self, site: _Site, address: ir.Value, size: int, access: str) -> ir.Value:
        """Look the page up and remember it; the offset of the address."""
        e = self._e
        page = e.intrinsic("umin", I64, e.lshr(address, _c(12)), _c(1 << (VA_BITS - 12)))
        entry = e.load_at(self._table, e.shl(page, _c(3)), I64)
        offset = e.and_(address, _c(PAGE - 1))
        denied = e.icmp_unsigned("==", e.and_(entry, _c(PERMISSION[access])), _c(0))
        over = e.icmp_unsigned(">", offset, _c(PAGE - size))
        fail, good = e.append_basic_block("fail"), e.append_basic_block("good")
        unlikely(e.cbranch(e.or_(denied, over), fail, good))
        e.position_at_end(fail)
        self._stage.leave_plain()
        e.position_at_end(good)
        e.store(e.sub(address, offset), site.page)
        e.store(e.and_(entry, _c(-PAGE)), site.host)
        return offset

    def _site(self, access: str) -> _Site:
        name = f"{access}{self._key}"
        slot = self._registers.slot
        return _Site(slot(f"page{name}", I64, _c(NOWHERE)), slot(f"host{name}", I64, _c(0)))
