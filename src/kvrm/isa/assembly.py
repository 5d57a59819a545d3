"""Assembly text: templates of ``{field:printer}``, in the house style of common disassemblers.

Numbers up to 9 are decimal, larger ones hexadecimal; branch targets and addresses are absolute.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from kvrm.isa.decoder import decode
from kvrm.isa.definition import Asm, Decoded, DefinitionError

CONDITIONS = ("eq", "ne", "hs", "lo", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le", "al", "nv")
SHIFTS = ("lsl", "lsr", "asr", "ror")
EXTENDS = ("uxtb", "uxth", "uxtw", "uxtx", "sxtb", "sxth", "sxtw", "sxtx")

Printer = Callable[[Decoded, int], str]
PRINTERS: dict[str, Printer] = {}


def printer(function: Printer) -> Printer:
    """Register a printer under its function's name, without a trailing underscore."""
    PRINTERS[function.__name__.rstrip("_")] = function
    return function


def number(value: int) -> str:
    """An immediate: ``#5``, ``#0x10``, ``#-0x10``."""
    text = f"{abs(value):#x}" if abs(value) > 9 else str(abs(value))
    return f"#-{text}" if value < 0 else f"#{text}"


def signed_field(value: int, width: int) -> int:
    """Two's complement reading of a field."""
    return value - (1 << width) if value >> (width - 1) else value


def general(r: int, wide: int, sp: bool = False) -> str:
    """A general register's name."""
    if r == 31:
        return ("sp" if wide else "wsp") if sp else ("xzr" if wide else "wzr")
    return f"{'x' if wide else 'w'}{r}"


@printer
def W(d: Decoded, v: int) -> str:
    """32-bit general register or wzr."""
    return general(v, 0)


@printer
def X(d: Decoded, v: int) -> str:
    """64-bit general register or xzr."""
    return general(v, 1)


@printer
def R(d: Decoded, v: int) -> str:
    """General register, its size by `sf`."""
    return general(v, d.sf)


@printer
def Rsp(d: Decoded, v: int) -> str:
    """General register or stack pointer, its size by `sf`."""
    return general(v, d.sf, sp=True)


@printer
def Xsp(d: Decoded, v: int) -> str:
    """64-bit general register or sp."""
    return general(v, 1, sp=True)


@printer
def imm(d: Decoded, v: int) -> str:
    return number(v)


@printer
def cond_(d: Decoded, v: int) -> str:
    return CONDITIONS[v]


@printer
def inverted(d: Decoded, v: int) -> str:
    """Inverted condition (cset, cinc, ...)."""
    return CONDITIONS[v ^ 1]


@printer
def shift_(d: Decoded, v: int) -> str:
    return SHIFTS[v]


@functools.cache
def _compiled(template: str) -> list[tuple[str, str, Printer | None]]:
    """(literal text before, field, printer) for each part of a template."""
    parts: list[tuple[str, str, Printer | None]] = []
    at = 0
    for hole in re.finditer(r"\{(\w*)(?::(\w+))?\}", template):
        name = hole[2]
        if name is not None and name not in PRINTERS:
            raise DefinitionError(f"no printer {name!r} for {template!r}")
        parts.append((template[at : hole.start()], hole[1], PRINTERS[name] if name else None))
        at = hole.end()
    parts.append((template[at:], "", None))
    return parts


def render(asm: Asm, d: Decoded) -> str:
    """The text of a decoded word by one template or function."""
    if not isinstance(asm, str):
        return asm(d)
    out = []
    for text, field, show in _compiled(asm):
        out.append(text)
        if show is not None:
            out.append(show(d, d.fields[field] if field else 0))
        elif field:
            out.append(str(d.fields[field]))
    return "".join(out)


def text_of(d: Decoded) -> str:
    """The preferred assembly text of a decoded word."""
    for alias in d.definition.aliases:
        if alias.when(d):
            return render(alias.asm, d)
    return render(d.definition.asm, d)


def disassemble(word: int, pc: int = 0) -> str | None:
    """Assembly text of a word at an address, or None if it is not allocated."""
    d = decode(word, pc)
    return None if d is None else text_of(d)


def check(definition_asm: Asm) -> None:
    """Raise DefinitionError if a template names a printer that does not exist."""
    if isinstance(definition_asm, str):
        _compiled(definition_asm)
