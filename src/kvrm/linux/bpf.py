"""Classic BPF as seccomp has it: programs of the guest that decide about its own system calls (seccomp(2)).

A program sees the 64 bytes of `struct seccomp_data` and cannot loop, so its cost is bounded by its length.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

DATA_BYTES: Final = 64
MOST_INSTRUCTIONS: Final = 4096
_SLOTS: Final = 16
_U32: Final = (1 << 32) - 1

_LD, _LDX, _ST, _STX, _ALU, _JMP, _RET, _MISC = range(8)
_IMM, _ABS, _MEM, _LEN = 0x00, 0x20, 0x60, 0x80
_X, _A, _TXA = 0x08, 0x10, 0x80
_OPERATIONS: Final[dict[int, Callable[[int, int], int]]] = {
    0x00: lambda a, b: a + b,
    0x10: lambda a, b: a - b,
    0x20: lambda a, b: a * b,
    0x30: lambda a, b: a // b,
    0x40: lambda a, b: a | b,
    0x50: lambda a, b: a & b,
    0x60: lambda a, b: a << b if b < 32 else 0,
    0x70: lambda a, b: a >> b if b < 32 else 0,
    0x80: lambda a, b: -a,
    0xA0: lambda a, b: a ^ b,
}
_DIV, _LSH, _RSH, _NEG = 0x30, 0x60, 0x70, 0x80
_JUMPS: Final[dict[int, Callable[[int, int], bool]]] = {
    0x10: lambda a, b: a == b,
    0x20: lambda a, b: a > b,
    0x30: lambda a, b: a >= b,
    0x40: lambda a, b: bool(a & b),
}


class Instruction(NamedTuple):
    """`struct sock_filter`: code, where to go if a condition holds or not, operand."""

    code: int
    true: int
    false: int
    k: int


Program = tuple[Instruction, ...]
LAYOUT: Final = struct.Struct("<HBBI")


def is_valid(program: Sequence[Instruction]) -> bool:
    """Whether Linux takes the program for seccomp."""
    return (
        0 < len(program) <= MOST_INSTRUCTIONS
        and program[-1].code & 7 == _RET
        and all(_is_known(step, len(program) - at - 1) for at, step in enumerate(program))
    )


def _is_known(step: Instruction, left: int) -> bool:
    """Whether there is such an instruction, with `left` ones after it."""
    kind, rest = step.code & 7, step.code & ~7
    match kind:
        case 0 if rest == _ABS:
            return step.k < DATA_BYTES and not step.k % 4
        case 0 | 1:
            return rest in (_IMM, _LEN) or (rest == _MEM and step.k < _SLOTS)
        case 2 | 3:
            return not rest and step.k < _SLOTS
        case 4:
            operation, by_x = rest & ~_X, rest & _X
            divides = operation == _DIV and not by_x and not step.k
            shifts_out = operation in (_LSH, _RSH) and not by_x and step.k >= 32
            known = operation in _OPERATIONS and not (operation == _NEG and by_x)
            return known and not divides and not shifts_out
        case 5 if not rest:
            return step.k < left
        case 5:
            return rest & ~_X in _JUMPS and max(step.true, step.false) < left
        case 6:
            return rest in (0, _A)
        case _:
            return rest in (0, _TXA)


def run(program: Program, data: bytes) -> int:
    """What a valid program returns for `struct seccomp_data`; 0 if it divides by 0."""
    a = x = at = 0
    slots = [0] * _SLOTS
    while True:
        code, true, false, k = program[at]
        at += 1
        kind, rest = code & 7, code & ~7
        match kind:
            case 0 | 1:
                if rest == _ABS:
                    value = int.from_bytes(data[k : k + 4], "little")
                else:
                    value = slots[k] if rest == _MEM else DATA_BYTES if rest == _LEN else k
                a, x = (value, x) if kind == _LD else (a, value)
            case 2 | 3:
                slots[k] = a if kind == _ST else x
            case 4:
                operand = x if rest & _X else k
                if rest & ~_X == _DIV and not operand:
                    return 0
                a = _OPERATIONS[rest & ~_X](a, operand) & _U32
            case 5 if not rest:
                at += k
            case 5:
                at += true if _JUMPS[rest & ~_X](a, x if rest & _X else k) else false
            case 6:
                return a if rest == _A else k
            case _:
                a, x = (x, x) if rest == _TXA else (a, a)
