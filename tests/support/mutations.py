# ruff: noqa: E501 - one row per mutation
"""Plants semantic errors in definitions, one at a time, and checks that the differential test finds each.

    python tests/support/mutations.py [--only N ...]

Every mutation is a change of source text in a copy of the package. How many of the 1000 cases find it is printed,
too: one that few find may survive another seed. Exit code 1 if one survives.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from places import REPOSITORY

CASES = {"KVRM_TEST_CASES": "1000"}
PACKAGE = REPOSITORY / "src" / "kvrm"


class Mutation(NamedTuple):
    """What kind of mistake it is, where, the right and the wrong text, and a definition that must fail."""

    kind: str
    file: str
    right: str
    wrong: str
    key: str


IMM, REG, LANES = "isa/a64/dp_immediate.py", "isa/a64/dp_register.py", "isa/a64/simd_lanes.py"
SOURCES = "isa/a64/dp_sources.py"
COMMON, BRANCH, LOAD = "isa/a64/common.py", "isa/a64/branches.py", "isa/a64/loads_stores_register.py"
PAIR, SAME, SHIFT = (
    "isa/a64/loads_stores_pair.py",
    "isa/a64/simd_three_same.py",
    "isa/a64/simd_shift_immediate.py",
)
PERMUTE, ACROSS, LONG = (
    "isa/a64/simd_permute.py",
    "isa/a64/simd_across_lanes.py",
    "isa/a64/simd_three_different.py",
)
CONVERT, FP = "isa/a64/fp_conversions.py", "isa/a64/fp_data_processing.py"
FP_ELEMENT, COMPLEX = "isa/a64/simd_fp_by_element.py", "isa/a64/simd_fp_complex.py"
EXCLUSIVE = "isa/a64/loads_stores_exclusive.py"

MUTATIONS = [
    Mutation("swapped operands", SOURCES, "m.x[Rn, n].udiv(m.x[Rm, n])", "m.x[Rm, n].udiv(m.x[Rn, n])", "udiv"),
    Mutation("swapped operands", SOURCES, "m.x[Rn, n].sdiv(m.x[Rm, n])", "m.x[Rm, n].sdiv(m.x[Rn, n])", "sdiv"),
    Mutation("sign", SOURCES, "m.x[Ra, n] - m.x[Rn, n] * m.x[Rm, n]", "m.x[Rn, n] * m.x[Rm, n] - m.x[Ra, n]", "msub"),
    Mutation("sign", SOURCES, "m.x[Rn, 64].umulh(m.x[Rm, 64])", "m.x[Rn, 64].smulh(m.x[Rm, 64])", "umulh"),
    Mutation("width", SOURCES, "m.x[Rm, n] & (n - 1))", "m.x[Rm, n] & 63)", "lslv"),
    Mutation("off by one", SOURCES, "(value ^ value.asr(1)).clz() - 1", "(value ^ value.asr(1)).clz()", "cls"),
    Mutation("lane order", SOURCES, "m.x[Rn, n].split(16).byte_reverse()", "m.x[Rn, n].split(32).byte_reverse()", "rev16"),
    Mutation("missing increment", REG, 'if op in ("csinc", "csneg"):', 'if op in ("csinc",):', "csneg"),
    Mutation("missing flag", REG, 'if op in ("ands", "bics"):', 'if op in ("ands",):', "bics_shift"),
    Mutation("wrong operator", REG, 'if op in ("bic", "orn", "eon", "bics"):', 'if op in ("bic", "orn", "bics"):', "eon_shift"),
    Mutation("carry ignored", REG, "~b if subtract else b, m.flags[2])", "~b if subtract else b, m.flags[1])", "adcs"),
    Mutation("condition inverted", REG, "choose(holds, flag, nzcv", "choose(~holds, flag, nzcv", "ccmp_register"),
    Mutation("flag order", REG, "nzcv.lsr(3 - i)", "nzcv.lsr(i)", "ccmn_immediate"),
    Mutation("zero for SP", IMM, "m.xsp[Rd, n] = m.xsp[Rn, n] + _imm12", "m.xsp[Rd, n] = m.x[Rn, n] + _imm12", "add_imm"),
    Mutation("SP for zero", IMM, "m.x[Rd, n], m.flags = sub_flags(m.xsp[Rn, n]", "m.xsp[Rd, n], m.flags = sub_flags(m.xsp[Rn, n]", "subs_imm"),
    Mutation("shift amount", IMM, "cond(sh, bits(n, 12), 0)", "cond(sh, bits(n, 16), 0)", "add_imm"),
    Mutation("missing mask", IMM, "m.x[Rn, n].ror(immr.zext(n)) & (wmask & tmask)", "m.x[Rn, n].ror(immr.zext(n)) & wmask", "ubfm"),
    Mutation("sign not extended", IMM, "(top & ~tmask) | ", "", "sbfm"),
    Mutation("insertion clears", IMM, "(m.x[Rd, n] & ~mask) | (m.x[Rn, n].ror", "(m.x[Rn, n].ror", "bfm"),
    Mutation("swapped halves", IMM, "m.x[Rm, n].lsr(low) | m.x[Rn, n].lsl", "m.x[Rn, n].lsr(low) | m.x[Rm, n].lsl", "extr"),
    Mutation("old bits lost", IMM, "(m.x[Rd, n] & ~bits(n, 0xFFFF).lsl(at)) | imm16", "imm16", "movk"),
    Mutation("page not cut", IMM, "m.x[Rd, 64] = (m.pc & ~4095)", "m.x[Rd, 64] = m.pc", "adrp"),
    Mutation("overflow flag", COMMON, "overflow = ((x ^ y) & (x ^ difference)).sign", "overflow = ((x ^ y) & (y ^ difference)).sign", "subs_shift"),
    Mutation("carry flag", COMMON, "difference.eq(0), x.uge(y), overflow", "difference.eq(0), x.ugt(y), overflow", "subs_imm"),
    Mutation("condition code", COMMON, "4: lambda: c & ~z,", "4: lambda: c | ~z,", "b_cond"),
    Mutation("condition code", COMMON, "6: lambda: ~(n ^ v) & ~z,", "6: lambda: ~(n ^ v),", "csel"),
    Mutation("bit number", BRANCH, "lsr(concat(b5, b40).zext(64))[0]", "lsr(b40.zext(64))[0]", "tbnz"),
    Mutation("link register", BRANCH, "    m.x[30, 64] = m.pc + 4\n    m.branch(relative", "    m.x[30, 64] = m.pc\n    m.branch(relative", "bl"),
    Mutation("order of read and write", BRANCH, "    target = m.x[Rn, 64]\n    m.x[30, 64] = m.pc + 4\n", "    m.x[30, 64] = m.pc + 4\n    target = m.x[Rn, 64]\n", "blr"),
    Mutation("sign of a load", LOAD, "m.mem[address, size].sext(width)", "m.mem[address, size].zext(width)", "ldrsb_x_unsigned"),
    Mutation("scale", LOAD, "imm12.zext(64).lsl(transfer.scale)", "imm12.zext(64)", "ldr_x_unsigned"),
    Mutation("offset sign", LOAD, "transfer.base(m, Rn) + imm9.sext(64), Rt)", "transfer.base(m, Rn) + imm9.zext(64), Rt)", "ldur_x_unscaled"),
    Mutation("no writeback", LOAD, "    transfer.access(m, address, Rt)\n    m.xsp[Rn, 64] = address + imm9.sext(64)\n", "    transfer.access(m, address, Rt)\n", "str_x_post"),
    Mutation("index extension", LOAD, "word.sext(64) if option == 0b110", "word.zext(64) if option == 0b110", "ldr_w_register"),
    Mutation("pair order", PAIR, "concat(m.v[Rt2, size], m.v[Rt, size])", "concat(m.v[Rt, size], m.v[Rt2, size])", "stp_d_offset"),
    Mutation("upper half kept", "engine/reference.py", "self._state.v[int(r)] = int(value)", "self._state.v[int(r)] = int(value) | self._state.v[int(r)] >> 64 << 64", "fadd_scalar"),
    Mutation("status inverted", EXCLUSIVE, "cond(passes, bits(32, 0), 1)", "cond(passes, bits(32, 1), 0)", "stxr_w"),
    Mutation("rounding", SAME, "(a | b) - (a ^ b).asr(1)", "(a & b) + (a ^ b).asr(1)", "srhadd"),
    Mutation("strictness", SAME, "mask_if(a.sgt(b), a.width)", "mask_if(a.sge(b), a.width)", "cmgt_register"),
    Mutation("selected operand", SAME, "b ^ ((b ^ a) & d)", "a ^ ((b ^ a) & d)", "bsl"),
    Mutation("saturation off by one", LANES, "a.smin(limit - 1).smax(-limit)", "a.smin(limit).smax(-limit)", "sqxtn"),
    Mutation("saturation direction", LANES, "a.asr(a.width - 1) ^ (least(a.width) - 1), moved)", "a.asr(a.width - 1) ^ least(a.width), moved)", "sqshl_immediate_s"),
    Mutation("QC not set", "isa/a64/simd_common.py", "result.clamped.whole.ne(0).zext(64).lsl(QC)", "0", "sqadd"),
    Mutation("rounding bit", LANES, "(shift(a, n - 1) & 1)", "(shift(a, n) & 1)", "srshr_h"),
    Mutation("doubling", LANES, "    p = product_signed(a, b)\n    return add_signed(p, p)", "    p = product_signed(a, b)\n    return saturating(p, p)", "sqdmull_vector"),
    Mutation("lane order", PERMUTE, '("001", "UZP1", lambda i, count: 2 * i)', '("001", "UZP1", lambda i, count: 2 * i + 1)', "uzp1"),
    Mutation("lane order", PERMUTE, "i // 2 + i % 2 * count + count // 2", "i // 2 + i % 2 * count", "zip2"),
    Mutation("table bound", PERMUTE, "at.ult(16), pick", "at.ule(16), pick", "tbl"),
    Mutation("signedness", ACROSS, '"UMINV", _across, "{Rd:scalar}", Bits.umin', '"UMINV", _across, "{Rd:scalar}", Bits.smin', "uminv"),
    Mutation("signedness", LONG, '"USUBL, USUBL2", lambda a, b: wide_unsigned(a)', '"USUBL, USUBL2", lambda a, b: wide_signed(a)', "usubl"),
    Mutation("rounding constant", LONG, "1 << (a.width // 2 - 1)", "1 << (a.width // 2)", "raddhn"),
    Mutation("shift range", SHIFT, "(bits(7, esize) - imm.zext(7))", "(bits(7, esize - 1) - imm.zext(7))", "ushr_s"),
    Mutation("rounding mode", CONVERT, '"FCVTP": ("01", "00", Rounding.POSINF)', '"FCVTP": ("01", "00", Rounding.NEGINF)', "fcvtps_integer"),
    Mutation("rounding mode", CONVERT, '"FCVTA": ("00", "10", Rounding.TIEAWAY)', '"FCVTA": ("00", "10", Rounding.TIEEVEN)', "fcvtas_integer"),
    Mutation("NaN order", "values/softfloat.py", "return propagate_nan(f, fpcr, flags, c, a, b)", "return propagate_nan(f, fpcr, flags, a, b, c)", "fmadd"),
    Mutation("NaN priority", "values/softfloat_core.py", "chosen = x | f.quiet", "pass", "fadd_scalar"),
    Mutation("sign of zero", "values/softfloat.py", "        return a & b\n    return a if _order(a, f) > _order(b, f)", "        return a | b\n    return a if _order(a, f) > _order(b, f)", "fmax_scalar"),
    Mutation("lane number", FP_ELEMENT, "concat(H, L, M)", "concat(H, M, L)", "fmla_element_half"),
    Mutation("sign", COMPLEX, "real=rot in (1, 2)", "real=rot in (2, 3)", "fcmla_half"),
    Mutation("half chosen", "isa/a64/simd_fp_multiply_long.py", "lane(int(upper))", "lane(0)", "fmlsl2_vector"),
    Mutation("order of reduction", "isa/a64/simd_fp_reduce.py", "a.shuffle(range(1, a.lanes, 2)), fpcr", "a.shuffle(range(a.lanes // 2, a.lanes)), fpcr", "fmaxv_half"),
    Mutation("flush of halves", "values/softfloat_convert.py", "x = flush_input(x, FORMATS[16], fpcr, DISCARD)", "pass", "fmlal_vector"),
]  # fmt: skip


@contextmanager
def planted(file: str, right: str, wrong: str) -> Iterator[dict[str, str]]:
    """A copy of the package with a mistake in it: the environment in which Python imports that."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "src" / "kvrm"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        text = (copy / file).read_text()
        if right not in text:
            raise SystemExit(f"{file} has no {right!r}")
        (copy / file).write_text(text.replace(right, wrong, 1))
        yield os.environ | {"PYTHONPATH": f"{directory}/src"}


