"""The rows of checksums and ciphers mean the same folded and emitted, and published examples come out."""

from __future__ import annotations

import random

import pytest

from kvrm.isa.a64 import crypto_aes as aes
from kvrm.isa.a64.crypto_sm import four_rounds
from kvrm.values import Bits, bits, crypto
from kvrm.values.crypto import AES, AES_INVERSE, CRC32, CRC32C, SM4, carryless_product, lookup
from native_function import Native, interesting

TABLES = [AES, AES_INVERSE, SM4, CRC32, CRC32C]


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_lookup(table):
    stage = Native()
    f = stage.finish(lookup(stage.argument(8), table))
    for i, entry in enumerate(table.entries):
        assert f(i) == lookup(bits(8, i), table).values == (entry,)


def test_lookups_share_a_table():
    stage = Native()
    index = stage.argument(8, 16)
    f = stage.finish(lookup(lookup(index, AES), AES_INVERSE) ^ lookup(index, AES))
    assert [n for n in stage.module.globals if n.startswith("table.")] == ["table.aes", "table.aes_inverse"]
    values = tuple(random.Random(1).randrange(256) for _ in range(16))
    assert f(*values) == tuple(i ^ AES.entries[i] for i in values)


@pytest.mark.parametrize("table", [AES, AES_INVERSE, SM4], ids=lambda t: t.name)
def test_substitutions_are_permutations(table):
    assert sorted(table.entries) == list(range(256))


def division(product: int, divisor: int) -> tuple[int, int]:
    """Quotient and remainder of polynomials over GF(2)."""
    quotient = 0
    while product.bit_length() >= divisor.bit_length():
        shift = product.bit_length() - divisor.bit_length()
        quotient |= 1 << shift
        product ^= divisor << shift
    return quotient, product


@pytest.mark.parametrize("width", [8, 32, 64])
def test_carryless_product(width):
    stage = Native()
    f = stage.finish(carryless_product(stage.argument(width), stage.argument(width)))
    rng = random.Random(2)
    values = [*interesting(width, rng), *(sum(1 << i for i in range(k, width, 5)) for k in range(5))]
    for a in values:
        for b in values:
            product = f(a, b)
            assert product == carryless_product(bits(width, a), bits(width, b)).values, (a, b)
            if b:
                assert division(product[0], b) == (a, 0)


# -- Published examples -----------------------------------------------------------------------------------


def state(text: str) -> Bits:
    return Bits(8, tuple(bytes.fromhex(text)), 16)


def expanded(key: bytes) -> list[Bits]:
    """The eleven round keys of AES-128 (FIPS 197, 5.2)."""
    words, constant = [key[i : i + 4] for i in range(0, 16, 4)], 1
    for i in range(4, 44):
        word = words[-1]
        if i % 4 == 0:
            word = bytes(AES.entries[b] for b in word[1:] + word[:1])
            word = bytes([word[0] ^ constant, *word[1:]])
            constant = crypto._times_x(constant, 0x11B)
        words.append(bytes(a ^ b for a, b in zip(words[-4], word, strict=True)))
    return [state(b"".join(words[i : i + 4]).hex()) for i in range(0, 44, 4)]


def test_aes_128():
    """FIPS 197, appendix C.1."""
    keys = expanded(bytes(range(16)))
    block = state("00112233445566778899aabbccddeeff")
    for key in keys[:9]:
        block = aes.mix_columns(aes.encrypt(block ^ key))
    block = aes.encrypt(block ^ keys[9]) ^ keys[10]
    assert bytes(block.values).hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"
    block = aes.decrypt(block ^ keys[10]) ^ keys[9]
    for key in keys[8::-1]:
        block = aes.decrypt(aes.inverse_mix_columns(block)) ^ key
    assert bytes(block.values).hex() == "00112233445566778899aabbccddeeff"


def test_sm4():
    """GB/T 32907-2016, example 1: the block and the key are the same."""
    words = [bits(32, v) for v in (0x01234567, 0x89ABCDEF, 0xFEDCBA98, 0x76543210)]
    system = (0xA3B1BAC6, 0x56AA3350, 0x677D9197, 0xB27022DC)
    constants = [sum(((4 * i + j) * 7 & 0xFF) << 24 - 8 * j for j in range(4)) for i in range(32)]
    block, key = words, [w ^ s for w, s in zip(words, system, strict=True)]
    for i in range(0, 32, 4):
        key = four_rounds(key, [bits(32, c) for c in constants[i : i + 4]], 13, 23).list()
        block = four_rounds(block, key, 2, 10, 18, 24).list()
    assert [int(w) for w in reversed(block)] == [0x681EDF34, 0xD206965E, 0x86B3E94F, 0x536E4246]


@pytest.mark.parametrize(
    ("table", "check"), [(CRC32, 0xCBF4_3926), (CRC32C, 0xE306_9283)], ids=["crc32", "crc32c"]
)
def test_crc_check_values(table, check):
    """The remainder of "123456789", inverted before and after."""
    crc = bits(32, -1)
    for byte in b"123456789":
        crc = crc.lsr(8) ^ lookup(crc.trunc(8) ^ byte, table)
    assert int(~crc) == check


def test_inverses_are_inverses():
    assert all(AES_INVERSE.entries[AES.entries[i]] == i for i in range(256))
    assert crypto._inverses(0x11B, by_three=True)[2] == 0x8D
