"""FRINT32Z, FRINT32X, FRINT64Z, FRINT64X: rounding to what an integer of 32 or 64 bits holds, FEAT_FRINTTS.

Scalars are floating-point data processing (1 source), vectors two-register miscellaneous (Arm ARM C4.1.96).
"""

from __future__ import annotations

from kvrm.isa.a64.fp_common import elements, shape_of, width_of
from kvrm.isa.context import Context
from kvrm.isa.definition import Execution, Static, insn
from kvrm.values import Bits
from kvrm.values.fp import frint_bounded
from kvrm.values.softfloat_core import Rounding, rounding_mode

EXECUTION = Execution.ARITHMETIC


def round_to_size(a: Bits, size: int, exact: bool, fpcr: int) -> Bits:
    """Towards zero, or by FPCR if `exact`."""
    return frint_bounded(a, rounding_mode(fpcr) if exact else Rounding.ZERO, size, fpcr)


def _scalar(m: Context, ftype: Static, Rn: Bits, Rd: Bits, size: int, exact: bool) -> None:
    n = width_of(ftype)
    m.v[Rd, n] = round_to_size(m.v[Rn, n], size, exact, m.fpcr)


def _vector(m: Context, Q: Static, sz: Static, Rn: Bits, Rd: Bits, size: int, exact: bool) -> None:
    n, esize = shape_of(Q, sz)
    m.v[Rd, n] = round_to_size(elements(m, Rn, n, esize), size, exact, m.fpcr)


for _double, _size in enumerate((32, 64)):
    for _x, _letter in enumerate("ZX"):
        _name = f"FRINT{_size}{_letter}"
        insn(
            f"{_name} (scalar)",
            f"000 11110 ftype:2 1 0100 {_double}{_x} 10000 Rn:5 Rd:5",
            f"{_name.lower()} {{Rd:fp}}, {{Rn:fp}}",
            key=f"{_name.lower()}_scalar",
            unallocated="ftype=1x",
            feature="FEAT_FRINTTS",
            size=_size,
            exact=_letter == "X",
        )(_scalar)
        insn(
            f"{_name} (vector)",
            f"0 Q {_x} 01110 0 sz 10000 1111{_double} 10 Rn:5 Rd:5",
            f"{_name.lower()} {{Rd:fp_v}}, {{Rn:fp_v}}",
            key=f"{_name.lower()}_vector",
            unallocated="Q=0 sz=1",
            feature="FEAT_FRINTTS",
            size=_size,
            exact=_letter == "X",
        )(_vector)
