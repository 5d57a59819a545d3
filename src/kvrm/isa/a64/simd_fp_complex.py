"""Complex numbers in vectors, FEAT_FCMA: three-register extension and by element (Arm ARM C4.1.96).

An even element and the next one are real and imaginary part. The rotation by a multiple of 90 degrees turns
the second operand by swapping and negating parts.
"""

from __future__ import annotations

from collections.abc import Callable

from kvrm.isa.a64.fp_common import FP16, arrangement, elements
from kvrm.isa.assembly import number, printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Execution, Operation, Static, insn
from kvrm.values import Bits, concat
from kvrm.values.fp import fadd, fmuladd
from kvrm.values.softfloat_core import FORMATS

EXECUTION = Execution.MULTIPLY_DIVIDE

FCMA = "FEAT_FCMA"


def _swapped(a: Bits) -> Bits:
    """Real and imaginary parts exchanged."""
    return a.shuffle([i ^ 1 for i in range(a.lanes)])


def _negated(a: Bits, real: bool, imaginary: bool) -> Bits:
    """The parts that are told negated, a NaN as well."""
    sign = FORMATS[a.width].sign
    return a ^ Bits(a.width, (sign * real, sign * imaginary) * (a.lanes // 2), a.lanes)


def _multiply_add(d: Bits, a: Bits, b: Bits, rot: int, fpcr: int) -> Bits:
    """d plus half of a complex product: that of the real (rot 0, 2) or the imaginary parts (1, 3) of `a`.

    It is negated for 2 and 3.
    """
    part = rot & 1
    factor = a.shuffle([i & ~1 | part for i in range(a.lanes)])
    turned = _swapped(b) if part else b
    return fmuladd(d, factor, _negated(turned, real=rot in (1, 2), imaginary=rot in (2, 3)), fpcr)


# -- Text -----------------------------------------------------------------------------------------------


@printer
def complex_v(d: Decoded, r: int) -> str:
    """Vector register, arranged by `Q` and `size`."""
    return f"v{r}.{arrangement(64 << d.Q, 8 << d.size)}"


@printer
def rotation(d: Decoded, rot: int) -> str:
    """A multiple of 90 degrees."""
    return number(90 * rot)


@printer
def odd_rotation(d: Decoded, rot: int) -> str:
    """90 or 270 degrees."""
    return number(90 + 180 * rot)


@printer
def complex_element(d: Decoded, _: int) -> str:
    """One complex number of a vector, by `H` and `L`, or `H` alone where they are of single precision."""
    return f"v{d.M << 4 | d.Rm}." + (f"h[{d.H << 1 | d.L}]" if d.size == 1 else f"s[{d.H}]")


# -- Definitions ----------------------------------------------------------------------------------------

VECTORS = "{Rd:complex_v}, {Rn:complex_v}"
FULL, HALF = "size=0x | Q=0 size=11", "size=00 | size=1x"
"""Unallocated among singles and doubles, and among halves, which FEAT_FP16 has as well."""


def both(
    name: str,
    diagram: str,
    text: str,
    key: str,
    full: str = FULL,
    half: str = HALF,
    execution: Execution | None = None,
) -> Callable[[Operation], Operation]:
    """Define an instruction on singles and doubles, and on halves."""

    def register(operation: Operation) -> Operation:
        for suffix, holes, feature in (("", full, FCMA), ("_half", half, f"{FCMA} {FP16}")):
            insn(
                name,
                diagram,
                text,
                key=key + suffix,
                unallocated=holes,
                feature=feature,
                execution=execution,
            )(operation)
        return operation

    return register


@both(
    "FCADD",
    "0 Q 1 01110 size:2 0 Rm:5 1 11 rot 0 1 Rn:5 Rd:5",
    f"fcadd {VECTORS}, {{Rm:complex_v}}, {{rot:odd_rotation}}",
    key="fcadd",
    execution=Execution.ARITHMETIC,
)
def fcadd(m: Context, Q: Static, size: Static, Rm: Bits, rot: Static, Rn: Bits, Rd: Bits) -> None:
    n, esize = 64 << Q, 8 << size
    turned = _negated(_swapped(elements(m, Rm, n, esize)), real=not rot, imaginary=bool(rot))
    m.v[Rd, n] = fadd(elements(m, Rn, n, esize), turned, m.fpcr)


@both(
    "FCMLA",
    "0 Q 1 01110 size:2 0 Rm:5 1 10 rot:2 1 Rn:5 Rd:5",
    f"fcmla {VECTORS}, {{Rm:complex_v}}, {{rot:rotation}}",
    key="fcmla",
)
def fcmla(m: Context, Q: Static, size: Static, Rm: Bits, rot: Static, Rn: Bits, Rd: Bits) -> None:
    n, esize = 64 << Q, 8 << size
    d, a, b = (elements(m, r, n, esize) for r in (Rd, Rn, Rm))
    m.v[Rd, n] = _multiply_add(d, a, b, rot, m.fpcr)


@both(
    "FCMLA (by element)",
    "0 Q 1 01111 size:2 L M Rm:4 0 rot:2 1 H 0 Rn:5 Rd:5",
    f"fcmla {VECTORS}, {{:complex_element}}, {{rot:rotation}}",
    key="fcmla_by_element",
    full="size=0x | size=11 | L=1 | Q=0",
    half=f"{HALF} | Q=0 H=1",
)
def fcmla_by_element(
    m: Context,
    Q: Static,
    size: Static,
    L: Bits,
    M: Bits,
    Rm: Bits,
    rot: Static,
    H: Bits,
    Rn: Bits,
    Rd: Bits,
) -> None:
    n, esize = 64 << Q, 8 << size
    d, a = elements(m, Rd, n, esize), elements(m, Rn, n, esize)
    index = concat(H, L) if size == 1 else H
    pair = m.v[concat(M, Rm), 128].split(2 * esize).lane(index)
    m.v[Rd, n] = _multiply_add(d, a, pair.splat(a.lanes // 2).split(esize), rot, m.fpcr)
