"""CRC32 and CRC32C: data processing (2 source) of FEAT_CRC32 (Arm ARM C4.1.94)."""

from __future__ import annotations

from kvrm.isa.assembly import printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Execution, Static, insn
from kvrm.values import Bits
from kvrm.values.crypto import CRC32, CRC32C, Table, lookup

EXECUTION = Execution.LOGICAL


@printer
def crc_size(d: Decoded, sz: int) -> str:
    """The letter of the size of the data."""
    return "bhwx"[sz]


def _crc32(m: Context, sz: Static, Rm: Bits, Rn: Bits, Rd: Bits, table: Table) -> None:
    """Neither inverted before nor after; the lowest byte first."""
    crc, data = m.x[Rn, 32], m.x[Rm, 8 << sz]
    for byte in data.split(8).list():
        crc = crc.lsr(8) ^ lookup(crc.trunc(8) ^ byte, table)
    m.x[Rd, 32] = crc


for _c, _name, _table in ((0, "CRC32", CRC32), (1, "CRC32C", CRC32C)):
    insn(
        ", ".join(_name + size for size in "BHWX"),
        f"sf 0 0 11010110 Rm:5 010 {_c} sz:2 Rn:5 Rd:5",
        f"{_name.lower()}{{sz:crc_size}} {{Rd:W}}, {{Rn:W}}, {{Rm:R}}",
        key=_name.lower(),
        unallocated="sf=0 sz=11 | sf=1 sz=0x | sf=1 sz=10",
        feature="FEAT_CRC32",
        table=_table,
    )(_crc32)
