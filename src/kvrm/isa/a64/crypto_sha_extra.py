"""Cryptographic SHA512 and SHA3 (Arm ARM C4.1.96).

The groups are three-register SHA 512, two-register SHA 512, four-register, and XAR.
"""

from __future__ import annotations

from collections.abc import Callable

from kvrm.isa.a64.crypto_sha import choose, majority, rol, sum_of_rotations
from kvrm.isa.context import Context
from kvrm.isa.definition import Execution, insn
from kvrm.values import Bits, from_lanes

EXECUTION = Execution.LOGICAL

# -- SHA512 ---------------------------------------------------------------------------------------------

SHA512 = "FEAT_SHA512"
THREE = "11001110011 Rm:5 1 0 00 {} Rn:5 Rd:5"


def _pair(m: Context, r: Bits) -> list[Bits]:
    return m.v[r, 128].split(64).list()


@insn("SHA512H", THREE.format("00"), "sha512h q{Rd}, q{Rn}, v{Rm}.2d", feature=SHA512)
def sha512h(m: Context, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    """Two rounds for e, the second with what the first one gave."""
    (low, high), (x0, x1), (y0, y1) = (_pair(m, r) for r in (Rd, Rn, Rm))
    high = high + sum_of_rotations(y1, 14, 18, 41) + choose(y1, x0, x1)
    e = high + y0
    low = low + sum_of_rotations(e, 14, 18, 41) + choose(e, y1, x0)
    m.v[Rd, 128] = from_lanes([low, high])


@insn("SHA512H2", THREE.format("01"), "sha512h2 q{Rd}, q{Rn}, v{Rm}.2d", feature=SHA512)
def sha512h2(m: Context, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    """Two rounds for a, the second with what the first one gave."""
    (low, high), x0, (y0, y1) = _pair(m, Rd), m.v[Rn, 64], _pair(m, Rm)
    high = high + sum_of_rotations(y0, 28, 34, 39) + majority(x0, y1, y0)
    low = low + sum_of_rotations(high, 28, 34, 39) + majority(high, y0, y1)
    m.v[Rd, 128] = from_lanes([low, high])


@insn("SHA512SU1", THREE.format("10"), "sha512su1 v{Rd}.2d, v{Rn}.2d, v{Rm}.2d", feature=SHA512)
def sha512su1(m: Context, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    d, n, other = (m.v[r, 128].split(64) for r in (Rd, Rn, Rm))
    m.v[Rd, 128] = d + (sum_of_rotations(n, 19, 61) ^ n.lsr(6)) + other


@insn("SHA512SU0", "11001110110 00000 1000 00 Rn:5 Rd:5", "sha512su0 v{Rd}.2d, v{Rn}.2d", feature=SHA512)
def sha512su0(m: Context, Rn: Bits, Rd: Bits) -> None:
    d = m.v[Rd, 128].split(64)
    following = d.shuffle([1, 2], m.v[Rn, 128].split(64))
    m.v[Rd, 128] = d + (sum_of_rotations(following, 1, 8) ^ following.lsr(7))


# -- SHA3 -----------------------------------------------------------------------------------------------

SHA3 = "FEAT_SHA3"


def _four(m: Context, Rm: Bits, Ra: Bits, Rn: Bits, Rd: Bits, op: Callable[[Bits, Bits, Bits], Bits]) -> None:
    m.v[Rd, 128] = op(*(m.v[r, 128].split(64) for r in (Rn, Rm, Ra)))


for _op0, _name, _op in (
    ("00", "EOR3", lambda n, m, a: n ^ m ^ a),
    ("01", "BCAX", lambda n, m, a: n ^ (m & ~a)),
):
    insn(
        _name,
        f"110011100 {_op0} Rm:5 0 Ra:5 Rn:5 Rd:5",
        f"{_name.lower()} v{{Rd}}.16b, v{{Rn}}.16b, v{{Rm}}.16b, v{{Ra}}.16b",
        key=_name.lower(),
        feature=SHA3,
        op=_op,
    )(_four)


@insn("RAX1", THREE.format("11"), "rax1 v{Rd}.2d, v{Rn}.2d, v{Rm}.2d", feature=SHA3)
def rax1(m: Context, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    m.v[Rd, 128] = m.v[Rn, 128].split(64) ^ rol(m.v[Rm, 128].split(64), 1)


@insn(
    "XAR",
    "11001110100 Rm:5 imm6:6 Rn:5 Rd:5",
    "xar v{Rd}.2d, v{Rn}.2d, v{Rm}.2d, {imm6:imm}",
    feature=SHA3,
)
def xar(m: Context, Rm: Bits, imm6: Bits, Rn: Bits, Rd: Bits) -> None:
    both = m.v[Rn, 128].split(64) ^ m.v[Rm, 128].split(64)
    m.v[Rd, 128] = both.ror(imm6.zext(64).splat(2))
