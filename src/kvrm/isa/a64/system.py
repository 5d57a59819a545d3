"""System instructions and registers (Arm ARM C4.1.87: hints, barriers, PSTATE, system, system register move).

User programs see what Linux lets them see: a few registers, cache maintenance by address, and the ID
registers that the kernel emulates. All else is allocated, named by the disassembler, and undefined at EL0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvrm.isa.a64.loads_stores_exclusive import UNTAGGED, clear_monitor
from kvrm.isa.a64.system_registers import READ, WRITE, fields_of, instruction_name, register_name
from kvrm.isa.assembly import general, number, printer
from kvrm.isa.context import FP16, FP_TRACKING, FPCR_BITS, FPSR_BITS, Context, System
from kvrm.isa.definition import Decoded, Execution, insn
from kvrm.lane.stops import Reason
from kvrm.values import Bits, bits, concat, cond

EXECUTION = Execution.SYSTEM


def _undefined(m: Context) -> None:
    """What EL0 may not do."""
    m.event(Reason.UNDEFINED)


# -- Hints -----------------------------------------------------------------------------------------------

HINTS = dict(enumerate(("nop", "yield", "wfe", "wfi", "sev", "sevl", "dgh", "xpaclri")))
HINTS |= {8: "pacia1716", 10: "pacib1716", 12: "autia1716", 14: "autib1716"}
HINTS |= {16: "esb", 17: "psb csync", 18: "tsb csync", 20: "csdb"}
HINTS |= {24: "paciaz", 25: "paciasp", 26: "pacibz", 27: "pacibsp"}
HINTS |= {28: "autiaz", 29: "autiasp", 30: "autibz", 31: "autibsp"}
HINTS |= {32: "bti", 34: "bti c", 36: "bti j", 38: "bti jc"}


def _hint_text(d: Decoded) -> str:
    hint = d.CRm << 3 | d.op2
    return HINTS.get(hint, f"hint {number(hint)}")


@insn("HINT", "1101010100 0 00 011 0010 CRm:4 op2:3 11111", _hint_text)
def hint(m: Context) -> None:
    """NOP, YIELD, WFE, WFI, SEV, SEVL, and all hints of later extensions, which are NOP without them."""


# -- Barriers --------------------------------------------------------------------------------------------

DOMAINS = {1: "oshld", 2: "oshst", 3: "osh", 5: "nshld", 6: "nshst", 7: "nsh"}
DOMAINS |= {9: "ishld", 10: "ishst", 11: "ish", 13: "ld", 14: "st", 15: "sy"}
DSB_NAMES = {0: "ssbb", 4: "pssbb"}


@printer
def domain(d: Decoded, v: int) -> str:
    """The kind and reach of a barrier."""
    return DOMAINS.get(v) or number(v)


def _dsb_text(d: Decoded) -> str:
    return DSB_NAMES.get(d.CRm, f"dsb {domain(d, d.CRm)}")


def _full(name: str) -> Callable[[Decoded], str]:
    """An instruction that shows CRm only if it is not 15."""
    return lambda d: name if d.CRm == 15 else f"{name} {number(d.CRm)}"


@insn("CLREX", "1101010100 0 00 011 0011 CRm:4 010 11111", _full("clrex"))
def clrex(m: Context) -> None:
    clear_monitor(m)


def _barrier(m: Context) -> None:
    """Lanes run one instruction at a time, in order; new code is announced by IC IVAU."""


insn("DSB", "1101010100 0 00 011 0011 CRm:4 100 11111", _dsb_text, key="dsb")(_barrier)
insn("DMB", "1101010100 0 00 011 0011 CRm:4 101 11111", "dmb {CRm:domain}", key="dmb")(_barrier)
insn("ISB", "1101010100 0 00 011 0011 CRm:4 110 11111", _full("isb"), key="isb")(_barrier)
insn("SB", "1101010100 0 00 011 0011 0000 111 11111", "sb", key="sb", feature="FEAT_SB")(_barrier)

# -- PSTATE ----------------------------------------------------------------------------------------------

for _name, _op1, _op2 in (("spsel", "000", "101"), ("daifset", "011", "110"), ("daifclr", "011", "111")):
    insn(
        "MSR (immediate)",
        f"1101010100 0 00 {_op1} 0100 CRm:4 {_op2} 11111",
        f"msr {_name}, {{CRm:imm}}",
        key=f"msr_{_name}",
    )(_undefined)

# -- System register move --------------------------------------------------------------------------------


def _constant(value: int) -> Read:
    return lambda m: bits(64, value)


def _register(register: System) -> Read:
    return lambda m: m.sys[register]


def _read_nzcv(m: Context) -> Bits:
    return concat(*m.flags, bits(28, 0)).zext(64)


def _write_nzcv(m: Context, value: Bits) -> None:
    m.flags = (value[31], value[30], value[29], value[28])


def _read_fpcr(m: Context) -> Bits:
    return m.sys[System.FPCR] & ~FP_TRACKING


def _write_fpcr(m: Context, value: Bits) -> None:
    fz16 = (m.sys[System.ID_AA64PFR0_EL1] & FP16).lsl(3)
    m.sys[System.FPCR] = m.sys[System.FPCR] & FP_TRACKING | value & (fz16 | FPCR_BITS)


def _write_fpsr(m: Context, value: Bits) -> None:
    m.sys[System.FPSR] = value & FPSR_BITS


def _write_tpidr(m: Context, value: Bits) -> None:
    m.sys[System.TPIDR_EL0] = value


Read = Callable[[Context], Bits]
Write = Callable[[Context, Bits], None]

READABLE: tuple[tuple[str, str, Read], ...] = (
    ("NZCV", "011 0100 0010 000", _read_nzcv),
    ("FPCR", "011 0100 0100 000", _read_fpcr),
    ("FPSR", "011 0100 0100 001", _register(System.FPSR)),
    ("TPIDR_EL0", "011 1101 0000 010", _register(System.TPIDR_EL0)),
    ("TPIDRRO_EL0", "011 1101 0000 011", _register(System.TPIDRRO_EL0)),
    # 64-byte lines, instruction fetch not coherent with data: programs announce new code by IC IVAU
    ("CTR_EL0", "011 0000 0000 001", _constant(0x8444_C004)),
    # DC ZVA clears 2^4 words
    ("DCZID_EL0", "011 0000 0000 111", _constant(4)),
    # one retired instruction is one nanosecond
    ("CNTFRQ_EL0", "011 1110 0000 000", _constant(1_000_000_000)),
    ("CNTVCT_EL0", "011 1110 0000 010", lambda m: m.retired),
    # no implementer, architecture told by the ID registers
    ("MIDR_EL1", "000 0000 0000 000", _constant(0x000F_0000)),
    ("MPIDR_EL1", "000 0000 0000 101", _constant(1 << 31)),
    ("REVIDR_EL1", "000 0000 0000 110", _constant(0)),
)
"""Registers at op0 = 3 that a program may read: name, `op1 CRn CRm op2` and value."""

WRITABLE: tuple[tuple[str, str, Write], ...] = (
    ("NZCV", "011 0100 0010 000", _write_nzcv),
    ("FPCR", "011 0100 0100 000", _write_fpcr),
    ("FPSR", "011 0100 0100 001", _write_fpsr),
    ("TPIDR_EL0", "011 1101 0000 010", _write_tpidr),
)
"""Registers at op0 = 3 that a program may write."""


def _encoding(d: Decoded) -> int:
    return d.word >> 5 & 0xFFFF


@printer
def read_register(d: Decoded, _: int) -> str:
    """The system register that MRS reads."""
    return register_name(_encoding(d), READ)


@printer
def written_register(d: Decoded, _: int) -> str:
    """The system register that MSR writes."""
    return register_name(_encoding(d), WRITE)


MRS, MSR = "mrs {Rt:X}, {:read_register}", "msr {:written_register}, {Rt:X}"


def mrs(m: Context, Rt: Bits, read: Read) -> None:
    """Read a system register."""
    m.x[Rt, 64] = read(m)


def msr(m: Context, Rt: Bits, write: Write) -> None:
    """Write a system register."""
    write(m, m.x[Rt, 64])


for _name, _place, _read in READABLE:
    insn(f"MRS {_name}", f"1101010100 1 11 {_place} Rt:5", MRS, key=f"mrs_{_name.lower()}", read=_read)(mrs)
for _name, _place, _write in WRITABLE:
    insn(f"MSR {_name}", f"1101010100 0 11 {_place} Rt:5", MSR, key=f"msr_{_name.lower()}", write=_write)(msr)

IDENTIFICATION = {
    0o40: System.ID_AA64PFR0_EL1,
    0o60: System.ID_AA64ISAR0_EL1,
    0o61: System.ID_AA64ISAR1_EL1,
}
"""ID registers that the machine's features decide, by CRm and op2."""
CONSTANTS = {
    0o50: 0x6,  # ID_AA64DFR0_EL1: the Armv8.0 debug architecture
    0o70: 0xFF00_0000,  # ID_AA64MMFR0_EL1: granules are the kernel's secret
}
"""Those that Linux shows alike everywhere; all others are zero."""


