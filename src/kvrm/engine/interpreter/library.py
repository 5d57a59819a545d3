"""The handler library: every handler that was ever needed, compiled once, kept on disk and in this process.

A *segment* is one object file with some handlers and the rows of the decode table that lead to them. Segments
are files written under a temporary name and renamed, so that processes can share the directory; a damaged one
is noticed by its checksum and built again. The directory is that of one version of the package
(`kvrm.staging.native.versioned`); object files have names of their own (`kvrm.staging.objects`). A
process loads only the segments that its programs need; which ones those are is remembered per program, so a
second start compiles nothing and reads little.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import inspect
import itertools
import json
import logging
import os
import struct
import threading
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name

from kvrm import cache
from kvrm.engine.interpreter.segment import Segment, Variant
from kvrm.engine.interpreter.slots import KEYS
from kvrm.isa.features import allocates
from kvrm.lane import words as layout
from kvrm.staging import native, objects
from kvrm.staging.objects import Object

log = logging.getLogger("kvrm")

BATCH = 48
"""Handlers per segment: enough to share LLVM's fixed cost, few enough to spread over cores."""
RUNTIME = "runtime"


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """What the native decoder searches: buckets (first and last candidate), candidates, decoders."""

    buckets: array[int]
    candidates: array[int]
    decoders: array[int]

    @property
    def addresses(self) -> dict[int, int]:
        """Host addresses by their offsets in the machine's state; valid while this object lives."""
        return {
            layout.BUCKETS: self.buckets.buffer_info()[0],
            layout.CANDIDATES: self.candidates.buffer_info()[0],
            layout.DECODERS: self.decoders.buffer_info()[0],
        }


