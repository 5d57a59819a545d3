"""What an oracle is asked (`Case`) and what it answers (`Outcome`): one machine state before, one after.

The address space of every case is the same: a data area of random words between unmapped guard pages, and a
read-only code area full of `BRK #0` with the case's words at `ENTRY`. Whatever the words do, they end in a
signal-like stop: they fall or branch onto a BRK, fault, or meet an undefined word.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass, field
from typing import Final

import numpy as np

PAGE: Final = 4096
DATA_BASE: Final = 0x1000_0000
DATA_SIZE: Final = 4 * PAGE
DATA_END: Final = DATA_BASE + DATA_SIZE
CODE_BASE: Final = 0x2000_0000
CODE_SIZE: Final = 8 * PAGE
ENTRY: Final = CODE_BASE + CODE_SIZE // 2
BRK_WORD: Final = 0xD420_0000
MAX_WORDS: Final = 256
STEP_LIMIT: Final = 4096
"""Instructions after which an engine that counts them calls a case endless; straight code has at most 257."""

ADDRESS_MASK: Final = (1 << 56) - 1


class Kind(enum.IntEnum):
    """How a case ended. `pc` is that of the instruction that did not complete."""

    TIMEOUT = 0
    """Endless; the state is whatever it was when the oracle lost patience, and means nothing."""
    BRK = 1
    FAULT = 2
    """SIGSEGV: data access or instruction fetch without mapping or permission."""
    ALIGNMENT = 3
    """SIGBUS: misaligned pc, exclusive or ordered access."""
    UNDEFINED = 4
    BROKEN = 5
    """No answer: the oracle itself failed on this case. Registers are meaningless."""


@dataclass
class Case:
    """One to 256 words and the machine state that they start from.

    `x` holds x0..x30 (64 bits each), `v` holds v0..v31 (128 bits each), `nzcv` is four bits, N highest;
    `fpcr` and `fpsr` are in the format of the system registers. The data area holds `data_area(data_seed)`.
    """

    words: tuple[int, ...]
    x: list[int] = field(default_factory=lambda: [0] * 31)
    sp: int = DATA_BASE + DATA_SIZE // 2
    v: list[int] = field(default_factory=lambda: [0] * 32)
    nzcv: int = 0
    fpcr: int = 0
    fpsr: int = 0
    tpidr: int = 0
    data_seed: int = 0


@dataclass(frozen=True)
class Outcome:
    """The state in which a case stopped.

    `fault_address` is the first byte that could not be accessed, without its tag (bits 63:56), and None where
    nothing faulted or the oracle cannot say. `data` maps the offset of each 8-byte word of the data area that
    changed to its new value.
    """

    kind: Kind
    pc: int
    fault_address: int | None
    x: tuple[int, ...]
    sp: int
    v: tuple[int, ...]
    nzcv: int
    fpcr: int
    fpsr: int
    tpidr: int
    data: dict[int, int]


BROKEN: Final = Outcome(Kind.BROKEN, 0, None, (0,) * 31, 0, (0,) * 32, 0, 0, 0, 0, {})


@functools.lru_cache(maxsize=1024)
def data_words(seed: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The data area of a seed as `DATA_SIZE // 8` words: splitmix64, word i being its (i + 1)-th output."""
    with np.errstate(over="ignore"):
        counter = np.arange(1, DATA_SIZE // 8 + 1, dtype=np.uint64)
        z = counter * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    z.flags.writeable = False
    return z


@functools.lru_cache(maxsize=1024)
def data_area(seed: int) -> bytes:
    """Initial contents of the data area, `DATA_SIZE` bytes, little-endian."""
    return data_words(seed).astype("<u8").tobytes()


def changed_words(seed: int, now: bytes) -> dict[int, int]:
    """`Outcome.data` for a data area that started as `data_area(seed)` and now holds `now`."""
    if now == data_area(seed):
        return {}
    words = np.frombuffer(now, dtype="<u8")
    return {int(i) * 8: int(words[i]) for i in np.flatnonzero(words != data_words(seed))}


def check_case(case: Case) -> None:
    """Raises ValueError for a case that no oracle should be given: no or too many words, or a system call."""
    if not 1 <= len(case.words) <= MAX_WORDS:
        raise ValueError(f"a case has 1 to {MAX_WORDS} words, not {len(case.words)}")
    for word in case.words:
        if word & 0xFFE0_001F == 0xD400_0001:
            raise ValueError(f"word {word:08x} is SVC, which would reach the oracle's own kernel")


def differences(want: Outcome, got: Outcome) -> list[str]:
    """What differs between two outcomes of one case, one line each; empty if they agree.

    Two timeouts agree whatever their states. A fault address that one side cannot say (None) is not compared.
    """
    if want.kind is not got.kind:
        return [f"kind: want {want.kind.name} at {want.pc:#x}, got {got.kind.name} at {got.pc:#x}"]
    if want.kind is Kind.TIMEOUT:
        return []
    found = [
        f"{name}: want {a:#x}, got {b:#x}"
        for name in ("pc", "sp", "nzcv", "fpcr", "fpsr", "tpidr")
        if (a := getattr(want, name)) != (b := getattr(got, name))
    ]
    if None not in (want.fault_address, got.fault_address) and want.fault_address != got.fault_address:
        found.append(f"fault address: want {want.fault_address:#x}, got {got.fault_address:#x}")
    for name, digits, wants, gots in (("x", 16, want.x, got.x), ("v", 32, want.v, got.v)):
        found += [
            f"{name}{i}: want {a:#0{digits + 2}x}, got {b:#0{digits + 2}x}"
            for i, (a, b) in enumerate(zip(wants, gots, strict=True))
            if a != b
        ]
    for offset in sorted(want.data.keys() | got.data.keys()):
        before, after = want.data.get(offset), got.data.get(offset)
        if before != after:
            found.append(f"data[{offset:#x}]: want {_shown(before)}, got {_shown(after)}")
    return found


def _shown(word: int | None) -> str:
    return "unchanged" if word is None else f"{word:#018x}"
