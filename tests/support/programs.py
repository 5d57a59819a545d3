"""Random programs with loops, calls and indirect branches, made to end after a few thousand instructions.

A program is words for one place in memory: the first runs first, and a BRK ends it. Straight pieces are
random words of all definitions; what steers control lies in registers that those leave alone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from against_qemu import is_float
from aiming import accesses
from block_words import BASE, USABLE, random_word_with_base
from kvrm.isa.a64 import Definition, decode, definitions
from kvrm.isa.probe import effects_of
from oracle import operands
from oracle.case import BRK_WORD, DATA_BASE, DATA_SIZE, MAX_WORDS, Case
from words import random_word

COUNTERS = (27, 26, 25)
"""Registers that count the iterations of a loop, one for each depth."""
LINKS = (24, 23)
"""Where a function keeps its return address, one for each depth of calls."""
INDEX, TARGET = 22, 21
KEPT = frozenset({BASE, *COUNTERS, *LINKS, INDEX, TARGET})
MOST_STEPS = 2500
NEAR = 6000
"""Bytes around the base register in which accesses stay."""


@dataclass
class Builder:
    """Collects words; a branch to a label that is not placed yet is filled in at the end."""

    rng: random.Random
    pool: list[Definition]
    wild: bool = False
    words: list[int] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    open: list[tuple[int, int, int, str]] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    costs: dict[str, int] = field(default_factory=dict)
    steps: int = 0
    made: int = 0
    limit: int = 0
    """The length at which no more branches are added."""

    def fresh(self) -> str:
        self.made += 1
        return f"label {self.made}"

    def place(self, label: str) -> None:
        self.labels[label] = len(self.words)

    def to(self, word: int, low: int, width: int, label: str) -> None:
        """A branch whose offset field, in words, is at these bits."""
        self.open.append((len(self.words), low, width, label))
        self.words.append(word)

    def address(self, r: int, label: str) -> None:
        """ADR of a label: the offset's two low bits are zero."""
        self.to(0x10000000 | r, 5, 19, label)

    def finished(self) -> tuple[int, ...]:
        for at, low, width, label in self.open:
            self.words[at] |= (self.labels[label] - at & (1 << width) - 1) << low
        return tuple(self.words)

    # -- pieces ----------------------------------------------------------------------------------------------
    def straight(self, count: int) -> None:
        while count:
            word = random_word_with_base(self.rng, KEPT, self.pool)
            if (self.wild and self.rng.random() < 0.1) or _stays_near(word):
                self.words.append(word)
                count -= 1

    def skip(self, label: str) -> None:
        """A conditional branch of any kind."""
        rng = self.rng
        r = rng.randrange(20)
        kind = rng.randrange(4)
        if kind < 2:
            self.to(0x54000000 | rng.randrange(16), 5, 19, label)
        elif kind == 2:
            self.to(0x34000000 | rng.getrandbits(1) << 31 | rng.getrandbits(1) << 24 | r, 5, 19, label)
        else:
            bit = rng.getrandbits(6)
            word = 0x36000000 | bit >> 5 << 31 | rng.getrandbits(1) << 24 | (bit & 31) << 19 | r
            self.to(word, 5, 14, label)

    def choice(self, depth: int, iterations: int) -> None:
        other, end = self.fresh(), self.fresh()
        self.skip(other)
        self.body(depth, iterations, 2)
        if self.rng.getrandbits(1):
            self.to(0x14000000, 0, 26, end)
            self.place(other)
            self.body(depth, iterations, 2)
        else:
            self.place(other)
        self.place(end)

    def loop(self, depth: int, iterations: int) -> None:
        rng, counter = self.rng, COUNTERS[depth]
        top, end = self.fresh(), self.fresh()
        count = rng.randint(1, 7)
        self.words.append(0xD2800000 | count << 5 | counter)
        self.place(top)
        self.body(depth + 1, iterations * count, 3)
        if rng.random() < 0.2:
            self.skip(end)
        if rng.getrandbits(1):
            self.words.append(0xF1000400 | counter << 5 | counter)  # subs
            self.to(0x54000001, 5, 19, top)  # b.ne
        else:
            self.words.append(0xD1000400 | counter << 5 | counter)  # sub
            self.to(0xB5000000 | counter, 5, 19, top)  # cbnz
        self.place(end)

    def call(self, iterations: int) -> None:
        name = self.rng.choice(self.functions)
        self.steps += iterations * self.costs[name]
        if self.rng.getrandbits(1):
            self.to(0x94000000, 0, 26, name)
        else:
            self.address(TARGET, name)
            self.words.append(0xD63F0000 | TARGET << 5)

    def switch(self, depth: int, iterations: int) -> None:
        """BR to one of four, by two bits of a register."""
        table, end = self.fresh(), self.fresh()
        cases = [f"{table}_{i}" for i in range(4)]
        self.words.append(0x92400400 | self.rng.randrange(20) << 5 | INDEX)  # and index, xN, #3
        self.address(TARGET, table)
        self.words.append(0x8B000800 | INDEX << 16 | TARGET << 5 | TARGET)  # add target, index << 2
        self.words.append(0xD61F0000 | TARGET << 5)
        self.place(table)
        for label in cases:
            self.to(0x14000000, 0, 26, label)
        for label in cases:
            self.place(label)
            self.body(depth, iterations, 1)
            if label != cases[-1]:
                self.to(0x14000000, 0, 26, end)
        self.place(end)

    def control(self) -> None:
        """Another rounding mode or default NaNs, or back to the usual."""
        value = self.rng.choice((0, 0, 1 << 6, 3 << 6, 1 << 9))  # FPCR bits 31:16
        self.words.append(0xD2A00000 | value << 5 | TARGET)
        self.words.append(0xD51B4400 | TARGET)

    def body(self, depth: int, iterations: int, most: int) -> None:
        for _ in range(self.rng.randint(1, most)):
            before = len(self.words)
            self.straight(self.rng.randint(1, 6))
            pick = self.rng.random()
            if self.steps < MOST_STEPS and len(self.words) < self.limit:
                if pick < 0.3 and depth < len(COUNTERS) and iterations < 100:
                    self.loop(depth, iterations)
                elif pick < 0.5:
                    self.choice(depth, iterations)
                elif pick < 0.65 and self.functions and iterations < 50:
                    self.call(iterations)
                elif pick < 0.75:
                    self.switch(depth, iterations)
                elif pick < 0.78:
                    self.control()
            self.steps += iterations * (len(self.words) - before)

    def function(self, name: str, level: int) -> None:
        """A function that may call those already known; level 0 is a leaf."""
        self.words.append(0xAA1E03E0 | LINKS[level])  # mov link, x30
        self.steps, self.limit = 0, len(self.words) + 25
        self.body(len(COUNTERS) - 1, 1, 2)
        self.words.append(self.rng.choice((0xD65F0000, 0xD61F0000)) | LINKS[level] << 5)  # ret or br
        self.costs[name] = self.steps


