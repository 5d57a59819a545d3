"""A selection of the suites' programs, under KVRM and QEMU; all of them: docs/measurements/suites.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from suites import building, running
from suites.catalogue import Program, programs
from suites.crew import Lost, run_all
from suites.outcome import EXIT_0
from suites.sources import Unavailable, sources
from suites.verdict import Verdict, judge

SELECTION: Final = {
    "gcc-execute": """
        20040811-1 arith-rand arith-rand-ll bf64-1 bitfld-3 built-in-setjmp cbrt complex-6 conversion
        divconst-1 fprintf-1 loop-15 memcpy-1 memset-3 nestfunc-1 pr43220 pr58574 scal-to-vec1 simd-4
        stdarg-2 strncmp-1 struct-ret-1 user-printf va-arg-22 vla-dealloc-1
    """,
    "gcc-ieee": "cdivchkld compare-fp-1 copysign1 fp-cmp-8 mul-subnormal-single-1 rbug",
    "gcc-advsimd": """
        bf16_vldN_lane_1 p64_p128 vcvt_fXX_fXX vcvtx vdot-exec vfma vldX_lane vmull vqdmlal_lane vqrdmlah
        vqrshl vqtbX vreinterpret_p128 vrev vst1x4 vzip
    """,
    "gcc-aarch64": "asm-flag-6 fmaxmin pr94514 ror sisd-shft-neg_1 tlsle24_1 vect-fcm-gt-d vect-vcvt",
    "gcc-simd": "ext_u8_1 f16_convs_1 jcvt_2 vminmaxnm_1 vmulx_f64_2 vqshlb_1",
    "gcc-aapcs64": "func-ret-3 test_quad_double va_arg-12",
    "valgrind": """
        atomics_v81 crc32 cvtf_imm fmadd_sub fp_and_simd fp_and_simd_v82 integer ldxp_stxp memory simd_v81
    """,
    "qemu-tcg": "fcvt float_convd float_convs float_madds overflow sha1 sha512 test-mmap",
}
NAMES: Final = [f"{suite}/{name}" for suite, names in SELECTION.items() for name in names.split()]
THIRD: Final = [
    name if i % 3 == 2 else pytest.param(name, marks=pytest.mark.slow) for i, name in enumerate(NAMES)
]
"""One in three by default, of each suite."""
REFERENCE: Final = [name for name in NAMES if name.startswith(("gcc-aapcs64/", "gcc-simd/"))]


@pytest.fixture(scope="session")
def catalogue() -> dict[str, Program]:
    """All programs by suite and name."""
    if reason := building.missing() or running.missing():
        pytest.skip(reason)
    try:
        return {program.id: program for program in programs(sources())}
    except Unavailable as reason:
        pytest.skip(f"the suites cannot be fetched: {reason}")


def _executable(program: Program) -> Path:
    try:
        return building.build(program)
    except building.CannotCompile as complaint:
        pytest.skip(f"this compiler rejects it: {complaint}")


@pytest.mark.parametrize("name", THIRD)
def test_like_qemu(name: str, catalogue: dict[str, Program]) -> None:
    program = catalogue[name]
    executable = _executable(program)
    qemu, own = running.under_qemu(executable), running.under_kvrm(executable, program.fp_flags)
    judgement = judge(program, qemu.outcome(program.expected), own.outcome(program.expected))
    if judgement.verdict is Verdict.NOT_RUNNABLE:
        pytest.skip(judgement.reason)
    assert judgement.verdict is Verdict.PASSED, judgement.reason


@pytest.mark.parametrize("name", REFERENCE)
def test_engines_agree(name: str, catalogue: dict[str, Program]) -> None:
    executable = _executable(catalogue[name])
    native, reference = (running.under_kvrm(executable, engine=e) for e in ("interpreter", "reference"))
    assert (native.ended, native.stdout, native.retired) == (EXIT_0, reference.stdout, reference.retired)


def test_a_worker_that_dies_costs_only_its_task() -> None:
    answers = dict(run_all(_die_of_three, [1, 2, 3, 4, 5], jobs=2, seconds=60))
    lost = answers.pop(3)
    assert isinstance(lost, Lost) and "7" in lost.reason
    assert answers == {1: 1, 2: 4, 4: 16, 5: 25}


def _die_of_three(number: int) -> int:
    if number == 3:
        sys.exit(7)
    return number * number


@pytest.mark.slow
def test_everything(catalogue: dict[str, Program], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "suites", "--json", str(tmp_path / "results.json")],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
