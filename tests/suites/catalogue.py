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
    """One test program: its sources, the compiler's flags, and the file that says what it prints."""

    suite: str
    name: str
    sources: tuple[Path, ...]
    flags: tuple[str, ...]
    libraries: tuple[str, ...] = ("-lm",)
    expected: Path | None = None

    @property
    def id(self) -> str:
        """Suite and name."""
        return f"{self.suite}/{self.name}"


def _gcc_execute(root: Path) -> Iterator[Program]:
    for source in sorted((root / "gcc/gcc/testsuite/gcc.c-torture/execute").glob("*.c")):
        yield _torture("gcc-execute", source)


def _gcc_ieee(root: Path) -> Iterator[Program]:
    # Flags that the .x files beside the programs give.
    special = {
        "compare-fp-3": ("-fno-trapping-math",),
        "compare-fp-4": ("-fno-trapping-math",),
        "fp-cmp-7": ("-fno-trapping-math",),
        "pr38016": ("-fno-ivopts", "-fno-gcse"),
    }
    for source in sorted((root / "gcc/gcc/testsuite/gcc.c-torture/execute/ieee").glob("*.c")):
        yield _torture("gcc-ieee", source, "-fno-inline", *special.get(source.stem, ()))


def _torture(suite: str, source: Path, *more: str) -> Program:
    flags = (*COMMON, "-std=gnu17", "-O2", *more, *dejagnu.flags(source))
    return Program(suite, source.stem, (source,), flags)


def _gcc_advsimd(root: Path) -> Iterator[Program]:
    folder = root / "gcc/gcc/testsuite/gcc.target/aarch64/advsimd-intrinsics"
    for source in sorted(folder.glob("*.c")):
        if dejagnu.runs(source, default=True):
            flags = (*COMMON, "-O2", NEON, *dejagnu.flags(source))
            yield Program("gcc-advsimd", source.stem, (source,), flags)


def _gcc_aarch64(root: Path) -> Iterator[Program]:
    yield from _gcc_target("gcc-aarch64", root / "gcc/gcc/testsuite/gcc.target/aarch64")


def _gcc_simd(root: Path) -> Iterator[Program]:
    for folder in ("simd", "acle", "fp16", "torture"):
        yield from _gcc_target("gcc-simd", root / "gcc/gcc/testsuite/gcc.target/aarch64" / folder)


def _gcc_target(suite: str, folder: Path) -> Iterator[Program]:
    for source in sorted(folder.glob("*.c")):
        if dejagnu.runs(source, default=False):
            flags = dejagnu.flags(source) or ("-O2",)
            yield Program(suite, source.stem, (source,), (*COMMON, *flags))


def _gcc_aapcs64(root: Path) -> Iterator[Program]:
    folder = root / "gcc/gcc/testsuite/gcc.target/aarch64/aapcs64"
    kinds = {"test_": (), "va_arg-": (), "func-ret-": ("-fno-ipa-ra",), "rec_": ("-fno-inline",)}
    for prefix, more in kinds.items():
        for source in sorted(folder.glob(f"{prefix}*.c")):
            extra = () if prefix == "rec_" else (folder / "abitest.S",)
            flags = (*COMMON, "-O2", *more, *dejagnu.flags(source))
            yield Program("gcc-aapcs64", source.stem, (source, *extra), flags)


def _valgrind(root: Path) -> Iterator[Program]:
    tree = root / "valgrind"
    folder = tree / "none/tests/arm64"
    special = {
        "allexec": (),
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
        expected = folder / f"{name}.stdout.exp"
        yield Program(
            "valgrind",
            name,
            (folder / f"{name}.c",),
            (*COMMON, "-O0", f"-I{tree}", *more),
            expected=expected if expected.exists() else None,
        )


def _qemu_tcg(root: Path) -> Iterator[Program]:
    tcg = root / "qemu/tests/tcg"
    own, shared = tcg / "aarch64", tcg / "multiarch"
    yield _tcg(tcg / "arm/fcvt.c", tcg)
    for source in sorted([*own.glob("*.c"), *shared.glob("*.c"), *shared.glob("linux/*.c")]):
        if ".inc." not in source.name:
            yield _tcg(source, tcg)


def _tcg(source: Path, tcg: Path) -> Program:
    name = source.stem
    kinds = {
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
    )


SUITES: Final[dict[str, Callable[[Path], Iterator[Program]]]] = {
    "gcc-execute": _gcc_execute,
    "gcc-ieee": _gcc_ieee,
    "gcc-advsimd": _gcc_advsimd,
    "gcc-aarch64": _gcc_aarch64,
    "gcc-simd": _gcc_simd,
    "gcc-aapcs64": _gcc_aapcs64,
    "valgrind": _valgrind,
    "qemu-tcg": _qemu_tcg,
}


def programs(root: Path) -> list[Program]:
    """All programs of all suites, whose sources are below `root` (`suites.sources.sources`)."""
    return [program for suite in SUITES.values() for program in suite(root)]
