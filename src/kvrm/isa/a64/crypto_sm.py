"""Cryptographic SM3 and SM4, the Chinese hash and block cipher (Arm ARM C4.1.96)."""

from __future__ import annotations

from collections.abc import Callable

from kvrm.isa.a64.crypto_sha import choose, majority, parity, rol, words
from kvrm.isa.context import Context
from kvrm.isa.definition import Execution, insn
from kvrm.values import Bits, bits, from_lanes
from kvrm.values.crypto import SM4, lookup

EXECUTION = Execution.LOGICAL

VECTORS = "v{Rd}.4s, v{Rn}.4s, v{Rm}.4s"
THREE = "11001110011 Rm:5 1 1 00 {} Rn:5 Rd:5"


def _sum_with_turned(a: Bits, *amounts: int) -> Bits:
    """The exclusive or of `a` and of `a` rotated left by each of `amounts`."""
    out = a
    for n in amounts:
        out = out ^ rol(a, n)
    return out


# -- SM3 ------------------------------------------------------------------------------------------------

FEAT_SM3 = "FEAT_SM3"
Mix = Callable[[Bits, Bits, Bits], Bits]


@insn("SM3SS1", "110011100 10 Rm:5 0 Ra:5 Rn:5 Rd:5", f"sm3ss1 {VECTORS}, v{{Ra}}.4s", feature=FEAT_SM3)
def sm3ss1(m: Context, Rm: Bits, Ra: Bits, Rn: Bits, Rd: Bits) -> None:
    """The upper words alone count; the others of the result are zero."""
    n, other, a = (m.v[r, 128].split(32).lane(3) for r in (Rn, Rm, Ra))
    zero = bits(32, 0)
    m.v[Rd, 128] = from_lanes([zero, zero, zero, rol(rol(n, 12) + other + a, 7)])


def sm3_first(m: Context, Rm: Bits, imm2: Bits, Rn: Bits, Rd: Bits, mix: Mix) -> None:
    """SM3TT1A, SM3TT1B: the part of a round that makes a new A."""
    d, c, b, a = words(m, Rd)
    second = m.v[Rn, 128].split(32).lane(3) ^ rol(a, 12)
    total = mix(a, b, c) + d + second + m.v[Rm, 128].split(32).lane(imm2)
    m.v[Rd, 128] = from_lanes([c, rol(b, 9), a, total])


def sm3_second(m: Context, Rm: Bits, imm2: Bits, Rn: Bits, Rd: Bits, mix: Mix) -> None:
    """SM3TT2A, SM3TT2B: the part of a round that makes a new E."""
    h, g, f, e = words(m, Rd)
    total = mix(e, f, g) + h + m.v[Rn, 128].split(32).lane(3) + m.v[Rm, 128].split(32).lane(imm2)
    m.v[Rd, 128] = from_lanes([g, rol(f, 19), e, _sum_with_turned(total, 9, 17)])


for _opcode, _name, _operation, _mix in (
    ("00", "SM3TT1A", sm3_first, parity),
    ("01", "SM3TT1B", sm3_first, majority),
    ("10", "SM3TT2A", sm3_second, parity),
    ("11", "SM3TT2B", sm3_second, choose),
):
    insn(
        _name,
        f"11001110010 Rm:5 10 imm2:2 {_opcode} Rn:5 Rd:5",
        f"{_name.lower()} v{{Rd}}.4s, v{{Rn}}.4s, v{{Rm}}.s[{{imm2}}]",
        key=_name.lower(),
        feature=FEAT_SM3,
        mix=_mix,
    )(_operation)


@insn("SM3PARTW1", THREE.format("00"), f"sm3partw1 {VECTORS}", feature=FEAT_SM3)
def sm3partw1(m: Context, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    """The last word depends on the first one of the result."""
    both = (m.v[Rd, 128].split(32) ^ m.v[Rn, 128].split(32)).list()
    later = words(m, Rm)
    new = [_sum_with_turned(both[i] ^ rol(later[i + 1], 15), 15, 23) for i in range(3)]
    new.append(_sum_with_turned(both[3] ^ rol(new[0], 15), 15, 23))
    m.v[Rd, 128] = from_lanes(new)


@insn("SM3PARTW2", THREE.format("01"), f"sm3partw2 {VECTORS}", feature=FEAT_SM3)
def sm3partw2(m: Context, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    part = m.v[Rn, 128].split(32) ^ rol(m.v[Rm, 128].split(32), 7)
    new = m.v[Rd, 128].split(32) ^ part
    m.v[Rd, 128] = new.with_lane(3, new.lane(3) ^ _sum_with_turned(rol(part.lane(0), 15), 15, 23))


# -- SM4 ------------------------------------------------------------------------------------------------

FEAT_SM4 = "FEAT_SM4"


def four_rounds(state: list[Bits], keys: list[Bits], *amounts: int) -> Bits:
    """Four rounds of the cipher or of its key schedule, which differ in the rotations after the S-box."""
    a, b, c, d = state
    for key in keys:
        replaced = lookup((b ^ c ^ d ^ key).split(8), SM4).whole
        a, b, c, d = b, c, d, a ^ _sum_with_turned(replaced, *amounts)
    return from_lanes([a, b, c, d])


@insn("SM4E", "11001110110 00000 1000 01 Rn:5 Rd:5", "sm4e v{Rd}.4s, v{Rn}.4s", feature=FEAT_SM4)
def sm4e(m: Context, Rn: Bits, Rd: Bits) -> None:
    m.v[Rd, 128] = four_rounds(words(m, Rd), words(m, Rn), 2, 10, 18, 24)


@insn("SM4EKEY", THREE.format("10"), f"sm4ekey {VECTORS}", feature=FEAT_SM4)
def sm4ekey(m: Context, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    m.v[Rd, 128] = four_rounds(words(m, Rn), words(m, Rm), 13, 23)
