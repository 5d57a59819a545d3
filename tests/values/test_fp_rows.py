"""Every floating-point row: what it emits for the host computes what it folds to, on chosen operands."""

from __future__ import annotations

import ctypes
import io
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import llvmlite.binding as llvm
import pytest
from llvmlite import ir

from kvrm.engine.nodes import RunNode
from kvrm.staging import native
from kvrm.staging.emitter import PTR, Emitter, constant, integer
from kvrm.values import Bits, Node, Primitive, concat, fp, fp_convert, fp_estimate
from kvrm.values.softfloat_core import FORMATS, Rounding
from oracle.operands import FRACTION_BITS, chosen_float, chosen_integer

TRIES = 400
TOWARDS_ZERO = Rounding.ZERO
SHAPES = [(16, 1), (32, 1), (64, 1), (16, 4), (32, 2), (16, 8), (32, 4), (64, 2)]
ROUNDINGS = [Rounding.TIEEVEN, Rounding.POSINF, Rounding.NEGINF, Rounding.ZERO, Rounding.TIEAWAY]


class Code:
    """A stage that emits into one function."""

    level = 1

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter

    def apply(
        self, row: Primitive, width: int, lanes: int, args: Sequence[Bits], attrs: tuple[Any, ...]
    ) -> Node:
        values = [self.value(a) for a in args]
        return RunNode(self, row.emit(self.emitter, integer(width, lanes), *values, *attrs))

    def value(self, b: Bits) -> ir.Value:
        p = b.payload
        return p.value if isinstance(p, RunNode) else constant(integer(b.width, b.lanes), p)


@dataclass(frozen=True)
class Row:
    """An operation on values of given widths; `ints` are the operands that are no floating-point numbers."""

    name: str
    operation: Callable[..., Bits]
    widths: tuple[int, ...]
    lanes: int
    ints: bool = False


def _rows() -> list[Row]:
    found = []
    for (n, lanes), name in itertools.product(
        SHAPES,
        "fadd fsub fmul fmulx fdiv frecps frsqrts fmax fmin fmaxnm fminnm "
        "fcmpeq fcmpge fcmpgt funordered".split(),
    ):
        found.append(Row(name, lambda a, b, name=name: getattr(fp, name)(a, b, 0), (n, n), lanes))
    for n, lanes in SHAPES[:3]:
        found.append(Row("fcmplt", lambda a, b: fp.fcmplt(a, b, False, 0), (n, n), lanes))
    for n, lanes in SHAPES:
        found.append(Row("fmuladd", lambda c, a, b: fp.fmuladd(c, a, b, 0), (n, n, n), lanes))
        found.append(Row("fsqrt", lambda a: fp.fsqrt(a, 0), (n,), lanes))
        for name in ("frecpe", "frsqrte", "frecpx"):
            found.append(Row(name, lambda a, name=name: getattr(fp_estimate, name)(a, 0), (n,), lanes))
        for r in ROUNDINGS:
            found.append(Row(f"frint {r.name}", lambda a, r=r: fp.frint(a, r, 0), (n,), lanes))
        found += _integers(n, lanes)
        for r, to in itertools.product((Rounding.ZERO, Rounding.TIEEVEN), (32, 64) if n > 16 else ()):
            operation = partial(lambda r, to, a: fp.frint_bounded(a, r, to, 0), r, to)
            found.append(Row(f"frint{to} {r.name}", operation, (n,), lanes))
    found.append(Row("fjcvtzs", lambda a: concat(*fp_convert.fjcvtzs(a, 0)[::-1]), (64,), 1))
    for lanes in (1, 2, 4):
        found.append(Row("fwiden", lambda a: fp_convert.fwiden(a, 0), (16,), lanes))
        for n, to in ((16, 32), (16, 64), (32, 16), (32, 64), (64, 16), (64, 32)):
            found.append(Row(f"fcvt to {to}", lambda a, to=to: fp_convert.fcvt(a, to, 0), (n,), lanes))
        found.append(Row("fcvtxn", lambda a: fp_convert.fcvtxn(a, 0), (64,), lanes))
        found.append(Row("urecpe", fp_estimate.urecpe, (32,), lanes, ints=True))
        found.append(Row("ursqrte", fp_estimate.ursqrte, (32,), lanes, ints=True))
    return found


