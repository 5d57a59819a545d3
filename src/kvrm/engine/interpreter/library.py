"""The handler library: every handler that was ever needed, compiled once, kept on disk and in this process.

A *segment* is one object file with some handlers and the rows of the decode table that lead to them. Segments are files
named by their content's hash, written under a temporary name and renamed, so processes can share the directory; a damaged one
is noticed by its checksum and built again. The directory's name is a hash of all that the code depends on.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import logging
import os
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvrm import cache
from kvrm.engine import native

log = logging.getLogger("kvrm")

Variant = tuple[str, tuple[int, ...]]
"""A handler's name: the definition's key and its static field values."""

BATCH = 48
"""Handlers per segment: enough to share LLVM's fixed cost, few enough to spread over cores."""
KEYS = 1 << 11


class Library:
    """Handlers of this process, growing as programs need them. Use `library()`: there is one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.RLock()
        self._loader = native.Loader()
        self._known: set[Variant] = set()
        self._rows: list[npt.NDArray[np.uint32]] = []
        self._decoders = np.zeros(0, np.uint64)
        self.version = 0
        self._loadable = not native.dumps()
        self._load_segments()
        if "runtime" not in self._segments:
            self._add_segment(self._build_runtime())
        self.enter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._loader.address("enter"))
        self.undecoded = self._loader.address("undecoded")
        self.next_page = self._loader.address("next_page")
        self.breakpoint = self._loader.address("breakpoint")

    # -- what handlers use ----------------------------------------------------------------------------------------
    @property
    def tables(self) -> tuple[int, int, int]:
        """Host addresses of buckets, candidates and decoders; valid while `version` stays."""
        return self._buckets.ctypes.data, self._candidates.ctypes.data, self._decoders.ctypes.data

    def ensure(self, variants: Iterable[Variant], purpose: str = "") -> None:
        """Compile those that are not there yet."""
        with self._lock:
            missing = sorted(set(variants) - self._known)
            if not missing:
                return
            if purpose:
                log.info("compiling %d instruction handlers %s", len(missing), purpose)
            for segment in _build(missing):
                self._add_segment(segment)

    def ensure_text(self, text: bytes) -> None:
        """Compile the handlers of a program's code; which programs are done is remembered on disk."""
        done = self._directory / f"{hashlib.blake2b(text, digest_size=12).hexdigest()}.text"
        if cache.read_checked(done) is None:
            words = np.frombuffer(text[: len(text) & -4], "<u4").astype(np.uint32)
            self.ensure_words(words, "for this program (once; they are kept)")
            cache.write_checked(done, b"")

    def ensure_words(self, words: npt.NDArray[np.uint32], purpose: str = "") -> None:
        """Compile the handlers of all allocated words among `words`."""
        self.ensure(variants_of(words), purpose)

    # -- segments -------------------------------------------------------------------------------------------------
    def _load_segments(self) -> None:
        self._segments: set[str] = set()
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._directory.glob("*.segment")) if self._loadable else ():
            data = cache.read_checked(path)
            if data is not None:
                self._link(data)
        self._refresh()

    def _add_segment(self, data: bytes) -> None:
        name = hashlib.blake2b(data, digest_size=12).hexdigest()
        cache.write_checked(self._directory / f"{name}.segment", data)
        self._link(data)
        self._refresh()

    def _link(self, data: bytes) -> None:
        size = int.from_bytes(data[:8], "little")
        head = json.loads(data[8 : 8 + size])
        rows_at = 8 + size
        code_at = rows_at + head["rows"] * 16
        if head["name"] in self._segments:
            return
        self._segments.add(head["name"])
        self._loader.load(data[code_at:])
        variants: set[Variant] = {(k, tuple(s)) for k, s in head["variants"]}
        if not variants:
            return
        table = self._loader.address(f"table_{head['name']}")
        decoders = np.frombuffer(ctypes.string_at(table, 8 * len(variants)), np.uint64)
        rows = np.frombuffer(data[rows_at:code_at], np.uint32).reshape(-1, 4).copy()
        rows[:, 3] += len(self._decoders)
        self._known |= variants
        self._decoders = np.concatenate([self._decoders, decoders])
        self._rows.append(rows)

    def _refresh(self) -> None:
        rows = np.concatenate(self._rows) if self._rows else np.zeros((0, 4), np.uint32)
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        edges = np.searchsorted(rows[:, 0], np.arange(KEYS + 1)).astype(np.uint32)
        self._buckets = np.ascontiguousarray(np.stack([edges[:-1], edges[1:]], axis=1))
        self._candidates = np.ascontiguousarray(rows[:, 1:])
        self.version += 1

    def _build_runtime(self) -> bytes:
        from llvmlite import ir

        from kvrm.engine.interpreter.runtime import build_runtime

        module = ir.Module(name="runtime")
        build_runtime(module)
        return _pack("runtime", [], [], native.compile_object(str(module)))


