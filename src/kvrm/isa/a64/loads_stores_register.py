"""Loads and stores of one register (Arm ARM C4.1.88).

The immediate (scaled, post-index, pre-index), unscaled, unprivileged, register and literal forms, and PRFM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvrm.isa.a64.branches import relative
from kvrm.isa.assembly import EXTENDS, general, number, printer, signed_field
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Execution, Static, insn
from kvrm.values import Bits

EXECUTION = Execution.LOAD_STORE

Access = Callable[[Context, Bits, Bits], None]
"""Moves a value between memory at an address (64 bits) and the register with a number (5 bits)."""


@dataclass(frozen=True)
class Transfer:
    """What moves, and under which names.

    `names` are those of the scaled, the unscaled and the unprivileged forms, "" where there is none. `size`,
    `vector` and `opc` are the fields of the encoding, `register` is the letter of the transferred register.
    """

    names: tuple[str, str, str]
    size: str
    vector: str
    opc: str
    register: str
    access: Access

    @property
    def scale(self) -> int:
        """Binary logarithm of the number of bytes."""
        return int(self.opc[0] + self.size, 2) if self.vector == "1" else int(self.size, 2)

    def base(self, m: Context, Rn: Bits) -> Bits:
        """What offsets are added to. A prefetch never faults, whatever SP is."""
        return m.xsp[Rn, 64] if self is PREFETCH else m.base[Rn]


def _load(size: int, width: int = 32) -> Access:
    def access(m: Context, address: Bits, Rt: Bits) -> None:
        m.x[Rt, width] = m.mem[address, size].zext(width)

    return access


def _load_signed(size: int, width: int) -> Access:
    def access(m: Context, address: Bits, Rt: Bits) -> None:
        m.x[Rt, width] = m.mem[address, size].sext(width)

    return access


def _store(size: int) -> Access:
    def access(m: Context, address: Bits, Rt: Bits) -> None:
        m.mem[address, size] = m.x[Rt, size]

    return access


def _load_vector(size: int) -> Access:
    def access(m: Context, address: Bits, Rt: Bits) -> None:
        m.v[Rt, size] = m.mem[address, size]

    return access


def _store_vector(size: int) -> Access:
    def access(m: Context, address: Bits, Rt: Bits) -> None:
        m.mem[address, size] = m.v[Rt, size]

    return access


def _prefetch(m: Context, address: Bits, Rt: Bits) -> None:
    """A hint without effect: it never faults."""


TRANSFERS = (
    Transfer(("STRB", "STURB", "STTRB"), "00", "0", "00", "w", _store(8)),
    Transfer(("LDRB", "LDURB", "LDTRB"), "00", "0", "01", "w", _load(8)),
    Transfer(("LDRSB", "LDURSB", "LDTRSB"), "00", "0", "10", "x", _load_signed(8, 64)),
    Transfer(("LDRSB", "LDURSB", "LDTRSB"), "00", "0", "11", "w", _load_signed(8, 32)),
    Transfer(("STRH", "STURH", "STTRH"), "01", "0", "00", "w", _store(16)),
    Transfer(("LDRH", "LDURH", "LDTRH"), "01", "0", "01", "w", _load(16)),
    Transfer(("LDRSH", "LDURSH", "LDTRSH"), "01", "0", "10", "x", _load_signed(16, 64)),
    Transfer(("LDRSH", "LDURSH", "LDTRSH"), "01", "0", "11", "w", _load_signed(16, 32)),
    Transfer(("STR", "STUR", "STTR"), "10", "0", "00", "w", _store(32)),
    Transfer(("LDR", "LDUR", "LDTR"), "10", "0", "01", "w", _load(32)),
    Transfer(("LDRSW", "LDURSW", "LDTRSW"), "10", "0", "10", "x", _load_signed(32, 64)),
    Transfer(("STR", "STUR", "STTR"), "11", "0", "00", "x", _store(64)),
    Transfer(("LDR", "LDUR", "LDTR"), "11", "0", "01", "x", _load(64, 64)),
    Transfer(("STR", "STUR", ""), "00", "1", "00", "b", _store_vector(8)),
    Transfer(("LDR", "LDUR", ""), "00", "1", "01", "b", _load_vector(8)),
    Transfer(("STR", "STUR", ""), "01", "1", "00", "h", _store_vector(16)),
    Transfer(("LDR", "LDUR", ""), "01", "1", "01", "h", _load_vector(16)),
    Transfer(("STR", "STUR", ""), "10", "1", "00", "s", _store_vector(32)),
    Transfer(("LDR", "LDUR", ""), "10", "1", "01", "s", _load_vector(32)),
    Transfer(("STR", "STUR", ""), "11", "1", "00", "d", _store_vector(64)),
    Transfer(("LDR", "LDUR", ""), "11", "1", "01", "d", _load_vector(64)),
    Transfer(("STR", "STUR", ""), "00", "1", "10", "q", _store_vector(128)),
    Transfer(("LDR", "LDUR", ""), "00", "1", "11", "q", _load_vector(128)),
)
PREFETCH = Transfer(("PRFM", "PRFUM", ""), "11", "0", "10", "prfop", _prefetch)

# -- Assembly --------------------------------------------------------------------------------------------

PREFETCHES = tuple(
    f"p{kind}l{level}{policy}"
    for kind in ("ld", "li", "st")
    for level in "123"
    for policy in ("keep", "strm")
)


def register_name(letter: str, r: int) -> str:
    """Name of a transferred register by its letter: general for w and x, SIMD&FP for b, h, s, d and q."""
    return general(r, int(letter == "x")) if letter in "wx" else f"{letter}{r}"


def _prefetch_operation(r: int) -> str:
    return number(r) if r & 7 > 5 or r > 23 else PREFETCHES[(r >> 3) * 6 + (r & 7)]


def _transfer(d: Decoded) -> Transfer:
    found: Transfer = d.definition.bound["transfer"]
    return found


@printer
def transferred(d: Decoded, r: int) -> str:
    """The register of a load or store, or the operation of a prefetch."""
    letter = _transfer(d).register
    return _prefetch_operation(r) if letter == "prfop" else register_name(letter, r)


@printer
def scaled12(d: Decoded, v: int) -> str:
    """Nothing, or a comma and the unsigned scaled offset."""
    return f", {number(v << _transfer(d).scale)}" if v else ""


@printer
def simm9(d: Decoded, v: int) -> str:
    """A signed 9-bit immediate."""
    return number(signed_field(v, 9))


@printer
def offset9(d: Decoded, v: int) -> str:
    """Nothing, or a comma and the signed offset."""
    return f", {simm9(d, v)}" if v else ""


@printer
def index(d: Decoded, r: int) -> str:
    """The offset register and its extension."""
    amount = f" #{_transfer(d).scale}" if d.S else ""
    name = general(r, d.option & 1)
    if d.option == 0b011:
        return f"{name}, lsl{amount}" if d.S else name
    return f"{name}, {EXTENDS[d.option]}{amount}"


# -- Operations ------------------------------------------------------------------------------------------


def extended(m: Context, Rm: Bits, option: int) -> Bits:
    """ExtendReg() of an offset register, before the shift."""
    if option & 1:
        return m.x[Rm, 64]
    word = m.x[Rm, 32]
    return word.sext(64) if option == 0b110 else word.zext(64)


def unsigned_offset(m: Context, imm12: Bits, Rn: Bits, Rt: Bits, transfer: Transfer) -> None:
    """[Xn, #pimm]."""
    transfer.access(m, transfer.base(m, Rn) + imm12.zext(64).lsl(transfer.scale), Rt)


def signed_offset(m: Context, imm9: Bits, Rn: Bits, Rt: Bits, transfer: Transfer) -> None:
    """[Xn, #simm]; the unprivileged forms are ordinary accesses at EL0."""
    transfer.access(m, transfer.base(m, Rn) + imm9.sext(64), Rt)


def post_index(m: Context, imm9: Bits, Rn: Bits, Rt: Bits, transfer: Transfer) -> None:
    """[Xn], #simm; where Rt is Rn too (CONSTRAINED UNPREDICTABLE for loads), the address wins."""
    address = m.base[Rn]
    transfer.access(m, address, Rt)
    m.xsp[Rn, 64] = address + imm9.sext(64)


def pre_index(m: Context, imm9: Bits, Rn: Bits, Rt: Bits, transfer: Transfer) -> None:
    """[Xn, #simm]!, the address written back."""
    address = m.base[Rn] + imm9.sext(64)
    transfer.access(m, address, Rt)
    m.xsp[Rn, 64] = address


def register_offset(
    m: Context, Rm: Bits, option: Static, S: Static, Rn: Bits, Rt: Bits, transfer: Transfer
) -> None:
    """[Xn, Rm{, extend {#amount}}]."""
    offset = extended(m, Rm, option).lsl(transfer.scale if S else 0)
    transfer.access(m, transfer.base(m, Rn) + offset, Rt)


def literal(m: Context, imm19: Bits, Rt: Bits, transfer: Transfer) -> None:
    """A label: no register is involved in the address."""
    transfer.access(m, relative(m, imm19), Rt)


# -- Definitions -----------------------------------------------------------------------------------------


def writes_back_itself(d: Decoded) -> bool:
    """Whether the written-back base is a transferred register too, which is CONSTRAINED UNPREDICTABLE."""
    general_registers = d.definition.bound["transfer"].vector == "0"
    return general_registers and d.Rn != 31 and d.Rn in (d.Rt, d.fields.get("Rt2"))


def _form(
    t: Transfer, name: str, kind: str, diagram: str, operand: str, operation: Callable[..., None]
) -> None:
    mnemonic = name.split()[0].lower()
    insn(
        name,
        f"{t.size} 111 {t.vector} {diagram} Rn:5 Rt:5",
        f"{mnemonic} {{Rt:transferred}}, {operand}",
        key=f"{mnemonic}_{t.register}_{kind}",
        unallocated="option=x0x" if kind == "register" else "",
        unpredictable=writes_back_itself if kind in ("post", "pre") else None,
        transfer=t,
    )(operation)


def _define(t: Transfer) -> None:
    scaled, unscaled, unprivileged = t.names
    simd = ", SIMD&FP" if t.vector == "1" else ""
    immediate, unsigned = f"{scaled} (immediate{simd})", f"01 {t.opc} imm12:12"
    _form(t, immediate, "unsigned", unsigned, "[{Rn:Xsp}{imm12:scaled12}]", unsigned_offset)
    extended_register = f"00 {t.opc} 1 Rm:5 option:3 S 10"
    _form(
        t,
        f"{scaled} (register{simd})",
        "register",
        extended_register,
        "[{Rn:Xsp}, {Rm:index}]",
        register_offset,
    )
    signed, offset = f"00 {t.opc} 0 imm9:9", "[{Rn:Xsp}{imm9:offset9}]"
    _form(t, unscaled, "unscaled", f"{signed} 00", offset, signed_offset)
    if unprivileged:
        _form(t, unprivileged, "unprivileged", f"{signed} 10", offset, signed_offset)
    if t is not PREFETCH:
        _form(t, immediate, "post", f"{signed} 01", "[{Rn:Xsp}], {imm9:simm9}", post_index)
        _form(t, immediate, "pre", f"{signed} 11", "[{Rn:Xsp}, {imm9:simm9}]!", pre_index)


for _t in (*TRANSFERS, PREFETCH):
    _define(_t)

for _name, _opc, _vector, _letter in (
    ("LDR (literal)", "00", "0", "w"),
    ("LDR (literal)", "01", "0", "x"),
    ("LDRSW (literal)", "10", "0", "x"),
    ("PRFM (literal)", "11", "0", "prfop"),
    ("LDR (literal, SIMD&FP)", "00", "1", "s"),
    ("LDR (literal, SIMD&FP)", "01", "1", "d"),
    ("LDR (literal, SIMD&FP)", "10", "1", "q"),
):
    _mnemonic = _name.split()[0]
    insn(
        _name,
        f"{_opc} 011 {_vector} 00 imm19:19 Rt:5",
        f"{_mnemonic.lower()} {{Rt:transferred}}, {{imm19:label19}}",
        key=f"{_mnemonic.lower()}_{_letter}_literal",
        transfer=next(t for t in (*TRANSFERS, PREFETCH) if t.names[0] == _mnemonic and t.register == _letter),
    )(literal)
