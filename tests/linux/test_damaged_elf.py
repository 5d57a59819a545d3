"""Damaged programs end in one clear line or a guest's stop: never a traceback, a crash or a hang."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

import kvrm

SEED = random.SystemRandom().randrange(1 << 32)
MUTATIONS = 5_500
PARTS = 11


def mutate(rng: random.Random, data: bytes) -> bytes:
    """One to four damages: flipped bits, extreme bytes, a copied piece, a cut; headers above all."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(min(len(out), 256) if rng.random() < 0.7 else len(out))
        kind = rng.randrange(6)
        if kind < 3:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 3:
            value = rng.choice((0, 0xFF, 0x7F, 0x80))
            out[at : at + rng.choice((1, 2, 4, 8))] = bytes([value]) * rng.choice((1, 2, 4, 8))
        elif kind == 4:
            other = rng.randrange(len(out))
            out[at : at + 8] = out[other : other + 8]
        else:
            end = len(out) if rng.random() < 0.3 else at + rng.choice((1, 4))
            del out[max(at, 1) : end]
    return bytes(out)


@pytest.mark.parametrize("part", range(PARTS))
def test_damaged_programs(part: int, examples: Path) -> None:
    rng = random.Random(f"{SEED} {part}")
    originals = [(examples / name).read_bytes() for name in ("hello", "primes", "expression")]
    seen: Counter[str] = Counter()
    for number in range(MUTATIONS // PARTS):
        data = mutate(rng, rng.choice(originals))
        engine = "reference" if number % 100 else "interpreter"
        try:
            machine = kvrm.Machine(data, engine=engine, memory_limit=16 << 20, stdin=b"1 + 2\n")
        except kvrm.ProgramError as error:
            assert str(error).isprintable(), f"seed {SEED}, part {part}, number {number}"
            seen["refused"] += 1
            continue
        except Exception as error:
            raise AssertionError(f"seed {SEED}, part {part}, number {number}") from error
        result = machine.run(max_instructions=300)
        assert result.message.isprintable(), f"seed {SEED}, part {part}, number {number}"
        seen[result.stop.name] += 1
    assert seen["refused"] > 50 and len(seen) > 3, seen


def test_much_executable_memory_costs_nothing(examples: Path) -> None:
    """128 GiB of zeros that may be executed are not looked through for code."""
    data = bytearray((examples / "primes").read_bytes())
    start, headers = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    last = max(
        (struct.unpack_from("<Q", data, at + 16)[0], at)
        for at in range(start, start + 56 * headers, 56)
        if struct.unpack_from("<I", data, at)[0] == 1
    )[1]
    struct.pack_into("<I", data, last + 4, 7)
    struct.pack_into("<Q", data, last + 40, 1 << 37)
    tracemalloc.start()
    try:
        result = kvrm.Machine(bytes(data), engine="interpreter", args=["20"]).run()
        assert result.exit_code == 0 and tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