def _integers(n: int, lanes: int) -> list[Row]:
    found = []
    for to, unsigned in itertools.product((16, 32, 64)[n > 16 :] if lanes == 1 else (n,), (False, True)):
        scaled = fp_convert.scale_width(n, to)
        for r in ROUNDINGS:
            found.append(
                Row(
                    f"to {'us'[not unsigned]}{to} {r.name}",
                    lambda a, to=to, u=unsigned, r=r: fp_convert.fcvt_to_fixed(a, to, u, r, 0),
                    (n,),
                    lanes,
                )
            )
        for power in (1, to // 2, to - 1, to):
            up, down = (Bits(scaled, fp_convert.power_of_two(scaled, s)) for s in (power, -power))
            found.append(
                Row(
                    f"to {'us'[not unsigned]}{to} with {power} fraction bits",
                    lambda a, to=to, u=unsigned, s=up: fp_convert.fcvt_to_fixed(a, to, u, TOWARDS_ZERO, 0, s),
                    (n,),
                    lanes,
                )
            )
            found.append(
                Row(
                    f"from {'us'[not unsigned]}{to} with {power} fraction bits to {n}",
                    lambda a, u=unsigned, n=n, s=down: fp_convert.fixed_to_fp(a, n, u, 0, s),
                    (to,),
                    lanes,
                    ints=True,
                )
            )
    return found


ROWS = _rows()


@pytest.fixture(scope="module")
def compiled() -> tuple[native.Loader, str]:
    """All rows as functions `row<i>(operands..., result)` over pointers."""
    module = ir.Module()
    for i, row in enumerate(ROWS):
        fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR] * (len(row.widths) + 1)), f"row{i}")
        code = Code(Emitter(fn.append_basic_block()))
        operands = [
            Bits(w, RunNode(code, code.emitter.load(p, typ=integer(w, row.lanes), align=1)), row.lanes)
            for w, p in zip(row.widths, fn.args, strict=False)
        ]
        code.emitter.store(code.value(row.operation(*operands)), fn.args[-1], align=1)
        code.emitter.ret_void()
    loader = native.Loader()
    loader.load(native.compile_object(str(module)))
    return loader, str(module)


Compiled = tuple[native.Loader, str]