class Library:
    """Handlers of this process, growing as programs need them. Use `library()`: there is one of each kind.

    Its handlers are made by the class that `stage` names, that of an observer (`kvrm.observe.observer`), or
    by the plain one.
    """

    def __init__(self, directory: Path, stage: str = "") -> None:
        self._directory, self._observed = directory, stage
        self._lock = threading.RLock()
        self._loader = native.Loader()
        self._loaded: set[str] = set()
        self._known: set[Variant] = set()
        self._seen: set[str] = set()
        self._on_disk: dict[Variant, str] = {}
        self._rows: list[tuple[int, int, int, int]] = []
        self._variants: list[Variant] = []
        self._features: list[str] = []
        self._decoders = array("Q")
        self._use_disk = not native.dumps()
        self.version = 0
        if not self._load(RUNTIME):
            self._add(*_build_runtime())
        self._refresh()
        self.enter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._loader.address("enter"))
        self.record = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
            self._loader.address("record")
        )
        self.lay_out = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * 4)(self._loader.address("lay_out"))
        self.undecoded = self._loader.address("undecoded")
        self.next_page = self._loader.address("next_page")
        self.breakpoint = self._loader.address("breakpoint")
        self.untranslated = self._loader.address("untranslated")

    def tables(self, features: frozenset[str], by_class: bool = False) -> Tables:
        """The decode tables of a machine with these features; they are new whenever `version` is.

        With `by_class`, each execution class has its own buckets, that of class 0 first.
        """
        with self._lock:
            chosen = (features, by_class)
            if chosen not in self._tables:
                self._tables[chosen] = self._make_tables(*chosen)
            return self._tables[chosen]

    def ensure(self, variants: Iterable[Variant], purpose: str = "") -> None:
        """Load or compile those that are not there yet; `purpose` is logged if any are compiled."""
        with self._lock:
            wanted = set(variants) - self._known
            if not wanted:
                return
            on_disk = self._index()
            for name in sorted({on_disk[v] for v in wanted & on_disk.keys()}):
                self._load(name)
            missing = sorted(wanted - self._known)
            if missing and purpose:
                log.info("compiling %d instruction handlers %s", len(missing), purpose)
            for segment, file in _build(missing, self._observed):
                self._add(segment, file)
            self._refresh()

    def ensure_words(self, words: Iterable[int], purpose: str = "") -> None:
        """Load or compile the handlers of all allocated words among `words`."""
        self.ensure(variants_of(array("I", words)), purpose)

    def ensure_text(self, text: bytes) -> str:
        """Load or compile the handlers of a program's code; a hash of that."""
        name = hashlib.blake2b(text, digest_size=12).hexdigest()
        remembered = self._directory / f"{name}.text"
        names = cache.read_checked(remembered)
        if names is not None and self._use_disk:
            with self._lock:
                before = len(self._loaded)
                complete = all(map(self._load, names.decode().split()))
                if len(self._loaded) > before:
                    self._refresh()
            if complete:
                return name
        variants = variants_of(array("I", text[: len(text) & -4]))
        self.ensure(variants, "for this program (once; they are kept)")
        used = {self._on_disk[v] for v in variants & self._on_disk.keys()}
        cache.write_checked(remembered, " ".join(sorted(used)).encode())
        return name

    # -- segments --------------------------------------------------------------------------------------------
    def _index(self) -> dict[Variant, str]:
        """Which segment on disk holds a handler, those that other processes have added included."""
        for path in sorted(self._directory.glob("*.segment")) if self._use_disk else ():
            if path.stem not in self._seen:
                self._seen.add(path.stem)
                with contextlib.suppress(OSError, ValueError):
                    self._on_disk |= dict.fromkeys(Segment.peek(path, cache.CHECKSUM_BYTES), path.stem)
        return self._on_disk

    def _load(self, name: str) -> bool:
        """Link a segment from disk; False if it is not there or damaged."""
        if name in self._loaded:
            return True
        data = cache.read_checked(self._directory / f"{name}.segment") if self._use_disk else None
        segment = None if data is None else Segment.unpack(data)
        file = None if segment is None else objects.find(segment.object)
        if segment is None or file is None:
            return False
        self._link(segment, file)
        return True

    def _add(self, segment: Segment, file: Object) -> None:
        """Keep a new segment on disk and link it."""
        cache.write_checked(self._directory / f"{segment.name}.segment", segment.pack())
        self._seen.add(segment.name)
        self._on_disk.update(dict.fromkeys(segment.variants, segment.name))
        self._link(segment, file)

    def _link(self, segment: Segment, file: Object) -> None:
        self._loaded.add(segment.name)
        self._loader.load(file)
        if not segment.variants:
            return
        table = self._loader.address(f"table_{segment.name}")
        decoders = array("Q", ctypes.string_at(table, 8 * len(segment.variants)))
        self._variants += segment.variants
        self._features += segment.features
        known = len(self._decoders)
        for key, mask, value, number in struct.iter_unpack("4I", segment.rows):
            self._rows.append((key, mask, value, number + known))
        self._known.update(segment.variants)
        # A new array: machines that run now read the old one.
        self._decoders = self._decoders + decoders

    def _refresh(self) -> None:
        self._tables: dict[tuple[frozenset[str], bool], Tables] = {}
        self.version += 1

    def _make_tables(self, features: frozenset[str], by_class: bool) -> Tables:
        allocated = [allocates(features, f) for f in self._features]
        count, classes = _classes_of(self._variants) if by_class else (1, [0] * len(allocated))
        bucketed: list[list[int]] = [[] for _ in range(count * KEYS)]
        for key, mask, value, number in self._rows:
            if allocated[number]:
                bucketed[classes[number] * KEYS + key] += (mask, value, number)
        buckets, candidates = array("I"), array("I")
        for rows in bucketed:
            first = len(candidates) // 3
            candidates.extend(rows)
            buckets.extend((first, len(candidates) // 3))
        return Tables(buckets, candidates, self._decoders)


def _classes_of(variants: Iterable[Variant]) -> tuple[int, list[int]]:
    """How many execution classes there are, and that of each variant."""
    from kvrm.isa.a64 import definition_of
    from kvrm.isa.definition import Execution

    return len(Execution), [int(definition_of(key).execution) for key, _ in variants]


def _build_runtime() -> tuple[Segment, Object]:
    from llvmlite import ir

    from kvrm.engine.interpreter.runtime import build_runtime

    module = ir.Module(name=RUNTIME)
    build_runtime(module)
    file = native.compile_object(str(module))
    return Segment(RUNTIME, [], [], array("I"), file.name), file


def _build(variants: Sequence[Variant], observed: str) -> list[tuple[Segment, Object]]:
    """Segments for the given variants, LLVM working on all cores."""
    from concurrent.futures import ThreadPoolExecutor

    batches = [variants[i : i + BATCH] for i in range(0, len(variants), BATCH)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(_compile, *_stage(batch, observed)) for batch in batches]
        return [job.result() for job in jobs]


def _compile(
    name: str, variants: Sequence[Variant], rows: list[list[int]], text: str
) -> tuple[Segment, Object]:
    from kvrm.isa.a64 import definition_of

    features = [definition_of(key).feature or "" for key, _ in variants]
    table = array("I", itertools.chain.from_iterable(rows))
    file = native.compile_object(text)
    return Segment(name, list(variants), features, table, file.name), file


def _stage(variants: Sequence[Variant], observed: str) -> tuple[str, Sequence[Variant], list[list[int]], str]:
    """Name, variants, decode rows and LLVM text of a segment."""
    from llvmlite import ir

    from kvrm.engine.interpreter.stage import HandlerStage
    from kvrm.engine.interpreter.variant_handlers import build_handlers
    from kvrm.isa.a64 import definition_of
    from kvrm.isa.definition import bucket_keys
    from kvrm.isa.encoding import subtract
    from kvrm.staging.emitter import PTR

    name = hashlib.blake2b(json.dumps(variants).encode(), digest_size=8).hexdigest()
    module = ir.Module(name=name)
    kind: type[HandlerStage] = resolve_name(observed) if observed else HandlerStage
    decoders: list[ir.Function] = []
    rows: list[list[int]] = []
    for number, (key, statics) in enumerate(variants):
        d = definition_of(key)
        label = "/".join([key, *(f"{f.name}={v}" for f, v in zip(d.statics, statics, strict=True))])
        decoders.append(build_handlers(module, label, d, statics, kind))
        for cube in subtract(d.variant_cube(statics), d.unallocated):
            rows += [[k, cube.mask, cube.value, number] for k in bucket_keys(cube)]
            native.dump("decode", f"{cube.mask:08x} {cube.value:08x} {label}")
    t = ir.ArrayType(PTR, len(decoders))
    table = ir.GlobalVariable(module, t, f"table_{name}")
    table.initializer = ir.Constant(t, decoders)
    table.global_constant = True
    if "ptx" in native.dumps():
        from kvrm.backend.gpu.kernel import stage
        from kvrm.staging.ptx import compile_ptx

        native.dump("ptx", compile_ptx(stage(variants).device, "sm_80"))
    return name, variants, rows, str(module)


def variants_of(words: array[int]) -> set[Variant]:
    """The handlers that the allocated words among `words`, 32 bits each, need."""
    import numpy as np  # half of what a start would cost, and most starts compile nothing

    from kvrm.isa.a64 import definitions
    from kvrm.isa.decoder import decode_many

    unique = np.unique(np.array(words, np.uint32))
    found = decode_many(unique)
    out: set[Variant] = set()
    for index in np.unique(found[found >= 0]):
        d = definitions[index]
        mask = sum(((1 << f.width) - 1) << f.low for f in d.statics)
        out |= {(d.key, d.statics_of(int(w))) for w in np.unique(unique[found == index] & np.uint32(mask))}
    return out


def library(stage: str = "") -> Library:
    """The process's library, or the one of handlers that an observer's stage makes (`StagedObserver`)."""
    return _library(stage)


@functools.cache
def _library(stage: str) -> Library:
    if not stage:
        return Library(native.versioned("handlers"))
    # an observer may come from outside the package, whose hash the folder is named by
    text = inspect.getsource(inspect.getmodule(resolve_name(stage)) or resolve_name(stage))
    digest = hashlib.blake2b(f"{stage} {text}".encode(), digest_size=8).hexdigest()
    return Library(native.versioned(f"handlers-{digest}"), stage)
