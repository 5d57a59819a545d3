"""Advanced SIMD three-register extension, and scalar three same extra: the integer part (Arm ARM C4.1.96)."""

from __future__ import annotations

from kvrm.isa.a64 import simd_lanes as lanes
from kvrm.isa.a64.simd_common import family, key_of, mnemonic_of, settle, shape
from kvrm.isa.a64.simd_lanes import Shift
from kvrm.isa.context import Context
from kvrm.isa.definition import Execution, Static, insn
from kvrm.values import Bits

EXECUTION = Execution.MULTIPLY_DIVIDE

VECTOR = "0 Q {} 01110 {} 0 Rm:5 1 {} 1 Rn:5 Rd:5"

# -- Rounding doubling multiply and accumulate ----------------------------------------------------------


def _accumulate(m: Context, Q: Static, size: Static, Rm: Bits, Rn: Bits, Rd: Bits, op: lanes.Ternary) -> None:
    n, esize = shape(Q, size)
    d, a, b = (m.v[r, n].split(esize) for r in (Rd, Rn, Rm))
    m.v[Rd, n] = settle(m, op(d, a, b))


for _code, _name, _sum in (
    ("0000", "SQRDMLAH (vector)", lanes.add_product_high_rounded),
    ("0001", "SQRDMLSH (vector)", lanes.subtract_product_high_rounded),
):
    family(
        _name,
        (VECTOR.format(1, "size:2", _code), f"01 1 11110 size:2 0 Rm:5 1 {_code} 1 Rn:5 Rd:5"),
        " {Rd:vec}, {Rn:vec}, {Rm:vec}",
        ("hs", "hs"),
        _accumulate,
        _sum,
        feature="FEAT_RDM",
    )

# -- Products of bytes, added by fours ------------------------------------------------------------------


def _dot(m: Context, Q: Static, Rm: Bits, Rn: Bits, Rd: Bits, signs: tuple[Shift, Shift]) -> None:
    d, a, b = (m.v[r, 64 << Q].split(32) for r in (Rd, Rn, Rm))
    m.v[Rd, 64 << Q] = lanes.add_dot_product(d, a, b, *signs)


DOTS = (
    (0, "0010", "SDOT (vector)", "FEAT_DotProd", (Bits.asr, Bits.asr)),
    (1, "0010", "UDOT (vector)", "FEAT_DotProd", (Bits.lsr, Bits.lsr)),
    (0, "0011", "USDOT (vector)", "FEAT_I8MM", (Bits.lsr, Bits.asr)),
)
for _u, _code, _name, _feature, _signs in DOTS:
    insn(
        _name,
        VECTOR.format(_u, "10", _code),
        f"{mnemonic_of(_name)} {{Rd:vec_words}}, {{Rn:vec_bytes}}, {{Rm:vec_bytes}}",
        key=key_of(_name),
        feature=_feature,
        signs=_signs,
    )(_dot)


def _matrix(m: Context, Rm: Bits, Rn: Bits, Rd: Bits, signs: tuple[Shift, Shift]) -> None:
    """A 2 by 2 matrix plus the product of a 2 by 8 matrix of bytes with another one transposed."""
    d, a, b = (m.v[r, 128].split(32) for r in (Rd, Rn, Rm))
    for half in (0, 1):
        left = a.shuffle([half, half, 2 + half, 2 + half])
        right = b.shuffle([half, 2 + half, half, 2 + half])
        d = lanes.add_dot_product(d, left, right, *signs)
    m.v[Rd, 128] = d


for _u, _code, _name, _signs in (
    (0, "0100", "SMMLA (vector)", (Bits.asr, Bits.asr)),
    (1, "0100", "UMMLA (vector)", (Bits.lsr, Bits.lsr)),
    (0, "0101", "USMMLA (vector)", (Bits.lsr, Bits.asr)),
):
    insn(
        _name,
        f"0 1 {_u} 01110 10 0 Rm:5 1 {_code} 1 Rn:5 Rd:5",
        f"{mnemonic_of(_name)} v{{Rd}}.4s, v{{Rn}}.16b, v{{Rm}}.16b",
        key=key_of(_name),
        feature="FEAT_I8MM",
        signs=_signs,
    )(_matrix)
