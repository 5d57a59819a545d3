"""Advanced SIMD loads and stores of structures: LD1-LD4, ST1-ST4, LD1R-LD4R (Arm ARM C4.1.88).

All elements of an instruction are one access to consecutive memory, so a fault leaves everything untouched.
"""

from __future__ import annotations

from kvrm.isa.assembly import general, printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Static, insn
from kvrm.values import Bits, bits, cond

POST = "post"
"""Kind of the forms that add to the base: the size of the access where Rm is 31, else Rm."""


def _registers(Rt: Bits, count: int) -> list[Bits]:
    """Rt and the registers after it, modulo 32."""
    return [Rt + i for i in range(count)]


def _joined(parts: list[Bits]) -> Bits:
    """Values of one shape, the first one lowest, as one scalar."""
    if len(parts) == 1:
        return parts[0].whole
    lanes = parts[0].lanes
    first = parts[0].shuffle(range(2 * lanes), parts[1])
    if len(parts) == 2:
        return first.whole
    second = parts[2].shuffle(range(2 * lanes), parts[-1])
    joined = first.shuffle(range(len(parts) * lanes), second)
    return joined.whole


# -- Multiple structures --------------------------------------------------------------------------------------------------


def load_multiple(m: Context, address: Bits, Rt: Bits, count: int, structure: int, total: int, esize: int) -> None:
    pass
