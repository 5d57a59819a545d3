"""Which programs the suites hold, and how each is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from suites import dejagnu

COMMON: Final = ("-w", "-static", "-s")
NEON: Final = "-march=armv8.2-a+fp16"


@dataclass(frozen=True, slots=True)
class Program:
    """One test program: its sources, the compiler's flags, and the file that says what it prints.

    `fp_flags`: it looks at the cumulative exception flags of FPSR, which KVRM keeps on demand.
    """

    suite: str
    name: str
    sources: tuple[Path, ...]
    flags: tuple[str, ...]
    libraries: tuple[str, ...] = ("-lm",)
    expected: Path | None = None
    fp_flags: bool = False

    @property
    def id(self) -> str:
        """Suite and name."""
        return f"{self.suite}/{self.name}"


@dataclass(frozen=True, slots=True)
class Trees:
    """Where the sources are, and the optimisation level of programs that ask for none."""

    root: Path
    level: str = "-O2"

    @property
    def gcc(self) -> Path:
        """GCC's test suite."""
        return self.root / "gcc/gcc/testsuite"

    @property
    def target(self) -> Path:
        """The part of it that is for AArch64."""
        return self.gcc / "gcc.target/aarch64"


def _gcc_execute(trees: Trees) -> Iterator[Program]:
    for source in sorted((trees.gcc / "gcc.c-torture/execute").glob("*.c")):
        yield _torture(trees, "gcc-execute", source)


def _gcc_ieee(trees: Trees) -> Iterator[Program]:
    # Flags that the .x files beside the programs give.
    special = {
        "compare-fp-3": ("-fno-trapping-math",),
        "compare-fp-4": ("-fno-trapping-math",),
        "fp-cmp-7": ("-fno-trapping-math",),
        "pr38016": ("-fno-ivopts", "-fno-gcse"),
    }
    for source in sorted((trees.gcc / "gcc.c-torture/execute/ieee").glob("*.c")):
        yield _torture(trees, "gcc-ieee", source, "-fno-inline", *special.get(source.stem, ()))


def _torture(trees: Trees, suite: str, source: Path, *more: str) -> Program:
    flags = (*COMMON, "-std=gnu17", trees.level, *more, *dejagnu.flags(source))
    return Program(suite, source.stem, (source,), flags)


def _gcc_advsimd(trees: Trees) -> Iterator[Program]:
    folder = trees.target / "advsimd-intrinsics"
    for source in sorted(folder.glob("*.c")):
        if dejagnu.runs(source, default=True):
            flags = (*COMMON, trees.level, NEON, *dejagnu.flags(source))
            yield Program("gcc-advsimd", source.stem, (source,), flags)


def _gcc_aarch64(trees: Trees) -> Iterator[Program]:
    yield from _gcc_target(trees, "gcc-aarch64", trees.target)


def _gcc_simd(trees: Trees) -> Iterator[Program]:
    for folder in ("simd", "acle", "fp16", "torture"):
        yield from _gcc_target(trees, "gcc-simd", trees.target / folder)


def _gcc_target(trees: Trees, suite: str, folder: Path) -> Iterator[Program]:
    for source in sorted(folder.glob("*.c")):
        if dejagnu.runs(source, default=False):
            flags = dejagnu.flags(source) or (trees.level,)
            yield Program(suite, source.stem, (source,), (*COMMON, *flags))


def _gcc_aapcs64(trees: Trees) -> Iterator[Program]:
    folder = trees.target / "aapcs64"
    kinds = {"test_": (), "va_arg-": (), "func-ret-": ("-fno-ipa-ra",), "rec_": ("-fno-inline",)}
    for prefix, more in kinds.items():
        for source in sorted(folder.glob(f"{prefix}*.c")):
            if dejagnu.runs(source, default=False):
                extra = () if prefix == "rec_" else (folder / "abitest.S",)
                flags = (*COMMON, trees.level, *more, *dejagnu.flags(source))
                yield Program("gcc-aapcs64", source.stem, (source, *extra), flags)


def _valgrind(trees: Trees) -> Iterator[Program]:
    tree = trees.root / "valgrind"
    folder = tree / "none/tests/arm64"
    special = {
        "atomics_v81": ("-march=armv8.1-a",),
        "crc32": ("-march=armv8-a+crc",),
        "cvtf_imm": (),
        "fmadd_sub": (),
        "fp_and_simd": ("-march=armv8-a+crypto",),
        "fp_and_simd_v82": ("-march=armv8.2-a+fp16+crypto",),
        "integer": ("-DTEST_BFM=0",),
        "ldxp_stxp": (),
        "memory": (),
        "simd_v81": ("-march=armv8.1-a+crypto",),
    }
    for name, more in special.items():
        expected = "ldxp_stxp_basisimpl" if name == "ldxp_stxp" else name
        yield Program(
            "valgrind",
            name,
            (folder / f"{name}.c",),
            (*COMMON, "-O0", f"-I{tree}", *more),
            expected=folder / f"{expected}.stdout.exp",
        )


def _qemu_tcg(trees: Trees) -> Iterator[Program]:
    tcg = trees.root / "qemu/tests/tcg"
    own, shared = tcg / "aarch64", tcg / "multiarch"
    yield _tcg(tcg / "arm/fcvt.c", tcg)
    for source in sorted([*own.glob("*.c"), *shared.glob("*.c"), *shared.glob("linux/*.c")]):
        if ".inc." not in source.name:
            yield _tcg(source, tcg)


def _tcg(source: Path, tcg: Path) -> Program:
    name = source.stem
    kinds: dict[str, tuple[str, ...]] = {
        "pauth": ("-march=armv8.3-a",),
        "bti": ("-mbranch-protection=standard",),
        "mte": ("-march=armv8.5-a+memtag",),
        "sysregs": ("-march=armv8.1-a+sve",),
        "sve": ("-march=armv8.1-a+sve",),
        "test-826": ("-march=armv8.1-a+sve2",),
        "sha1": ("-O3",),
        "sha512": ("-O3",),
    }
    more = next((kinds[k] for k in (name, name.partition("-")[0]) if k in kinds), ())
    if name in ("bti-1", "bti-3"):
        more += ("-nostdlib",)
    helpers = (tcg / "multiarch/libs/float_helpers.c",) if name.startswith("float_") else ()
    expected = tcg / f"aarch64/{name}.ref"
    return Program(
        "qemu-tcg",
        name,
        (source, *helpers),
        (*COMMON, "-O0", "-fno-strict-aliasing", *more, f"-I{tcg / 'multiarch'}", f"-I{tcg / 'aarch64'}"),
        libraries=("-lm", "-lpthread"),
        expected=expected if expected.exists() else None,
        fp_flags=name == "fcvt" or name.startswith("float_"),
    )


SUITES: Final[dict[str, Callable[[Trees], Iterator[Program]]]] = {
    "gcc-execute": _gcc_execute,
    "gcc-ieee": _gcc_ieee,
    "gcc-advsimd": _gcc_advsimd,
    "gcc-aarch64": _gcc_aarch64,
    "gcc-simd": _gcc_simd,
    "gcc-aapcs64": _gcc_aapcs64,
    "valgrind": _valgrind,
    "qemu-tcg": _qemu_tcg,
}


def programs(root: Path, level: str = "-O2") -> list[Program]:
    """All programs of all suites, whose sources are below `root` (`suites.sources.sources`)."""
    return [program for suite in SUITES.values() for program in suite(Trees(root, level))]
