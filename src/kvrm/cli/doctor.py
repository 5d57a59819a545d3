"""`kvrm doctor`: what this machine offers to KVRM, and what is missing for what."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import kvrm
from kvrm import cache
from kvrm.cli.exits import Exit

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Finding:
    """One row: what was looked for, what there is (None: nothing), and what that is needed for."""

    what: str
    found: str | None
    otherwise: str = ""


def examine() -> int:
    """Print the findings, a line each; return the exit code."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for finding in findings():
        mark, text = ("", finding.found) if finding.found else ("missing", finding.otherwise)
        table.add_row(Text(finding.what), Text(mark, style="yellow"), Text(text))
    Console(highlight=False, soft_wrap=True).print(table)
    return Exit.OK


def findings() -> Iterator[Finding]:
    """Everything that is looked for, in the order of the screen."""
    yield Finding("KVRM", f"{kvrm.__version__} on Python {platform.python_version()}, {platform.system()}")
    yield Finding("CPU", f"{os.cpu_count()} cores, {_llvm()}")
    yield Finding("memory", _memory())
    yield Finding("GPU", *_gpu())
    yield Finding("networks", *_networks())
    yield Finding("cache", f"{cache.root()}, {_size(cache.root()) / MIB:,.1f} MiB (KVRM_CACHE moves it)")
    yield Finding("QEMU", *_program(["qemu-aarch64", "qemu-aarch64-static"], "tests that compare with it"))
    yield Finding("compiler", *_program(["aarch64-linux-gnu-gcc"], "tests that build guests"))
    for module, purpose in _LIBRARIES.items():
        yield Finding(module, *_library(module, purpose))


_LIBRARIES = {
    "unicorn": "tests that compare instructions: pip install 'kvrm[test]'",
    "capstone": "tests that compare assembly text: pip install 'kvrm[test]'",
}


def _llvm() -> str:
    from kvrm.staging import llvm

    version, cpu = llvm.versions()
    return f"{cpu} to LLVM {version}"


def _memory() -> str:
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    free = os.sysconf("SC_AVPHYS_PAGES")
    return f"{pages * size / MIB:,.0f} MiB, {free * size / MIB:,.0f} MiB of them free"


def _gpu() -> tuple[str | None, str]:
    """The GPU and its driver, or what to do for one."""
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None:
        return None, "target cuda: pip install 'kvrm[cuda]', and an NVIDIA driver"
    from kvrm.backend.gpu.driver import DeviceError, device

    try:
        gpu = device()
    except DeviceError as error:
        return None, f"target cuda: {error}"
    return f"{gpu.name}, {gpu.compiler}, {gpu.free_bytes / MIB:,.0f} MiB free", ""


def _networks() -> tuple[str | None, str]:
    """The weights that ship, or what to do for them."""
    purpose = (
        f"policies that are networks, `kvrm train`, `evaluate` and `prove`: {kvrm.errors.INSTALL_NETWORKS}"
    )
    try:
        from kvrm.neural.weights import SHIPPED
    except ModuleNotFoundError:
        return None, purpose
    return ", ".join(sorted(path.stem for path in SHIPPED.glob("*.npy"))) or None, purpose


def _program(names: list[str], purpose: str) -> tuple[str | None, str]:
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        return None, f"{purpose}: no {names[0]} on PATH"
    done = subprocess.run([path, "--version"], capture_output=True, text=True, errors="replace", check=False)
    return done.stdout.partition("\n")[0] or path, ""


def _library(module: str, purpose: str) -> tuple[str | None, str]:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(module), ""
    except PackageNotFoundError:
        return None, purpose


def _size(folder: Path) -> int:
    """Bytes of all files below a folder; files that other processes remove meanwhile count nothing."""

    def of(path: Path) -> int:
        try:
            return path.lstat().st_size
        except OSError:
            return 0

    return sum(of(Path(where, name)) for where, _, names in os.walk(folder) for name in names)
