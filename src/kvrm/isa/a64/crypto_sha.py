"""Cryptographic SHA1 and SHA256: three-register SHA, two-register SHA (Arm ARM C4.1.96)."""

from __future__ import annotations

from collections.abc import Callable

from kvrm.isa.context import Context
from kvrm.isa.definition import Execution, insn
from kvrm.values import Bits, from_lanes

EXECUTION = Execution.LOGICAL


def words(m: Context, r: Bits) -> list[Bits]:
    """The four words of a register, the lowest first."""
    return m.v[r, 128].split(32).list()


def rol(a: Bits, n: int) -> Bits:
    """Rotated left by n."""
    return a.ror(a.width - n)


def sum_of_rotations(a: Bits, *amounts: int) -> Bits:
    """The exclusive or of `a` rotated right by each of `amounts`."""
    out = a.ror(amounts[0])
    for n in amounts[1:]:
        out = out ^ a.ror(n)
    return out


def choose(x: Bits, y: Bits, z: Bits) -> Bits:
    """SHAchoose(): y where x is one, else z."""
    return ((y ^ z) & x) ^ z


def majority(x: Bits, y: Bits, z: Bits) -> Bits:
    """SHAmajority(): what most of the three are."""
    return (x & y) | ((x | y) & z)


def parity(x: Bits, y: Bits, z: Bits) -> Bits:
    """SHAparity()."""
    return x ^ y ^ z


THREE = "01011110 00 0 Rm:5 0 {} 00 Rn:5 Rd:5"
TWO = "01011110 00 10100 000{} 10 Rn:5 Rd:5"
VECTORS = "v{Rd}.4s, v{Rn}.4s, v{Rm}.4s"

# -- SHA1 -----------------------------------------------------------------------------------------------

SHA1 = "FEAT_SHA1"


def sha1_hash(m: Context, Rm: Bits, Rn: Bits, Rd: Bits, mix: Callable[[Bits, Bits, Bits], Bits]) -> None:
    """Four rounds; Rm holds words of the schedule with the round's constant added."""
    (a, b, c, d), e = words(m, Rd), m.v[Rn, 32]
    for w in words(m, Rm):
        e = e + rol(a, 5) + mix(b, c, d) + w
        a, b, c, d, e = e, a, rol(b, 30), c, d
    m.v[Rd, 128] = from_lanes([a, b, c, d])


for _opcode, _name, _mix in (("000", "SHA1C", choose), ("001", "SHA1P", parity), ("010", "SHA1M", majority)):
    insn(
        _name,
        THREE.format(_opcode),
        f"{_name.lower()} q{{Rd}}, s{{Rn}}, v{{Rm}}.4s",
        key=_name.lower(),
        feature=SHA1,
        mix=_mix,
    )(sha1_hash)


@insn("SHA1SU0", THREE.format("011"), f"sha1su0 {VECTORS}", feature=SHA1)
def sha1su0(m: Context, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    """Words 0 to 3 of the schedule with 2 to 5 and 8 to 11."""
    d, n, later = (m.v[r, 128].split(32) for r in (Rd, Rn, Rm))
    m.v[Rd, 128] = d ^ d.shuffle([2, 3, 4, 5], n) ^ later


@insn("SHA1SU1", TWO.format("01"), "sha1su1 v{Rd}.4s, v{Rn}.4s", feature=SHA1)
def sha1su1(m: Context, Rn: Bits, Rd: Bits) -> None:
    """The last word depends on the first one of the result."""
    n = m.v[Rn, 128].split(32)
    new = rol(m.v[Rd, 128].split(32) ^ n.shuffle([1, 2, 3, 4], n.like(0)), 1)
    m.v[Rd, 128] = new.with_lane(3, new.lane(3) ^ rol(new.lane(0), 1))


@insn("SHA1H", TWO.format("00"), "sha1h s{Rd}, s{Rn}", feature=SHA1)
def sha1h(m: Context, Rn: Bits, Rd: Bits) -> None:
    m.v[Rd, 32] = rol(m.v[Rn, 32], 30)


# -- SHA256 ---------------------------------------------------------------------------------------------

SHA256 = "FEAT_SHA256"


def _rounds(first: list[Bits], second: list[Bits], schedule: list[Bits]) -> tuple[list[Bits], list[Bits]]:
    """SHA256hash(): four rounds on a..d and e..h; the schedule has the constants added."""
    (a, b, c, d), (e, f, g, h) = first, second
    for w in schedule:
        t = h + sum_of_rotations(e, 6, 11, 25) + choose(e, f, g) + w
        u = t + sum_of_rotations(a, 2, 13, 22) + majority(a, b, c)
        a, b, c, d, e, f, g, h = u, a, b, c, d + t, e, f, g
    return [a, b, c, d], [e, f, g, h]


@insn("SHA256H", THREE.format("100"), "sha256h q{Rd}, q{Rn}, v{Rm}.4s", feature=SHA256)
def sha256h(m: Context, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    """New a to d, which Rd holds."""
    m.v[Rd, 128] = from_lanes(_rounds(words(m, Rd), words(m, Rn), words(m, Rm))[0])


@insn("SHA256H2", THREE.format("101"), "sha256h2 q{Rd}, q{Rn}, v{Rm}.4s", feature=SHA256)
def sha256h2(m: Context, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    """New e to h, which Rd holds."""
    m.v[Rd, 128] = from_lanes(_rounds(words(m, Rn), words(m, Rd), words(m, Rm))[1])


def _sigma1(a: Bits) -> Bits:
    return sum_of_rotations(a, 17, 19) ^ a.lsr(10)


@insn("SHA256SU1", THREE.format("110"), f"sha256su1 {VECTORS}", feature=SHA256)
def sha256su1(m: Context, Rm: Bits, Rn: Bits, Rd: Bits) -> None:
    """The upper two new words depend on the lower two."""
    n, last = m.v[Rn, 128].split(32), m.v[Rm, 128].split(32)
    so_far = m.v[Rd, 128].split(32) + n.shuffle([1, 2, 3, 4], last)
    low = so_far.shuffle([0, 1]) + _sigma1(last.shuffle([2, 3]))
    high = so_far.shuffle([2, 3]) + _sigma1(low)
    m.v[Rd, 128] = low.shuffle([0, 1, 2, 3], high)


@insn("SHA256SU0", TWO.format("10"), "sha256su0 v{Rd}.4s, v{Rn}.4s", feature=SHA256)
def sha256su0(m: Context, Rn: Bits, Rd: Bits) -> None:
    d = m.v[Rd, 128].split(32)
    following = d.shuffle([1, 2, 3, 4], m.v[Rn, 128].split(32))
    m.v[Rd, 128] = d + (sum_of_rotations(following, 7, 18) ^ following.lsr(3))