def _pack(name: str, variants: Sequence[Variant], rows: Sequence[Sequence[int]], code: bytes) -> bytes:
    head = json.dumps({"name": name, "variants": variants, "rows": len(rows)}).encode()
    return len(head).to_bytes(8, "little") + head + np.array(rows, np.uint32).tobytes() + code


def _build(variants: Sequence[Variant]) -> list[bytes]:
    """Segments for the given variants, LLVM working on all cores."""
    batches = [variants[i : i + BATCH] for i in range(0, len(variants), BATCH)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(_build_segment, *_stage(batch)) for batch in batches]
        return [job.result() for job in jobs]


def _stage(variants: Sequence[Variant]) -> tuple[str, Sequence[Variant], list[list[int]], str]:
    """Name, variants, decode rows and LLVM text of a segment."""
    from llvmlite import ir

    from kvrm.engine.emitter import PTR
    from kvrm.engine.interpreter.stage import build_handler
    from kvrm.isa.a64 import definition_of
    from kvrm.isa.definition import bucket_keys
    from kvrm.isa.encoding import subtract

    name = hashlib.blake2b(repr(variants).encode(), digest_size=8).hexdigest()
    module = ir.Module(name=name)
    addresses: list[ir.Constant] = []
    rows: list[list[int]] = []
    for number, (key, statics) in enumerate(variants):
        d = definition_of(key)
        label = "/".join([key, *(f"{f.name}={v}" for f, v in zip(d.statics, statics, strict=True))])
        addresses.append(build_handler(module, label, d, statics))
        for cube in subtract(d.variant_cube(statics), d.unallocated):
            rows += [[k, cube.mask, cube.value, number] for k in bucket_keys(cube)]
            native.dump("decode", f"{cube.mask:08x} {cube.value:08x} {label}")
    t = ir.ArrayType(PTR, len(addresses))
    table = ir.GlobalVariable(module, t, f"table_{name}")
    table.initializer = ir.Constant(t, addresses)
    table.global_constant = True
    return name, variants, rows, str(module)


def _build_segment(name: str, variants: Sequence[Variant], rows: list[list[int]], text: str) -> bytes:
    return _pack(name, variants, rows, native.compile_object(text))


def variants_of(words: npt.NDArray[np.uint32]) -> set[Variant]:
    """The handlers that the allocated words among `words` need."""
    from kvrm.isa.a64 import definitions
    from kvrm.isa.decoder import decode_many

    unique = np.unique(words)
    found = decode_many(unique)
    out: set[Variant] = set()
    for index in np.unique(found[found >= 0]):
        d = definitions[index]
        mask = sum(((1 << f.width) - 1) << f.low for f in d.statics)
        out |= {(d.key, d.statics_of(int(w))) for w in np.unique(unique[found == index] & np.uint32(mask))}
    return out


@functools.cache
def library() -> Library:
    """The process's library."""
    stamp = hashlib.blake2b(f"{cache.source_hash()} {native.fingerprint()}".encode(), digest_size=12).hexdigest()
    return Library(cache.versioned_directory("handlers", stamp))
