"""Machine code on disk, named by a hash of the text that was compiled and of the compiler.

A name that says all that the code depends on cannot be stale: another text has another name. The folders of
one version of the package (`kvrm.staging.native.versioned`) only spare a start the work of making the text
again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kvrm import cache

LARGEST_CACHE = 1 << 30
"""Bytes of machine code that are kept on disk; what was written longest ago goes first."""
SHRINK_EVERY = 64
"""Writes between two looks at the size of the folder: to list thousands of files takes milliseconds."""

_written = 0


@dataclass(frozen=True, slots=True)
class Object:
    """A piece of machine code (an object file or a cubin) and its name, 32 hexadecimal digits."""

    name: str
    code: bytes


def find(name: str) -> Object | None:
    """The object of that name; None if it is not on disk."""
    code = cache.read_checked(_folder() / name)
    return None if code is None else Object(name, code)


def name_of(text: str, compiler: str) -> str:
    """The name of what `compiler` (its version, options and target) makes of a text."""
    return hashlib.blake2b(f"{compiler}\n{text}".encode(), digest_size=16).hexdigest()


def compiled(text: str, compiler: str, compile_text: Callable[[], bytes], use_disk: bool = True) -> Object:
    """What `compile_text` makes of `text`, from disk if any process made it before."""
    name = name_of(text, compiler)
    if use_disk and (known := find(name)) is not None:
        return known
    made = Object(name, compile_text())
    if use_disk:
        _keep(made)
    return made


def _keep(made: Object) -> None:
    global _written
    cache.write_checked(_folder() / made.name, made.code)
    if _written % SHRINK_EVERY == 0:
        cache.shrink(_folder(), "*", LARGEST_CACHE)
    _written += 1


def _folder() -> Path:
    return cache.root() / "objects"
