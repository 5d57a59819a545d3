"""Random words with chosen operands as lanes: each lane runs one word, on the GPU and on the CPU.

`python tests/support/device_words.py --cases 2000000` compares all that lanes keep; a test runs a few of them
with the device's code on the host.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

import kvrm
from kvrm.isa.a64 import Definition, decode, definitions
from kvrm.isa.features import CORTEX_A76, allocates
from kvrm.memory import PAGE
from oracle.operands import chosen_float, chosen_x
from words import random_words

CODE, DATA, DATA_SIZE, GAP = 0x100000, 0x4000000, 2 * PAGE, 16
BRK = 0xD4200000
POOL = 4096
BUDGET = 4
KEEP = (
    *(f"x{i}" for i in range(31)),
    "sp",
    "nzcv",
    *(f"v{i}" for i in range(32)),
    slice(DATA, DATA + DATA_SIZE),
)


def batches(
    seed: int, per_definition: int, at_once: int, names: frozenset[str] = frozenset()
) -> Iterator[list[int]]:
    """Words of that many definitions at a time; of all that the default processor has."""
    rng = Random(seed)
    known = [
        d for d in definitions if allocates(CORTEX_A76, d.feature or "") and (not names or d.key in names)
    ]
    rng.shuffle(known)
    for first in range(0, len(known), at_once):
        yield [word for d in known[first : first + at_once] for word in _words(d, rng, per_definition)]


def _words(definition: Definition, rng: Random, count: int) -> list[int]:
    return list(random_words(definition, rng, count))


def lanes_of(words: list[int], each: int, seed: int, target: str) -> Any:
    """`each` lanes for each word: registers from a pool of chosen values, one in two bases in the data."""
    rng, random = np.random.default_rng(seed), Random(seed)
    m = kvrm.Machine(target=target)
    code = np.full((len(words), GAP // 4), BRK, np.uint32)
    code[:, 0] = words
    m.write_memory(CODE, code.tobytes(), prot="rx")
    m.write_memory(DATA, rng.bytes(DATA_SIZE), prot="rw")
    lanes = m.fork(len(words) * each)
    integers = np.array([chosen_x(random) for _ in range(POOL)], np.uint64)
    floats = np.array([_floats(random) for _ in range(POOL)], np.uint64)
    edges = np.concatenate(
        [rng.integers(0, DATA_SIZE, POOL), np.arange(0, DATA_SIZE, PAGE) - 8, [DATA_SIZE - 16]]
    )
    n = len(lanes)
    word = np.repeat(np.array(words, np.uint64), each)
    base = word >> np.uint64(5) & np.uint64(31)
    aimed = rng.random(n) < 0.5
    for i in range(31):
        values = rng.choice(integers, n)
        here = aimed & (base == i)
        values[here] = (DATA + rng.choice(edges, n)[here]).astype(np.uint64)
        lanes.registers[f"x{i}"] = values
    lanes.registers["sp"] = (DATA + rng.integers(0, DATA_SIZE // 16, n) * 16).astype(np.uint64)
    lanes.registers["nzcv"] = rng.integers(0, 16, n, np.uint64)
    lanes.registers["pc"] = CODE + np.repeat(np.arange(len(words), dtype=np.uint64), each) * np.uint64(GAP)
    for i in range(32):
        both = np.where(rng.random((n, 2)) < 0.5, rng.choice(floats, (n, 2)), rng.choice(integers, (n, 2)))
        lanes.registers[f"v{i}"] = both
    lanes.keep = KEEP
    return lanes


def _floats(random: Random) -> int:
    width = random.choice((16, 32, 64))
    return sum(chosen_float(random, width) << at for at in range(0, 64, width))


def differences(words: list[int], each: int, seed: int) -> list[str]:
    """What differs between the targets, in words."""
    want, got = (lanes_of(words, each, seed, target).run(BUDGET) for target in ("cpu", "cuda"))
    found: list[str] = []
    pairs = {
        name: (getattr(want, name), getattr(got, name)) for name in ("stop", "retired", "pc", "fault_address")
    }
    pairs |= {name: (want.registers[name], got.registers[name]) for name in want.registers}
    pairs["memory"] = want.memory[DATA : DATA + DATA_SIZE], got.memory[DATA : DATA + DATA_SIZE]
    for name, (one, other) in pairs.items():
        differs = (one != other).reshape(len(one), -1).any(axis=1)
        for lane in np.flatnonzero(differs)[:3]:
            found.append(
                f"{words[lane // each]:08x} lane {lane} {name}: {one[lane]} on cpu, {other[lane]} on cuda"
            )
    return found


def main() -> None:
    """Run the cases that the command line asks for; exit code 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=64, help="definitions in one kernel")
    options = parser.parse_args()
    per_definition = 20
    each = -(-options.cases // (per_definition * len(definitions)))
    total, wrong = 0, []
    for number, words in enumerate(batches(options.seed, per_definition, options.at_once)):
        wrong += differences(words, each, options.seed + number)
        total += len(words) * each
        print(f"{total} cases, {len(wrong)} differences", flush=True)
    keys = Counter(decode(int(line[:8], 16)).definition.key for line in wrong)  # type: ignore[union-attr]
    print("\n".join(wrong[:30]), keys.most_common(), sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
