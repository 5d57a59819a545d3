"""Advanced SIMD permute, extract and table lookup (Arm ARM C4.1.96)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvrm.isa.a64.simd_common import arranged, key_of, mnemonic_of, shape
from kvrm.isa.assembly import printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Execution, Static, insn
from kvrm.values import Bits, bits, concat, cond
from kvrm.values.vectors import pick

EXECUTION = Execution.EXTEND_SHIFT

# -- Permute --------------------------------------------------------------------------------------------

Order = Callable[[int, int], int]
"""For a lane, of how many: which lane of Rn followed by Rm it gets."""


def _permute(m: Context, Q: Static, size: Static, Rm: Bits, Rn: Bits, Rd: Bits, order: Order) -> None:
    n, esize = shape(Q, size)
    a, b = m.v[Rn, n].split(esize), m.v[Rm, n].split(esize)
    m.v[Rd, n] = a.shuffle([order(i, a.lanes) for i in range(a.lanes)], b)


ORDERS: Sequence[tuple[str, str, Order]] = (
    ("001", "UZP1", lambda i, count: 2 * i),
    ("101", "UZP2", lambda i, count: 2 * i + 1),
    ("010", "TRN1", lambda i, count: i - i % 2 + i % 2 * count),
    ("110", "TRN2", lambda i, count: i - i % 2 + i % 2 * count + 1),
    ("011", "ZIP1", lambda i, count: i // 2 + i % 2 * count),
    ("111", "ZIP2", lambda i, count: i // 2 + i % 2 * count + count // 2),
)
for _code, _name, _order in ORDERS:
    insn(
        _name,
        f"0 Q 001110 size:2 0 Rm:5 0 {_code} 10 Rn:5 Rd:5",
        mnemonic_of(_name) + " {Rd:vec}, {Rn:vec}, {Rm:vec}",
        key=key_of(_name),
        unallocated="size=11 Q=0",
        order=_order,
    )(_permute)

# -- Extract --------------------------------------------------------------------------------------------


@insn(
    "EXT",
    "0 Q 101110 00 0 Rm:5 0 imm4:4 0 Rn:5 Rd:5",
    "ext {Rd:vec_bytes}, {Rn:vec_bytes}, {Rm:vec_bytes}, {imm4:imm}",
    unallocated="Q=0 imm4=1xxx",
)
def ext(m: Context, Q: Static, Rm: Bits, imm4: Bits, Rn: Bits, Rd: Bits) -> None:
    """The whole doublewords are chosen first, then shifted down by the bytes that are left."""
    n = 64 << Q
    low, high = m.v[Rn, n].split(64), m.v[Rm, n].split(64)
    if Q:
        middle = low.shuffle([1, 2], high)
        low, high = cond(imm4[3], middle, low), cond(imm4[3], high, middle)
    down = concat(imm4[2:0], bits(3, 0)).zext(64).splat(low.lanes)
    m.v[Rd, n] = low.lsr(down) | high.lsl(1).lsl(~down & 63)


# -- Table lookup ---------------------------------------------------------------------------------------


@printer
def table(d: Decoded, r: int) -> str:
    """The registers of a table: ``{v1.16b, v2.16b}``."""
    return "{" + ", ".join(arranged((r + i) % 32, 128, 8) for i in range(d.len + 1)) + "}"


def _look_up(m: Context, Rn: Bits, count: int, index: Bits, absent: Bits) -> Bits:
    """The bytes that `index` names among `count` registers from Rn on; of `absent` where it names none."""
    result = absent
    for i in range(count):
        at = index - 16 * i
        result = cond(at.ult(16), pick(m.v[Rn + i, 128].split(8), at), result)
    return result


TABLE = "0 Q 001110 000 Rm:5 0 len:2 {} 00 Rn:5 Rd:5"
TABLE_TEXT = " {Rd:vec_bytes}, {Rn:table}, {Rm:vec_bytes}"


@insn("TBL", TABLE.format(0), "tbl" + TABLE_TEXT)
def tbl(m: Context, Q: Static, Rm: Bits, len: Static, Rn: Bits, Rd: Bits) -> None:
    n = 64 << Q
    index = m.v[Rm, n].split(8)
    m.v[Rd, n] = _look_up(m, Rn, len + 1, index, index.like(0))


@insn("TBX", TABLE.format(1), "tbx" + TABLE_TEXT)
def tbx(m: Context, Q: Static, Rm: Bits, len: Static, Rn: Bits, Rd: Bits) -> None:
    n = 64 << Q
    m.v[Rd, n] = _look_up(m, Rn, len + 1, m.v[Rm, n].split(8), m.v[Rd, n].split(8))
