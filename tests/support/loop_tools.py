"""Loops that are run twice over the same memory: plainly, and with iterations skipped."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from kvrm.engine.interpreter.engine import Interpreter
from kvrm.isa.definition import definition_of
from kvrm.isa.features import CORTEX_A76
from kvrm.lane.state import State
from kvrm.lane.words import DISCARD
from kvrm.loops import plan
from kvrm.loops.analysis import Loop
from kvrm.loops.oracle import oracle
from kvrm.loops.sites import Proposer, Sites
from kvrm.memory import PAGE, Memory, OutOfMemory, Prot
from kvrm.memory.pages import HOST

CODE, DATA, TOP = 0x10000, 0x100000, (1 << 39) - 2 * PAGE
BRK = 0xD4200000
RW, RX, RWX = Prot.R | Prot.W, Prot.R | Prot.X, Prot.R | Prot.W | Prot.X
WINDOWS = (
    (DATA, 6, RW),
    (DATA + 8 * PAGE, 1, Prot.R),
    (DATA + 9 * PAGE, 1, RW),
    (DATA + 10 * PAGE, 1, RWX),
    (TOP, 2, RW),
)
"""Address, pages and permissions of what there is; between the first and the second is a hole."""


def encode(key: str, **fields: int) -> int:
    """The word of a definition with these fields, the others 0."""
    diagram = definition_of(key).diagram
    word = diagram.cube.value
    for name, value in fields.items():
        f = diagram.field(name)
        word |= (value & (1 << f.width) - 1) << f.low
    return word


def add(r: int, n: int) -> int:
    """The word that adds `n` to a register."""
    key = "add_imm" if n >= 0 else "sub_imm"
    return encode(key, sf=1, imm12=abs(n), Rn=r, Rd=r)


def back(words: Sequence[int]) -> list[int]:
    """The words with the offset in the branch at their end that leads to the first."""
    last, word = len(words) - 1, words[-1]
    width = 14 if word >> 25 & 0x3F == 0b011011 else 19
    return [*words[:-1], word | (-last & (1 << width) - 1) << 5]


@dataclass(frozen=True)
class Outcome:
    """Everything that a run leaves."""

    exit: object
    pc: int
    state: tuple[bytes, int]
    retired: int
    written: dict[int, bytes]


class Lab:
    """One memory and one state with two interpreters over them."""

    def __init__(self, seed: int = 0, filled: float = 0.8) -> None:
        rng = random.Random(seed)
        self.state, self.memory = State(), Memory()
        self.memory.map(CODE, PAGE, RX)
        for start, pages, prot in WINDOWS:
            self.memory.map(start, pages * PAGE, prot)
            for page in range(pages):
                if rng.random() < filled:
                    text = (
                        rng.randbytes(PAGE).replace(b"\0", b"\1")
                        if rng.random() < 0.5
                        else rng.randbytes(PAGE)
                    )
                    self.memory.poke(start + page * PAGE, text)
        self.plain = Interpreter(self.state, self.memory)
        self.skipping = Interpreter(self.state, self.memory)
        self.proposer = Proposer(oracle)
        self.sites = Sites(self.proposer, self.skipping, self.memory, CORTEX_A76, least=1)
        self.skipping.skip_by(self.sites)
        self.memory.on_remap = self._remapped

    def _remapped(self, start: int, end: int) -> None:
        self.plain.invalidate(start, end)
        self.skipping.invalidate(start, end)

    def load(self, body: Sequence[int]) -> None:
        """Put a loop at the start of the page of code, and a BRK after it."""
        self.body = tuple(body)
        words = [*body, BRK]
        self.memory.poke(CODE, b"".join(word.to_bytes(4, "little") for word in words))
        self.skipping._predecode(CODE)
        self.snapshot = self.memory.snapshot()

    def install(self) -> bool:
        """Have it skipped, if it is accepted."""
        self.skipping._predecode(CODE)
        return self.sites.install(CODE, self.body)

    def run(
        self, engine: Interpreter, start: tuple[bytes, int], budget: int, breaks: frozenset[int]
    ) -> Outcome:
        """From a state."""
        self.state.load(start)
        engine.retired = 0
        try:
            left: object = engine.run(budget, breaks)
        except OutOfMemory:
            left = "out of memory"
        self.state.words[DISCARD] = 0  # what dead results go to is no part of the machine
        pages = self.memory.changed_pages()
        written = {number: HOST[at : at + PAGE].tobytes() for number, at, _ in pages}
        outcome = Outcome(_told(left), self.state.pc, self.state.save(), engine.retired, written)
        self.memory.restore(self.snapshot)
        return outcome

    @property
    def loop(self) -> Loop | None:
        """What the analyser says of the present one."""
        return self.sites.known.decided.get((self.body, CODE))

    def iterations(self) -> int:
        """Iterations that were skipped so far of the present loop."""
        sites = self.sites._sites.get(CODE // PAGE, {})
        return sum(site.words[plan.ITERATIONS // plan.WORD] for site in sites.values())


def _told(left: object) -> str:
    fault = getattr(left, "fault", None)
    return f"{left} {fault and (fault.address, fault.kind, fault.mapped)}"