@insn("MRS ID_AA64*_EL1", "1101010100 1 11 000 0000 01 CRm:2 op2:3 Rt:5", MRS)
def mrs_id(m: Context, CRm: Bits, op2: Bits, Rt: Bits) -> None:
    which = concat(bits(1, 1), CRm, op2)
    value = bits(64, 0)
    for encoding, constant in CONSTANTS.items():
        value = cond(which.eq(encoding), bits(64, constant), value)
    for encoding, register in IDENTIFICATION.items():
        value = cond(which.eq(encoding), m.sys[register], value)
    m.x[Rt, 64] = value


REGISTER = "op1:3 CRn:4 CRm:4 op2:3 Rt:5"


def _others(places: Iterable[str], more: str = "") -> str:
    """The condition that leaves a catch-all only what has no definition of its own."""
    fields = ("op1", "CRn", "CRm", "op2")
    named = (" ".join(f"{f}={v}" for f, v in zip(fields, place.split(), strict=True)) for place in places)
    return " | ".join(f"{more} {one}" for one in named)


insn(
    "MRS",
    f"1101010100 1 1 o0 {REGISTER}",
    MRS,
    key="mrs",
    unallocated=_others([*(place for _, place, _ in READABLE), "000 0000 01xx xxx"], "o0=1"),
)(_undefined)
insn(
    "MSR (register)",
    f"1101010100 0 1 o0 {REGISTER}",
    MSR,
    key="msr",
    unallocated=_others((place for _, place, _ in WRITABLE), "o0=1"),
)(_undefined)

