"""A machine that only notes which registers, flags and memory an instruction touches.

It is also the import-time check: a definition that passes the probe for all its static field values uses
values in a way that every engine understands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvrm.isa.context import Context, Flags, System
from kvrm.isa.definition import Decoded, Definition, DefinitionError
from kvrm.lane.stops import Reason
from kvrm.values import Bits, Lift, Node, Primitive, StagingError


@dataclass(slots=True)
class Effects:
    """What one instruction does.

    Registers are numbers (31 in `x_*` is never noted: the zero register has no effects; "sp" is SP) or, when
    the probe ran over a definition rather than a word, field names. `memory` lists ("read" or "write", bits).
    """

    x_read: list[int | str] = field(default_factory=list)
    x_written: list[int | str] = field(default_factory=list)
    v_read: list[int | str] = field(default_factory=list)
    v_written: list[int | str] = field(default_factory=list)
    flags_read: bool = False
    flags_written: bool = False
    system_read: list[System] = field(default_factory=list)
    system_written: list[System] = field(default_factory=list)
    memory: list[tuple[str, int]] = field(default_factory=list)
    branches: bool = False
    event: Reason | None = None


class _Unknown(Node):
    """A value that the probe does not know; a field's leaf knows its name."""

    __slots__ = ("name",)

    def __init__(self, probe: Probe, name: str | None = None) -> None:
        self.stage, self.name = probe, name


class Probe(Context):
    """Runs a definition over unknown values and notes its effects."""

    level = 2

    def __init__(self) -> None:
        super().__init__()
        self.effects = Effects()

    def apply(
        self, row: Primitive, width: int, lanes: int, args: Sequence[Bits], attrs: tuple[Any, ...]
    ) -> Node:
        """Everything computed from an unknown value is unknown."""
        return _Unknown(self)

    def leaf(self, name: str, width: int) -> Bits:
        """An unknown field."""
        return Bits(width, _Unknown(self, name))

    def _unknown(self, width: int) -> Bits:
        return Bits(width, _Unknown(self))

    def _register(self, r: Bits, sp: bool = False) -> int | str | None:
        p = r.payload
        if isinstance(p, _Unknown):
            return p.name or "computed"
        assert isinstance(p, int)
        return ("sp" if sp else None) if p == 31 else p

    @property
    def pc(self) -> Bits:
        return self._unknown(64)

    @property
    def fpcr(self) -> int:
        """Noted as read; zero."""
        self.effects.system_read.append(System.FPCR)
        return 0

    @property
    def retired(self) -> Bits:
        return self._unknown(64)

    def read_x(self, r: Bits, n: int, sp: bool) -> Bits:
        if (name := self._register(r, sp)) is not None:
            self.effects.x_read.append(name)
        return self._unknown(n)

    def write_x(self, r: Bits, value: Bits, sp: bool) -> None:
        if (name := self._register(r, sp)) is not None:
            self.effects.x_written.append(name)

    def read_v(self, r: Bits, n: int) -> Bits:
        p = r.payload
        self.effects.v_read.append(p if isinstance(p, int) else self._register(r) or 0)
        return self._unknown(n)

    def write_v(self, r: Bits, value: Bits) -> None:
        p = r.payload
        self.effects.v_written.append(p if isinstance(p, int) else self._register(r) or 0)

    def read_flags(self) -> Flags:
        self.effects.flags_read = True
        return self._unknown(1), self._unknown(1), self._unknown(1), self._unknown(1)

    def write_flags(self, nzcv: Flags) -> None:
        if len(nzcv) != 4 or any(f.width != 1 for f in nzcv):
            raise StagingError("flags are four values of one bit")
        self.effects.flags_written = True

    def read_memory(self, address: Bits, n: int) -> Bits:
        _check_access(address, n)
        self.effects.memory.append(("read", n))
        return self._unknown(n)

    def write_memory(self, address: Bits, value: Bits, condition: Bits | None) -> None:
        _check_access(address, value.width)
        self.effects.memory.append(("write", value.width))

    def require_aligned(self, address: Bits, size: int, store: bool) -> None:
        """No effect."""

    def require_sp_aligned(self, r: Bits, address: Bits) -> None:
        """No effect."""

    def read_system(self, register: System) -> Bits:
        self.effects.system_read.append(register)
        return self._unknown(64)

    def write_system(self, register: System, value: Bits) -> None:
        if value.width != 64:
            raise StagingError("a system register has 64 bits")
        self.effects.system_written.append(register)

    def branch(self, target: Bits, condition: Bits | None = None) -> None:
        if target.width != 64 or (condition is not None and condition.width != 1):
            raise StagingError("a branch takes a 64-bit target and a one-bit condition")
        self.effects.branches = True

    def event(self, event: Reason, value: Lift = 0) -> None:
        self.effects.event = event


def _check_access(address: Bits, n: int) -> None:
    if address.width != 64 or n % 8 or not 8 <= n <= 512:
        raise StagingError(f"a memory access of {n} bits at a {address.width}-bit address")


def effects_of(d: Decoded) -> Effects:
    """The effects of one decoded word; registers are numbers."""
    probe = Probe()
    d.definition.run(probe, d.operands())
    return probe.effects


def check(definitions: Iterable[Definition]) -> None:
    """Run every variant of every definition on the probe; DefinitionError names file and line."""
    from kvrm.isa import assembly

    for d in definitions:
        for asm in (d.asm, *(a.asm for a in d.aliases)):
            assembly.check(asm)
        for statics in d.variants():
            probe = Probe()
            known = dict(zip((f.name for f in d.statics), statics, strict=True))
            fields = {
                f.name: known[f.name] if f.name in known else probe.leaf(f.name, f.width)
                for f in d.parameters
            }
            try:
                d.run(probe, fields)
            except Exception as error:
                where = _innermost(error, d)
                raise DefinitionError(
                    f"{where}: {d.name} {known or ''}: {type(error).__name__}: {error}"
                ) from error


def _innermost(error: BaseException, d: Definition) -> str:
    """file:line of the deepest frame that is in the definition's own file."""
    file = d.source.rpartition(":")[0]
    where, tb = d.source, error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == d.operation.__code__.co_filename:
            where = f"{file}:{tb.tb_lineno}"
        tb = tb.tb_next
    return where
