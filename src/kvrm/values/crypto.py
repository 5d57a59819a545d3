"""The rows that checksums and ciphers need: bytes looked up in a known table, and products without carries.

Both are portable code on any target: no instruction of a host's own cryptographic extension is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import Any

from kvrm.values.bits import Bits, apply, primitive


@dataclass(frozen=True, slots=True)
class Table:
    """256 known values of `width` bits under a name that no other table has."""

    name: str
    width: int
    entries: tuple[int, ...]


# -- Tables ---------------------------------------------------------------------------------------------


def _times_x(a: int, polynomial: int) -> int:
    """a times x in GF(2)[x] modulo a polynomial of degree 8."""
    return a << 1 ^ (polynomial if a >> 7 else 0)


def _inverses(polynomial: int, by_three: bool) -> list[int]:
    """1/a in GF(2^8) for each a, and 0 for 0; the field's generator is x + 1 or x."""
    powers = [1]
    for _ in range(254):
        a = powers[-1]
        powers.append(_times_x(a, polynomial) ^ (a if by_three else 0))
    out = [0] * 256
    for exponent, a in enumerate(powers):
        out[a] = powers[-exponent % 255]
    return out


def _turned(a: int, *amounts: int) -> int:
    """The sum of the byte `a` rotated left by each of `amounts`."""
    return reduce(xor, ((a << n | a >> 8 - n) & 0xFF for n in amounts))


def _crc(polynomial: int) -> tuple[int, ...]:
    """Remainders of each byte, bits reversed, for a 32-bit polynomial that is reversed too."""
    out = []
    for a in range(256):
        for _ in range(8):
            a = a >> 1 ^ (polynomial if a & 1 else 0)
        out.append(a)
    return tuple(out)


def _sm4_affine(a: int) -> int:
    return _turned(a, 0, 1, 3, 6, 7) ^ 0xD3


_FORWARD = [_turned(a, 0, 1, 2, 3, 4) ^ 0x63 for a in _inverses(0x11B, by_three=True)]
_SM4_INVERSES = _inverses(0x1F5, by_three=False)

AES = Table("aes", 8, tuple(_FORWARD))
"""SubBytes() of FIPS 197: the inverse in GF(2^8), then an affine map."""
AES_INVERSE = Table("aes_inverse", 8, tuple(map(_FORWARD.index, range(256))))
"""InvSubBytes()."""
SM4 = Table("sm4", 8, tuple(_sm4_affine(_SM4_INVERSES[_sm4_affine(a)]) for a in range(256)))
"""The S-box of SM4: the same affine map before and after the inverse."""
CRC32 = Table("crc32", 32, _crc(0xEDB8_8320))
"""The polynomial 0x04C11DB7."""
CRC32C = Table("crc32c", 32, _crc(0x82F6_3B78))
"""Castagnoli's polynomial 0x1EDC6F41."""

# -- Rows -----------------------------------------------------------------------------------------------


def _emit_lookup(e: Any, t: Any, index: Any, table: Table) -> Any:
    return e.looked_up(t, f"table.{table.name}", table.entries, index)


def _carryless(w: int, a: int, b: int) -> int:
    return reduce(xor, (a << i for i in range(w) if b >> i & 1), 0)


SPACING = 5
"""Every fifth bit of a factor: up to 31 of them fit, as the sum in any column of their product does."""


def _every(width: int, start: int) -> int:
    return sum(1 << i for i in range(start, width, SPACING))


def _emit_carryless(e: Any, t: Any, a: Any, b: Any) -> Any:
    """Ordinary products of bits so far apart that carries never reach the next column that is looked at."""
    w, full = e.width(a), e.width_of(t)
    left, right = (
        [e.zext(e.and_(x, e.const(x.type, _every(w, i))), t) for i in range(SPACING)] for x in (a, b)
    )
    out = e.const(t, 0)
    for column in range(SPACING):
        products = [e.mul(left[i], right[(column - i) % SPACING]) for i in range(SPACING)]
        parity = e.and_(reduce(e.xor, products), e.const(t, _every(full, column)))
        out = e.or_(out, parity)
    return out


_LOOKUP = primitive("lookup", lambda w, index, table: table.entries[index], _emit_lookup)
_CARRYLESS = primitive("carryless", _carryless, _emit_carryless)


def lookup(index: Bits, table: Table) -> Bits:
    """For each byte of `index`, the table's entry."""
    return apply(_LOOKUP, table.width, index.lanes, [index], table)


def carryless_product(a: Bits, b: Bits) -> Bits:
    """The whole product, twice as wide, of two polynomials over GF(2) of at most 64 bits."""
    return apply(_CARRYLESS, 2 * a.width, a.lanes, [a, a.like(b)])