# -- System instructions ---------------------------------------------------------------------------------

ZERO_BLOCK = 64
"""Bytes that DC ZVA clears, as DCZID_EL0 says."""


def _sys_text(d: Decoded) -> str:
    _, op1, crn, crm, op2 = fields_of(_encoding(d))
    plain = f"sys #{op1}, c{crn}, c{crm}, #{op2}"
    name, takes_register = instruction_name(_encoding(d)) or (plain, False)
    if d.Rt == 31:
        return f"{name}, xzr" if takes_register else name
    return f"{name if takes_register else plain}, {general(d.Rt, 1)}"


def _sysl_text(d: Decoded) -> str:
    _, op1, crn, crm, op2 = fields_of(_encoding(d))
    return f"sysl {general(d.Rt, 1)}, #{op1}, c{crn}, c{crm}, #{op2}"


@insn("DC ZVA", "1101010100 0 01 011 0111 0100 001 Rt:5", "dc zva, {Rt:X}")
def dc_zva(m: Context, Rt: Bits) -> None:
    m.mem[m.x[Rt, 64] & -ZERO_BLOCK, 8 * ZERO_BLOCK] = bits(8 * ZERO_BLOCK, 0)


@insn("IC IVAU", "1101010100 0 01 011 0111 0101 001 Rt:5", "ic ivau, {Rt:X}")
def ic_ivau(m: Context, Rt: Bits) -> None:
    m.event(Reason.CODE_WRITE, m.x[Rt, 64] & UNTAGGED)


def _clean(m: Context) -> None:
    """Data caches are invisible."""


MAINTENANCE = {"cvac": "011 0111 1010 001", "cvau": "011 0111 1011 001", "civac": "011 0111 1110 001"}
PERSISTENCE = {"cvap": ("011 0111 1100 001", "FEAT_DPB"), "cvadp": ("011 0111 1101 001", "FEAT_DPB2")}
"""Points beyond the caches to which lines can be cleaned, and the features that have them."""

for _name, _place in MAINTENANCE.items():
    _diagram = f"1101010100 0 01 {_place} Rt:5"
    insn(f"DC {_name.upper()}", _diagram, f"dc {_name}, {{Rt:X}}", key=f"dc_{_name}")(_clean)
for _name, (_place, _feature) in PERSISTENCE.items():
    _diagram = f"1101010100 0 01 {_place} Rt:5"
    _text = f"dc {_name}, {{Rt:X}}"
    insn(f"DC {_name.upper()}", _diagram, _text, key=f"dc_{_name}", feature=_feature)(_clean)

insn(
    "SYS",
    f"1101010100 0 01 {REGISTER}",
    _sys_text,
    key="sys",
    unallocated=_others(
        [
            "011 0111 0100 001",
            "011 0111 0101 001",
            *MAINTENANCE.values(),
            *(place for place, _ in PERSISTENCE.values()),
        ]
    ),
)(_undefined)
insn("SYSL", f"1101010100 1 01 {REGISTER}", _sysl_text, key="sysl")(_undefined)
