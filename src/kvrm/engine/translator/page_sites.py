"""Memory accesses of a region: in a loop, each site remembers the page that it last used.

An access within the page of its site (`kvrm.engine.translator.together.Site`) costs a subtraction, a
comparison and a branch that is predicted. Any other walks the page table, as the interpreter does, and the
site remembers what it found. Most pages of a lane lie in the host as they do in the guest
(`kvrm.memory.pages.PagePool`): a walk guesses that the distance is what it last was, so that the access need
not wait for the table.

Only the first sites remember, those of the hottest blocks: values that live through a large function cost
more than they save. All others walk, and so do all of a region without a loop, but for those at SP.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kvrm.engine.interpreter.abi import unlikely
from kvrm.engine.interpreter.memory_access import PERMISSION, allowed_page, page_table
from kvrm.engine.translator.registers import Registers
from kvrm.engine.translator.together import Site, Together
from kvrm.isa.definition import Decoded
from kvrm.staging.emitter import I64, PTR, Emitter
from kvrm.values import Bits

SITES = 8
"""Sites that remember. Each holds three values through the whole region: with 24, busybox gzip takes 10 %
longer than with 8, since they spill; with none, coremix takes 25 % longer (docs/design/translator.md)."""
STACK = 64
"""Bytes of the largest access: what sites at SP, which share, leave at the end of their page."""


class Accesses:
    """The sites of a region under construction; `loops` says whether control stays in one of its loops."""

    def __init__(self, stage: Any, e: Emitter, registers: Registers, loops: bool) -> None:
        self._stage, self._e, self._registers = stage, e, registers
        self._most = SITES if loops else 0
        self._table = page_table(e, stage.state)
        self._base = self._index = 32
        self._sites: dict[str, Site] = {}
        self._together: Together | None = None

    def begin(self, d: Decoded) -> None:
        """The instruction that accesses come from: those with the same address registers share a site."""
        self._base, self._index = d.fields.get("Rn", 32), d.fields.get("Rm", 32)

    @property
    def registers(self) -> tuple[int, int]:
        """The address registers of the present instruction, 32 for none."""
        return self._base, self._index

    def together(self, name: str) -> Together:
        """From now on accesses are checked together where that can be; `single` ends it."""
        self._together = Together(self._e, self._registers, self._table, name)
        return self._together

    def single(self) -> None:
        """From now on each access is checked by itself."""
        self._together = None

    def host(self, guest: Bits, size: int, access: str) -> ir.Value:
        """The host address of `size` guest bytes on one page; leaves plain unless they may be accessed."""
        address: ir.Value = self._stage.value(guest)
        if self._together is not None:
            checked = self._together.host(guest, address, size, access)
            if checked is not None:
                return checked
        self._stage.settle()
        e, site = self._e, self._site(size, access)
        if site is None:
            return e.inttoptr(self._walk(None, address, size, access), PTR)
        offset = e.sub(address, e.load(site.page, typ=I64))
        near = e.add(address, e.load(site.distance, typ=I64))
        hit, walk = e.block, e.append_basic_block("walk")
        done = e.append_basic_block("access")
        unlikely(e.cbranch(e.icmp_unsigned(">=", offset, e.load(site.limit, typ=I64)), walk, done))
        e.position_at_end(walk)
        guess = self._hidden(near)
        found = self._walk(site, address, size, access)
        other, walked = e.append_basic_block("other"), e.block
        unlikely(e.cbranch(e.icmp_unsigned("!=", guess, found), other, done))
        e.position_at_end(other)
        e.branch(done)
        e.position_at_end(done)
        where = e.phi(I64)
        for value, block in ((near, hit), (guess, walked), (found, other)):
            where.add_incoming(value, block)
        return e.inttoptr(where, PTR)

    def _hidden(self, value: ir.Value) -> ir.Value:
        """The same value, as an assembly of which the optimiser does not know that.

        Where the guess is right it equals what the table says. Without this LLVM uses the table's value
        there, and the access waits for the table, which is what the guess is to spare it.
        """
        return self._e.asm(ir.FunctionType(I64, [I64]), "", "=r,0", [value], side_effect=False)

    def _walk(self, site: Site | None, address: ir.Value, size: int, access: str) -> ir.Value:
        """The host address by the page table, which a site remembers; the address's top byte is ignored."""
        e = self._e
        fail = e.append_basic_block("fail")
        host, offset = allowed_page(e, self._table, address, PERMISSION[access], size, fail)
        good = e.block
        e.position_at_end(fail)
        self._stage.leave_plain()
        e.position_at_end(good)
        if site is not None:
            site.remember(e, address, host, offset, STACK if self._base == 31 else size)
        return e.or_(host, offset)

    def _site(self, size: int, access: str) -> Site | None:
        name = f"{access}sp" if self._base == 31 else f"{access}{size}_{self._base}_{self._index}"
        if name not in self._sites:
            if len(self._sites) >= self._most and self._base != 31:
                return None
            self._sites[name] = Site(self._registers, name)
        return self._sites[name]