def run(compiled: Compiled, number: int, operands: Sequence[tuple[int, ...]]) -> tuple[int, int]:
    """What the row folds to and what it computes, as whole numbers."""
    row = ROWS[number]
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_char_p] * (len(row.widths) + 1))
    call = kind(compiled[0].address(f"row{number}"))
    want = row.operation(
        *(Bits(w, v if row.lanes > 1 else v[0], row.lanes) for w, v in zip(row.widths, operands, strict=True))
    )
    buffers = [
        sum(v << i * w for i, v in enumerate(vs)).to_bytes(64, "little")
        for w, vs in zip(row.widths, operands, strict=True)
    ]
    out = ctypes.create_string_buffer(64)
    call(*buffers, out)
    return int(want.whole), int.from_bytes(out.raw, "little") & (1 << want.width * want.lanes) - 1


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[f"{r.name} {r.lanes}x{r.widths}" for r in ROWS])
def test_emit_agrees_with_fold(compiled: tuple[native.Loader, str], number: int) -> None:
    row, rng = ROWS[number], random.Random(number)
    choose = chosen_integer if row.ints else chosen_float
    for _ in range(TRIES // row.lanes):
        operands = [tuple(choose(rng, w) for _ in range(row.lanes)) for w in row.widths]
        want, got = run(compiled, number, operands)
        assert hex(got) == hex(want), [[hex(v) for v in vs] for vs in operands]


def special(width: int) -> list[int]:
    """Zeros, infinities, the smallest and largest numbers, one, NaNs of both kinds with payloads."""
    f = FORMATS[width]
    quiet, signalling = f.infinity | f.quiet | 5, f.sign | f.infinity | 9
    return [
        0,
        f.sign,
        f.infinity,
        f.sign | f.infinity,
        1,
        f.infinity - 1,
        f.bias << f.fraction,
        quiet,
        signalling,
    ]


@pytest.mark.parametrize("number", [i for i, r in enumerate(ROWS) if not r.ints], ids=lambda i: ROWS[i].name)
def test_special_values(compiled: Compiled, number: int) -> None:
    """Every combination of special values, neighbouring lanes different."""
    row = ROWS[number]
    for values in itertools.product(*(special(w) for w in row.widths)):
        operands = [
            tuple(v if lane % 2 == 0 else special(w)[lane] for lane in range(row.lanes))
            for v, w in zip(values, row.widths, strict=True)
        ]
        want, got = run(compiled, number, operands)
        assert hex(got) == hex(want), [[hex(v) for v in vs] for vs in operands]


@pytest.mark.parametrize(
    "number",
    [i for i, r in enumerate(ROWS) if r.lanes == 8 and len(r.widths) == 1],
    ids=lambda i: ROWS[i].name,
)
def test_every_half(compiled: Compiled, number: int) -> None:
    """Operations with one operand of half precision, or on 16-bit integers: all 65,536 there are."""
    for first in range(0, 1 << 16, 8):
        want, got = run(compiled, number, [tuple(range(first, first + 8))])
        assert hex(got) == hex(want), hex(first)


def near_tie(rng: random.Random, exponent: int) -> tuple[int, int, int]:
    """Halves c, a, b where c has that biased exponent and a * b is about half of its last place.

    Often a * b is as close to a power of two as it can be without being one.
    """
    c = rng.getrandbits(1) << 15 | exponent << 10 | rng.choice((0, 1, 0x3FE, 0x3FF, rng.getrandbits(10)))
    first = rng.randrange(1, 31)
    second = exponent - 10 - rng.randrange(4) - first + 15
    i = rng.choice((0, 1, rng.getrandbits(10)))
    j = rng.choice((0, (1 << 21) // (1024 + i) - 1024 + rng.randint(-1, 1), rng.getrandbits(10)))
    b = rng.getrandbits(1) << 15 | min(max(second, 0), 30) << 10 | min(max(j, 0), 0x3FF)
    return c, first << 10 | i, b


def row_number(name: str, lanes: int) -> int:
    """Of a row for halves."""
    return next(i for i, r in enumerate(ROWS) if (r.name, r.lanes, r.widths[0]) == (name, lanes, 16))


@pytest.mark.parametrize(
    ("name", "exponents"), [("fmuladd", range(1, 31)), ("frecps", [16]), ("frsqrts", [16])]
)
def test_half_ties(compiled: Compiled, name: str, exponents: Sequence[int]) -> None:
    """Sums of a half (of 2 or 3, in the steps) and a product near ties, where rounding twice would show."""
    number, rng = row_number(name, 8), random.Random(name)
    for _ in range(2000):
        lanes = [near_tie(rng, rng.choice(exponents)) for _ in range(8)]
        operands = list(zip(*lanes, strict=True))[-len(ROWS[number].widths) :]
        want, got = run(compiled, number, operands)
        assert hex(got) == hex(want), [[hex(v) for v in vs] for vs in operands]


@pytest.mark.parametrize("sign", "us")
def test_large_integers_near_half_ties(compiled: Compiled, sign: str) -> None:
    """Integers that no double holds, where a double would be a tie."""
    number = next(i for i, r in enumerate(ROWS) if r.name == f"from {sign}64 with 64 fraction bits to 16")
    rng = random.Random(sign)
    for _ in range(TRIES):
        shift = rng.randrange(38, 53 - (sign == "s"))
        tie = (1 << 11 | rng.getrandbits(11) | 1) << shift
        value = tie + rng.choice((-1, 0, 1))
        value = value if sign == "u" or rng.getrandbits(1) else -value & (1 << 64) - 1
        want, got = run(compiled, number, [(value,)])
        assert hex(got) == hex(want), hex(value)


@pytest.mark.parametrize("name", ["frecpe", "frsqrte", "urecpe", "ursqrte"])
def test_every_estimate(compiled: tuple[native.Loader, str], name: str) -> None:
    """All table entries: 8 fraction bits with an odd and an even exponent, or 9 bits of an integer."""
    for number, row in enumerate(ROWS):
        if row.name == name and row.widths[0] > 16:
            at = 23 if row.ints else FRACTION_BITS[row.widths[0]] - 8
            low = 0 if row.ints else 1 << row.widths[0] - 5 - at
            for index in range(low, low + 512):
                want, got = run(compiled, number, [((index << at) + 1,) * row.lanes])
                assert hex(got) == hex(want), hex(index << at)


def test_no_library_calls(compiled: tuple[native.Loader, str]) -> None:
    """A host with FMA3 and SSE4.1, which is x86-64-v3, needs no function that the object does not have."""
    from elftools.elf.elffile import ELFFile

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("x86_64-linux-gnu").create_target_machine(cpu="x86-64-v3")
    code = machine.emit_object(llvm.parse_assembly(compiled[1]))
    symbols = ELFFile(io.BytesIO(code)).get_section_by_name(".symtab").iter_symbols()
    assert [s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF" and s.name] == []
