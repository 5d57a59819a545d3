"""Architectural state: one block of memory that Python and native code share."""

from __future__ import annotations

from collections.abc import Iterator

from kvrm.arguments import U64, element, integer, word
from kvrm.isa.context import FP16, FP_TRACKING, FPCR_BITS, FPSR_BITS, System
from kvrm.lane.words import DISCARD, EXIT_OFFSET, FLAGS_OFFSET, SP, STATE_BYTES, SYSTEM_OFFSET, V_OFFSET
from kvrm.memory.pages import anonymous, host_address


class State:
    """Registers, flags and system registers of one lane.

    `x` is 31 general registers, `v` 32 SIMD&FP registers; all values are Python ints. `address` is the host
    address of the block that native code works on, `words` is the block as 64-bit words, x0 to x30 first.
    """

    __slots__ = ("_bytes", "address", "pc", "v", "words", "x")

    def __init__(self) -> None:
        block = anonymous(STATE_BYTES)
        self.address = host_address(block)
        self._bytes = memoryview(block)
        self.words = self._bytes.cast("Q")
        self.pc = 0
        self.x = _X(self.words)
        self.v = _V(self.words)

    def get(self, offset: int) -> int:
        """The 64-bit word at a byte offset of the block."""
        return self.words[offset >> 3]

    def set(self, offset: int, value: int) -> None:
        """Set the 64-bit word at a byte offset of the block."""
        self.words[offset >> 3] = value

    @property
    def sp(self) -> int:
        """Stack pointer."""
        return self.words[SP]

    @sp.setter
    def sp(self, value: int) -> None:
        self.words[SP] = word("sp", value)

    @property
    def nzcv(self) -> int:
        """The flags as four bits, N highest."""
        n, z, c, v = self._bytes[FLAGS_OFFSET : FLAGS_OFFSET + 4]
        return n << 3 | z << 2 | c << 1 | v

    @nzcv.setter
    def nzcv(self, value: int) -> None:
        flags = integer("nzcv", value)
        for i in range(4):
            self._bytes[FLAGS_OFFSET + i] = flags >> (3 - i) & 1

    def system(self, register: System) -> int:
        """A system register."""
        return self.words[(SYSTEM_OFFSET >> 3) + register]

    def set_system(self, register: System, value: int) -> None:
        """Set a system register."""
        self.words[(SYSTEM_OFFSET >> 3) + register] = value & (1 << 64) - 1

    @property
    def fpcr(self) -> int:
        """Floating-point control register. It keeps the bits that MSR would keep."""
        return self.system(System.FPCR) & ~FP_TRACKING

    @fpcr.setter
    def fpcr(self, value: int) -> None:
        kept = FPCR_BITS | (self.system(System.ID_AA64PFR0_EL1) & FP16) << 3
        tracking = self.system(System.FPCR) & FP_TRACKING
        self.set_system(System.FPCR, tracking | integer("fpcr", value) & kept)

    @property
    def fpsr(self) -> int:
        """Floating-point status register. It keeps the bits that MSR would keep."""
        return self.system(System.FPSR)

    @fpsr.setter
    def fpsr(self, value: int) -> None:
        self.set_system(System.FPSR, integer("fpsr", value) & FPSR_BITS)

    @property
    def fp_tracking(self) -> bool:
        """Whether floating-point exceptions are added to FPSR."""
        return bool(self.system(System.FPCR) & FP_TRACKING)

    @fp_tracking.setter
    def fp_tracking(self, on: bool) -> None:
        self.set_system(System.FPCR, self.fpcr | FP_TRACKING * on)

    def save(self) -> tuple[bytes, int]:
        """Everything architectural, as an opaque value for `load`."""
        # what was discarded last depends on the engine, and a snapshot must not
        self.words[DISCARD] = 0
        return bytes(self._bytes[:EXIT_OFFSET]), self.pc

    def load(self, saved: tuple[bytes, int]) -> None:
        """Back to a saved state."""
        self._bytes[:EXIT_OFFSET], self.pc = saved

    def __repr__(self) -> str:
        regs = " ".join(f"x{i}={v:#x}" for i, v in enumerate(self.x) if v)
        return f"State(pc={self.pc:#x} sp={self.sp:#x} nzcv={self.nzcv:04b} {regs})"


class _X:
    """x[0] to x[30]."""

    __slots__ = ("_words",)

    def __init__(self, words: memoryview) -> None:
        self._words = words

    def __len__(self) -> int:
        return 31

    def __getitem__(self, i: int) -> int:
        return self._words[element("x", i, 31)]

    def __setitem__(self, i: int, value: int) -> None:
        self._words[element("x", i, 31)] = word("a register", value)

    def __iter__(self) -> Iterator[int]:
        return iter(self._words[:31].tolist())


class _V:
    """v[0] to v[31], 128-bit ints."""

    __slots__ = ("_words",)

    def __init__(self, words: memoryview) -> None:
        self._words = words[V_OFFSET >> 3 :]

    def __len__(self) -> int:
        return 32

    def __getitem__(self, i: int) -> int:
        at = 2 * element("v", i, 32)
        return self._words[at] | self._words[at + 1] << 64

    def __setitem__(self, i: int, value: int) -> None:
        at, number = 2 * element("v", i, 32), integer("a register", value)
        self._words[at], self._words[at + 1] = number & U64, number >> 64 & U64

    def __iter__(self) -> Iterator[int]:
        return (self[i] for i in range(32))
