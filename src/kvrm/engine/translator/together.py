"""Accesses of a block that are checked at once, before any of its instructions has run.

Accesses whose addresses differ by constants from one sum of registers form a group, which has a site.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from kvrm.engine.interpreter.abi import unlikely
from kvrm.engine.interpreter.memory_access import PERMISSION, allowed_page
from kvrm.engine.translator.linear import linear
from kvrm.engine.translator.registers import Registers
from kvrm.memory import PAGE
from kvrm.staging.emitter import I64, PTR, Emitter, i64
from kvrm.values import Bits

WIDEST = 512
"""Bytes of a group. Where less is left of a page, each access is checked by itself."""
MOST = 8
"""Groups of a block."""


class Site:
    """What is remembered of the page that accesses last lay on, in three slots.

    They are the page's guest address, the distance from guest to host addresses on it, and how far into it
    an access may begin (0 while nothing is remembered).
    """

    def __init__(self, registers: Registers, name: str) -> None:
        self.page, self.distance, self.limit = (
            registers.slot(f"{part}_{name}", I64, i64(0)) for part in ("page", "distance", "limit")
        )

    def remember(self, e: Emitter, address: ir.Value, host: ir.Value, offset: ir.Value, size: int) -> None:
        """From now on it is the page at `host`, `offset` bytes into which `address` is."""
        guest = e.sub(address, offset)
        e.store(guest, self.page)
        e.store(e.sub(host, guest), self.distance)
        e.store(i64(PAGE - size + 1), self.limit)


@dataclass(slots=True)
class _Group:
    site: Site
    first: int
    end: int
    needs: int = 0
    accesses: int = 0


class Together:
    """The groups of one block under construction, named after it."""

    def __init__(self, e: Emitter, registers: Registers, table: ir.Value, name: str) -> None:
        self._e, self._registers, self._table, self._name = e, registers, table, name
        self._groups: dict[tuple[tuple[int, int], ...], _Group] = {}

    def host(self, address: Bits, where: ir.Value, size: int, access: str) -> ir.Value | None:
        """The host address of `where`, which `address` is; None if a check of its own is needed."""
        form = linear(address, self._registers.origin)
        if form is None:
            return None
        group = self._groups.get(form.terms)
        if group is None:
            if len(self._groups) >= MOST:
                return None
            group = self._groups[form.terms] = self._new(form.constant)
        first, end = min(group.first, form.constant), max(group.end, form.constant + size)
        if end - first > WIDEST:
            return None
        group.first, group.end = first, end
        group.needs |= PERMISSION[access]
        group.accesses += 1
        return self._e.inttoptr(self._e.add(where, self._e.load(group.site.distance, typ=I64)), PTR)

    @property
    def steady(self) -> bool:
        """Whether another iteration of the block would access the same groups, by constants further on."""
        registers = {register for terms in self._groups for register, _ in terms}
        return all(map(self._advances, registers))

    @property
    def saves(self) -> bool:
        """Whether there are fewer checks than accesses."""
        return any(group.accesses > 1 for group in self._groups.values())

    def _advances(self, register: int) -> bool:
        now = linear(self._registers.x(register), self._registers.origin)
        return now is not None and now.terms == ((register, 1),)

    def _new(self, at: int) -> _Group:
        return _Group(Site(self._registers, f"{self._name}_{len(self._groups)}"), at, at)

    def check(self, fail: ir.Block) -> None:
        """Go on where all groups may be accessed, with `registers` as the block begins; else to `fail`."""
        for terms, group in self._groups.items():
            self._check(self._sum(terms, group.first), group, fail)

    def _sum(self, terms: tuple[tuple[int, int], ...], constant: int) -> ir.Value:
        e = self._e
        total: ir.Value = i64(constant)
        for register, times in terms:
            total = e.add(e.mul(self._registers.at_entry(register), i64(times)), total)
        return total

    def _check(self, address: ir.Value, group: _Group, fail: ir.Block) -> None:
        e, site = self._e, group.site
        offset = e.sub(address, e.load(site.page, typ=I64))
        walk, good = e.append_basic_block("walk"), e.append_basic_block("good")
        unlikely(e.cbranch(e.icmp_unsigned(">=", offset, e.load(site.limit, typ=I64)), walk, good))
        e.position_at_end(walk)
        size = group.end - group.first
        host, offset = allowed_page(e, self._table, address, group.needs, size, fail)
        site.remember(e, address, host, offset, size)
        e.branch(good)
        e.position_at_end(good)