def _stays_near(word: int) -> bool:
    decoded = decode(word)
    assert decoded is not None
    middle = DATA_BASE + DATA_SIZE // 2
    case = Case((word,))
    case.x[BASE] = middle
    seen, _ = accesses(decoded, case)
    return all(middle - NEAR <= address and address + size <= middle + NEAR for address, size in seen)


def _pools() -> dict[str, list[Definition]]:
    """Definitions to draw from: all, or what lives in flags, in memory, in floating-point registers."""
    effects = {
        d.key: effects_of(decoded) for d in USABLE if (decoded := decode(random_word(d, random.Random(1))))
    }
    flags = [d for d in USABLE if effects[d.key].flags_read or effects[d.key].flags_written]
    flags += [d for d in definitions if d.key in ("mrs_nzcv", "msr_nzcv")]
    return {
        "all": USABLE,
        "flags": [d for d in flags if not is_float(d)],
        "memory": [d for d in USABLE if effects[d.key].memory],
        "floats": [d for d in USABLE if is_float(d) and "vector" not in d.key],
    }


POOLS = _pools()


def random_program(rng: random.Random, pool: str = "all") -> tuple[int, ...]:
    """The words of a program; it runs some hundreds to thousands of instructions."""
    while True:
        words = _program(rng, POOLS[pool])
        if MAX_WORDS // 5 < len(words) <= MAX_WORDS:
            return words


def _program(rng: random.Random, pool: list[Definition]) -> tuple[int, ...]:
    b = Builder(rng, pool, wild=rng.random() < 0.1)
    main = "main"
    b.to(0x14000000, 0, 26, main)
    for level, name in enumerate(("leaf", "caller")):
        b.place(name)
        b.function(name, level)
        b.functions.append(name)
    b.place(main)
    b.steps, b.limit = 0, len(b.words) + 80
    b.body(0, 1, 5)
    b.words.append(BRK_WORD)
    return b.finished()


def random_state(rng: random.Random, words: tuple[int, ...]) -> Case:
    """A state to run a program from."""
    fp = rng.random() < 0.5
    case = operands.random_case(rng, words, esize=rng.choice((16, 32, 64)), fp=fp, data_seed=7)
    case.x[BASE] = DATA_BASE + DATA_SIZE // 2 + rng.randrange(-2048, 2048) // 16 * 16
    case.fpcr = 0
    return case