def tested(tests: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run tests of this repository."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    paths = [f"{REPOSITORY}/{test}" for test in tests]
    return subprocess.run([*command, *paths], env=environment, capture_output=True, text=True)


def found(m: Mutation) -> tuple[int, int]:
    """How many cases of the differential test fail with the mistake in place, and of how many."""
    with planted(m.file, m.right, m.wrong) as environment, tempfile.TemporaryDirectory() as cache:
        test = f"tests/isa/test_differential.py::test_definition[{m.key}]"
        done = tested([test], CASES | environment | {"KVRM_CACHE": cache})
    if done.returncode == 0:
        return 0, 0
    if done.returncode == 1 and (count := re.search(r"(\d+) of (\d+) differ", done.stdout)):
        return int(count[1]), int(count[2])
    raise SystemExit(f"{m}: the test did not run\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def main() -> int:
    """Try all mutations, or those chosen by number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=int, nargs="*", metavar="N")
    chosen = parser.parse_args().only
    survivors = 0
    for number, m in enumerate(MUTATIONS):
        if chosen is None or number in chosen:
            hits, cases = found(m)
            survivors += not hits
            verdict = f"caught by {hits} of {cases}" if hits else "SURVIVES"
            print(f"{number:3} {verdict:<21} {m.key}: {m.kind}", flush=True)
    print(f"{survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
