"""Cryptographic AES (Arm ARM C4.1.96): one round of the cipher in two instructions."""

from __future__ import annotations

from collections.abc import Callable

from kvrm.isa.a64.simd_lanes import mask_if
from kvrm.isa.context import Context
from kvrm.isa.definition import Execution, insn
from kvrm.values import Bits
from kvrm.values.crypto import AES, AES_INVERSE, lookup

EXECUTION = Execution.LOGICAL

# Byte 4c + r of a register is row r of column c of the state.


def _rows_shifted(state: Bits, by: int) -> Bits:
    """Each row rotated towards lower columns, by as many columns as its number times `by`."""
    return state.shuffle([(i + 4 * by * (i % 4)) % 16 for i in range(16)])


def _rows_rotated(state: Bits, by: int) -> Bits:
    """Each row replaced by the one `by` below it."""
    return state.shuffle([i // 4 * 4 + (i + by) % 4 for i in range(16)])


def _doubled(a: Bits) -> Bits:
    """Twice each byte in AES's field."""
    return a.lsl(1) ^ (mask_if(a.sign, 8) & 0x1B)


def mix_columns(state: Bits) -> Bits:
    """AESMixColumns(): each column times 2 3 1 1 and its rotations."""
    below = _rows_rotated(state, 1)
    return _doubled(state ^ below) ^ below ^ _rows_rotated(state, 2) ^ _rows_rotated(state, 3)


def inverse_mix_columns(state: Bits) -> Bits:
    """AESInvMixColumns(), by its quotient 5 0 4 0 with the forward one."""
    return mix_columns(state ^ _doubled(_doubled(state ^ _rows_rotated(state, 2))))


def encrypt(state: Bits) -> Bits:
    """AESSubBytes(AESShiftRows())."""
    return lookup(_rows_shifted(state, 1), AES)


def decrypt(state: Bits) -> Bits:
    """AESInvSubBytes(AESInvShiftRows())."""
    return lookup(_rows_shifted(state, -1), AES_INVERSE)


def _with_key(m: Context, Rn: Bits, Rd: Bits, op: Callable[[Bits], Bits]) -> None:
    m.v[Rd, 128] = op(m.v[Rd, 128].split(8) ^ m.v[Rn, 128].split(8))


def _mix(m: Context, Rn: Bits, Rd: Bits, op: Callable[[Bits], Bits]) -> None:
    m.v[Rd, 128] = op(m.v[Rn, 128].split(8))


for _opcode, _name, _operation, _op in (
    ("00100", "AESE", _with_key, encrypt),
    ("00101", "AESD", _with_key, decrypt),
    ("00110", "AESMC", _mix, mix_columns),
    ("00111", "AESIMC", _mix, inverse_mix_columns),
):
    insn(
        _name,
        f"01001110 00 10100 {_opcode} 10 Rn:5 Rd:5",
        f"{_name.lower()} v{{Rd}}.16b, v{{Rn}}.16b",
        key=_name.lower(),
        feature="FEAT_AES",
        op=_op,
    )(_operation)
