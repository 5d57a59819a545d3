"""What a definition sees as `m`: the machine, in the manual's terms, on any engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum

from kvrm.lane.stops import Reason
from kvrm.values import Bits, Lift, StagingError, bits

Flags = tuple[Bits, Bits, Bits, Bits]


class System(IntEnum):
    """System registers and other 64-bit state that definitions name; the value is the slot in the state."""

    FPCR = 0
    FPSR = 1
    TPIDR_EL0 = 2
    TPIDRRO_EL0 = 3
    MONITOR_ADDRESS = 4
    MONITOR_SIZE = 5
    ID_AA64PFR0_EL1 = 6
    ID_AA64ISAR0_EL1 = 7
    ID_AA64ISAR1_EL1 = 8


FP_TRACKING = 1 << 63
"""Set in FPCR's slot, of which the architecture uses the lower half: add floating-point exceptions to FPSR.

Compiled code computes only while that slot is zero; otherwise it leaves the instruction to the reference.
"""


FPCR_BITS = 0x07C0_0000
"""What FPCR keeps: AHP, DN, FZ and RMode; the trap enables and what later extensions add are zero."""
FP16 = 1 << 16
"""In ID_AA64PFR0_EL1: FEAT_FP16, with which FPCR keeps FZ16 too, three bits above."""
FPSR_BITS = 0x0800_009F
"""What FPSR keeps: QC and the cumulative exceptions. Its NZCV belongs to AArch32."""


class _General:
    """`m.x[r, n]`: general registers; 31 is the zero register, or SP through `m.xsp`."""

    def __init__(self, m: Context, sp: bool) -> None:
        self._m, self._sp = m, sp

    def __getitem__(self, key: tuple[Lift, int]) -> Bits:
        r, n = key
        return self._m.read_x(_index(r), n, self._sp)

    def __setitem__(self, key: tuple[Lift, int], value: Lift) -> None:
        r, n = key
        self._m.write_x(_index(r), _sized(value, n).zext(64), self._sp)


class _Base:
    """`m.base[r]`: the register that a load or store begins with; SP must be a multiple of 16 there.

    That is CheckSPAlignment(): Linux runs user programs with SCTLR_EL1.SA0 set. A prefetch reads `m.xsp`.
    """

    def __init__(self, m: Context) -> None:
        self._m = m

    def __getitem__(self, r: Lift) -> Bits:
        number = _index(r)
        address = self._m.read_x(number, 64, sp=True)
        self._m.require_sp_aligned(number, address)
        return address


class _Vector:
    """`m.v[r, n]`: the low n bits of a SIMD&FP register as a scalar; writing clears the bits above."""

    def __init__(self, m: Context) -> None:
        self._m = m

    def __getitem__(self, key: tuple[Lift, int]) -> Bits:
        r, n = key
        return self._m.read_v(_index(r), n)

    def __setitem__(self, key: tuple[Lift, int], value: Bits) -> None:
        r, n = key
        self._m.write_v(_index(r), _sized(value.whole, n))


class _Memory:
    """`m.mem[address, n]`: n bits, little-endian; a fault ends the instruction before later effects."""

    def __init__(self, m: Context) -> None:
        self._m = m

    def __getitem__(self, key: tuple[Bits, int]) -> Bits:
        address, n = key
        return self._m.read_memory(address, n)

    def __setitem__(self, key: tuple[Bits, int], value: Bits) -> None:
        address, n = key
        self._m.write_memory(address, _sized(value.whole, n), None)


class _Aligned(_Memory):
    """`m.aligned[address, n]`: the same, with a fault unless the address is a multiple of n bits."""

    def __getitem__(self, key: tuple[Bits, int]) -> Bits:
        self._m.require_aligned(key[0], key[1] // 8, store=False)
        return super().__getitem__(key)

    def __setitem__(self, key: tuple[Bits, int], value: Bits) -> None:
        self._m.require_aligned(key[0], key[1] // 8, store=True)
        super().__setitem__(key, value)


class _System:
    """`m.sys[System.TPIDR_EL0]`: one 64-bit system register."""

    def __init__(self, m: Context) -> None:
        self._m = m

    def __getitem__(self, register: System) -> Bits:
        return self._m.read_system(register)

    def __setitem__(self, register: System, value: Bits) -> None:
        self._m.write_system(register, value)


def _index(r: Lift) -> Bits:
    if isinstance(r, Bits):
        return r
    if not 0 <= r < 32:
        raise StagingError(f"register {r}")
    return bits(5, r)


def _sized(value: Lift, n: int) -> Bits:
    if not isinstance(value, Bits):
        return bits(n, value)
    if value.lanes != 1 or value.width != n:
        raise StagingError(f"{value.lanes}x{value.width} bits assigned to {n}")
    return value


class Context(ABC):
    """The machine as definitions use it; each engine implements the abstract methods once.

    Reads and writes happen in textual order. A memory access may end the instruction with a fault, so every
    definition makes its accesses before it writes registers.
    """

    def __init__(self) -> None:
        self.x = _General(self, sp=False)
        self.xsp = _General(self, sp=True)
        self.base = _Base(self)
        self.v = _Vector(self)
        self.mem = _Memory(self)
        self.aligned = _Aligned(self)
        self.sys = _System(self)

    @property
    def flags(self) -> Flags:
        """PSTATE.N, Z, C, V, each one bit."""
        return self.read_flags()

    @flags.setter
    def flags(self, nzcv: Flags) -> None:
        self.write_flags(nzcv)

    def store_if(self, condition: Bits, address: Bits, value: Bits) -> None:
        """Store `value` if `condition`; no access at all otherwise."""
        self.write_memory(address, value.whole, condition)

    @property
    @abstractmethod
    def pc(self) -> Bits:
        """Address of this instruction, 64 bits."""

    @property
    @abstractmethod
    def fpcr(self) -> int:
        """The floating-point control register, known: an engine makes sure of it before it runs the code.

        It is a `kvrm.values.softfloat_core.Control` where exceptions are tracked, so pass it on as it is.
        """

    @property
    @abstractmethod
    def retired(self) -> Bits:
        """Instructions retired before this one: the virtual clock, 64 bits."""

    @abstractmethod
    def read_x(self, r: Bits, n: int, sp: bool) -> Bits:
        """Low n bits of general register r."""

    @abstractmethod
    def write_x(self, r: Bits, value: Bits, sp: bool) -> None:
        """Set a general register to 64 bits."""

    @abstractmethod
    def read_v(self, r: Bits, n: int) -> Bits:
        """Low n bits of SIMD&FP register r."""

    @abstractmethod
    def write_v(self, r: Bits, value: Bits) -> None:
        """Set SIMD&FP register r to `value` (8 to 128 bits), zero above."""

    @abstractmethod
    def read_flags(self) -> Flags:
        """N, Z, C, V."""

    @abstractmethod
    def write_flags(self, nzcv: Flags) -> None:
        """Set N, Z, C, V."""

    @abstractmethod
    def read_memory(self, address: Bits, n: int) -> Bits:
        """n bits (whole bytes, at most 64) at `address`."""

    @abstractmethod
    def write_memory(self, address: Bits, value: Bits, condition: Bits | None) -> None:
        """Store at most 64 whole bytes, if `condition` is None or 1."""

    @abstractmethod
    def require_aligned(self, address: Bits, size: int, store: bool) -> None:
        """Fault unless `address` is a multiple of `size` bytes."""

    @abstractmethod
    def require_sp_aligned(self, r: Bits, address: Bits) -> None:
        """Fault if r is 31 and `address`, which SP has then, is not a multiple of 16."""

    @abstractmethod
    def read_system(self, register: System) -> Bits:
        """A system register, 64 bits."""

    @abstractmethod
    def write_system(self, register: System, value: Bits) -> None:
        """Set a system register to 64 bits."""

    @abstractmethod
    def branch(self, target: Bits, condition: Bits | None = None) -> None:
        """Continue at `target`, if `condition` is None or 1."""

    @abstractmethod
    def event(self, event: Reason, value: Lift = 0) -> None:
        """Stop for the host: SVC and CODE_WRITE retire first, BRK and UNDEFINED do not."""
