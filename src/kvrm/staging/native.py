"""From LLVM text to object code to addresses. LLVM is imported only where something is to be compiled."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Protocol

import llvmlite

from kvrm import cache
from kvrm.errors import UsageError
from kvrm.staging import linking, objects
from kvrm.staging.objects import Object

STAGES = ("decode", "stage", "opt", "asm", "ptx")
CPU = ("vendor_id", "cpu family", "model", "stepping", "flags")
CPU_OF_ARM = ("CPU implementer", "CPU variant", "CPU part", "Features")
"""Lines of /proc/cpuinfo that say what LLVM tunes code to."""


def dumps() -> frozenset[str]:
    """What KVRM_DUMP asks to see; UsageError if it names other stages."""
    asked = frozenset(t for t in os.environ.get("KVRM_DUMP", "").split(",") if t)
    if asked - set(STAGES):
        raise UsageError(f"KVRM_DUMP={os.environ['KVRM_DUMP']}: it is {','.join(STAGES)} in any choice")
    return asked


def dump(stage: str, text: str, heading: str = "") -> None:
    """Print `text` on standard error, below its stage and a heading, if KVRM_DUMP names the stage."""
    if stage in dumps():
        lines = [f"; ---- {stage}", *(f"; {line}" for line in heading.splitlines()), text]
        print("\n".join(lines), file=sys.stderr)


def host_is_x86() -> bool:
    """Whether compiled code runs on x86-64."""
    return os.uname().machine == "x86_64"


def compile_object(text: str, heading: str = "", quickly: bool = False) -> Object:
    """Object code of a module given as LLVM text, from disk or compiled now. Threads may call this.

    `heading` says in KVRM_DUMP's output what it is; with KVRM_DUMP everything is compiled anew. `quickly` is
    for straight code, with the few passes that it profits from: the others take six times as long.
    """

    def compile_text() -> bytes:
        from kvrm.staging import llvm

        return llvm.compile_text(text, heading, quickly)

    compiler = f"{fingerprint()}{' quickly' if quickly else ''}"
    return objects.compiled(text, compiler, compile_text, use_disk=not dumps())


class Code(Protocol):
    """An object that is linked, and runs as long as this lives."""

    def address(self, name: str) -> int:
        """The host address of a global symbol; 0 if there is none."""


def _link(code: bytes) -> Code:
    if host_is_x86():
        return linking.Linked(code)
    from kvrm.staging import llvm

    return llvm.Linked(code)


class Loader:
    """Keeps object code in memory and tells where its functions are."""

    def __init__(self) -> None:
        self._codes: list[Code] = []

    def load(self, file: Object) -> None:
        """Link an object file into the process."""
        self._codes.append(_link(file.code))

    def address(self, name: str) -> int:
        """Host address of an external symbol; LookupError if there is none."""
        # first where the caller has just loaded something
        found = next(filter(None, (code.address(name) for code in reversed(self._codes))), None)
        if found is None:
            raise LookupError(name)
        return found


def loaded(text: str) -> Loader:
    """The code of a module, given as LLVM text, in a loader of its own."""
    loader = Loader()
    loader.load(compile_object(text))
    return loader


def load_kept(name: str, text: Callable[[], str]) -> Loader:
    """As `loaded`, for a module whose text takes long to make: each version of the package makes it once.

    `name` tells the module from all others, and says what from outside the package its text depends on.
    """
    index = versioned("modules") / name
    known = None if dumps() else cache.read_checked(index)
    file = None if known is None else objects.find(known.decode())
    if file is None:
        file = compile_object(text())
        cache.write_checked(index, file.name.encode())
    loader = Loader()
    loader.load(file)
    return loader


def versioned(kind: str) -> Path:
    """The folder for what this version of the package makes of programs here (`kvrm.cache.package_hash`)."""
    stamp = f"{cache.package_hash()} {fingerprint()}".encode()
    return cache.versioned_directory(kind, hashlib.blake2b(stamp, digest_size=12).hexdigest())


@functools.cache
def fingerprint() -> str:
    """What object code depends on besides its text: LLVM, the CPU, and the passes that `llvm.py` runs."""
    passes = hashlib.blake2b(Path(__file__).with_name("llvm.py").read_bytes(), digest_size=8).hexdigest()
    return f"{llvmlite.__version__} {host_cpu()} {passes}"


def host_cpu() -> str:
    """What the kernel says of the first CPU: its model and its features. LLVM would have to be imported."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        fields = [line.partition(":") for line in takewhile(str.strip, file)]
    return " ".join(value.strip() for name, _, value in fields if name.strip() in CPU + CPU_OF_ARM)
