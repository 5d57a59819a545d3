"""The Unicorn oracle: the same cases as `qemu`, in-process, as a second opinion from an older QEMU core."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, Final

import unicorn as _typed_by_halves
from unicorn import arm64_const as reg

from .case import (
    ADDRESS_MASK,
    BRK_WORD,
    BROKEN,
    CODE_BASE,
    CODE_SIZE,
    DATA_BASE,
    DATA_SIZE,
    ENTRY,
    MAX_WORDS,
    STEP_LIMIT,
    Case,
    Kind,
    Outcome,
    changed_words,
    check_case,
    data_area,
)

unicorn: Any = _typed_by_halves

MODELS: Final = {
    "cortex-a57": reg.UC_CPU_ARM64_A57,
    "cortex-a53": reg.UC_CPU_ARM64_A53,
    "cortex-a72": reg.UC_CPU_ARM64_A72,
    "max": reg.UC_CPU_ARM64_MAX,
}

# QEMU's exception numbers as UC_HOOK_INTR reports them.
_UNDEFINED, _PREFETCH_ABORT, _DATA_ABORT, _BREAKPOINT = 1, 3, 4, 7

_REGISTERS: Final = (
    *range(reg.UC_ARM64_REG_X0, reg.UC_ARM64_REG_X0 + 29),
    *(reg.UC_ARM64_REG_X29, reg.UC_ARM64_REG_X30, reg.UC_ARM64_REG_SP, reg.UC_ARM64_REG_NZCV),
    *(reg.UC_ARM64_REG_FPCR, reg.UC_ARM64_REG_FPSR, reg.UC_ARM64_REG_TPIDR_EL0, reg.UC_ARM64_REG_PC),
    *range(reg.UC_ARM64_REG_V0, reg.UC_ARM64_REG_V0 + 32),
)
_NARROW: Final = len(_REGISTERS) - 32
_STATE: Final = struct.Struct(f"<{_NARROW}Q512s")

_NOWHERE: Final = 0x7F5A_3C1E_9D28_B4F4
"""Where emulation would end without an exception; a case does not branch there."""
_ERET: Final = 0xD69F_03E0
# System registers as Unicorn's (CRn, CRm, op0, op1, op2), and the values with which Linux runs user mode:
# access to CTR, DC ZVA, cache maintenance, WFE and WFI; FP and AdvSIMD; the top byte of addresses ignored.
_SCTLR_EL1: Final = (1, 0, 3, 0, 0)
_USER_CONTROL: Final = 1 << 26 | 1 << 18 | 1 << 16 | 1 << 15 | 1 << 14
_SETUP: Final = (
    ((1, 0, 3, 0, 2), 3 << 20),  # CPACR_EL1.FPEN
    ((2, 0, 3, 0, 2), 1 << 37 | 16),  # TCR_EL1.TBI0, T0SZ
    ((4, 0, 3, 0, 0), 0),  # SPSR_EL1: EL0t
    ((4, 0, 3, 0, 1), ENTRY),  # ELR_EL1
)


class UnicornOracle:
    """Answers cases as Unicorn's CPU model `cpu` (a key of `MODELS`) does at EL0.

    Where it is no witness: tagged data addresses fault (its MMU is off); DC ZVA and stores that cross into
    a guard page run on past the fault (BROKEN); WFI never returns (TIMEOUT); the alignment of ordered
    accesses is not checked; ID registers and instructions of Armv8.4 and later are undefined; LDSMIN and
    LDSMAX of 8, 16 and 32 bits are often wrong. Some unallocated words, such as 0e7918fa,
    abort the whole process: ask it only about words that another side calls allocated.
    """

    def __init__(self, cpu: str = "max") -> None:
        self.cpu = cpu
        self._uc = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM, MODELS[cpu])
        self._uc.mem_map(CODE_BASE, CODE_SIZE, unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC)
        self._uc.mem_map(DATA_BASE, DATA_SIZE, unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
        self._loaded: tuple[int, ...] = ()
        self._seed: int | None = None
        self._stops: list[tuple[Kind, int | None]] = []
        self._enter_user_mode()
        self._uc.mem_write(CODE_BASE, struct.pack("<I", BRK_WORD) * (CODE_SIZE // 4))
        self._fresh = self._uc.context_save()
        self._uc.hook_add(unicorn.UC_HOOK_INTR, self._on_exception)
        self._uc.hook_add(unicorn.UC_HOOK_MEM_INVALID, self._on_bad_access)
        self._share_registers()

    def run(self, cases: Sequence[Case]) -> list[Outcome]:
        """The outcome of each case, in order. ValueError if one has no, too many, or SVC words."""
        for case in cases:
            check_case(case)
        return [self._run_one(case) for case in cases]

    def _enter_user_mode(self) -> None:
        uc = self._uc
        uc.reg_write(reg.UC_ARM64_REG_CP_REG, (*_SCTLR_EL1, self._read_sctlr() | _USER_CONTROL))
        for register, value in _SETUP:
            uc.reg_write(reg.UC_ARM64_REG_CP_REG, (*register, value))
        self._write_code(0, (_ERET,))
        uc.emu_start(ENTRY, _NOWHERE, count=1)
        self._write_code(0, (BRK_WORD,))

    def _read_sctlr(self) -> int:
        value: int = self._uc.reg_read(reg.UC_ARM64_REG_CP_REG, _SCTLR_EL1)
        return value

    def _share_registers(self) -> None:
        """One buffer to read and write all registers by; Unicorn's public calls build one each time."""
        count = len(_REGISTERS)
        self._buffer = ctypes.create_string_buffer(_STATE.size)
        start = ctypes.addressof(self._buffer)
        offsets = [*range(0, _NARROW * 8, 8), *range(_NARROW * 8, _STATE.size, 16)]
        self._batch: tuple[Any, Any, Any] = (
            (ctypes.c_int * count)(*_REGISTERS),
            (ctypes.c_void_p * count)(*(start + offset for offset in offsets)),
            ctypes.c_int(count),
        )

    def _on_exception(self, uc: Any, number: int, _user: object) -> None:
        pc = uc.reg_read(reg.UC_ARM64_REG_PC)
        if number == _BREAKPOINT:
            stop = Kind.BRK, None
        elif number in (_PREFETCH_ABORT, _DATA_ABORT) or pc % 4:
            stop = Kind.ALIGNMENT, pc & ADDRESS_MASK if pc % 4 else None
        else:
            stop = (Kind.UNDEFINED if number == _UNDEFINED else Kind.BROKEN), None
        self._stops.append(stop)
        uc.emu_stop()

    def _on_bad_access(self, _uc: Any, _access: int, address: int, *_rest: object) -> bool:
        self._stops.append((Kind.FAULT, address & ADDRESS_MASK))
        return False

    def _write_code(self, index: int, words: Sequence[int]) -> None:
        self._uc.mem_write(ENTRY + 4 * index, struct.pack(f"<{len(words)}I", *words))
        self._uc.ctl_remove_cache(ENTRY, ENTRY + 4 * MAX_WORDS + 4)

    def _load(self, case: Case) -> None:
        self._uc.context_restore(self._fresh)
        if case.words != self._loaded:
            self._write_code(0, (*case.words, *[BRK_WORD] * (len(self._loaded) - len(case.words))))
            self._loaded = case.words
        if case.data_seed != self._seed:
            self._uc.mem_write(DATA_BASE, data_area(case.data_seed))
            self._seed = case.data_seed
        vectors = b"".join([v.to_bytes(16, "little") for v in case.v])
        narrow = (*case.x, case.sp, case.nzcv << 28, case.fpcr, case.fpsr, case.tpidr, ENTRY)
        self._buffer.raw = _STATE.pack(*narrow, vectors)
        if self._uc._do_reg_write_batch(*self._batch):
            raise RuntimeError("Unicorn refuses to write registers")

    def _run_one(self, case: Case) -> Outcome:
        self._load(case)
        self._stops.clear()
        try:
            self._uc.emu_start(ENTRY, _NOWHERE, count=STEP_LIMIT)
        except unicorn.UcError as error:
            if not self._stops:
                raise RuntimeError(f"Unicorn cannot run {case.words!r}: {error}") from error
        return self._outcome(case)

    def _outcome(self, case: Case) -> Outcome:
        data = changed_words(case.data_seed, bytes(self._uc.mem_read(DATA_BASE, DATA_SIZE)))
        if data:
            self._seed = None
        if len(self._stops) > 1:
            return BROKEN
        kind, address = self._stops[0] if self._stops else (Kind.TIMEOUT, None)
        if self._uc._do_reg_read_batch(*self._batch):
            raise RuntimeError("Unicorn refuses to read registers")
        *x, sp, nzcv, fpcr, fpsr, tpidr, pc, vectors = _STATE.unpack(self._buffer.raw)
        halves = struct.unpack("<64Q", vectors)
        v = tuple([low | high << 64 for low, high in zip(halves[::2], halves[1::2], strict=True)])
        return Outcome(kind, pc, address, tuple(x), sp, v, nzcv >> 28, fpcr, fpsr, tpidr, data)
