"""Compiled regions: made by LLVM in the background, kept on disk, shared by all machines of the process.

A file `<key>.region` is one compiled region: a JSON head that says what code it stands for, and object code.
A file `<program>.index` lists the regions of a program, so that its next start has them at once. All are
written under a temporary name and renamed; a damaged one is noticed by its checksum and made again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kvrm import cache
from kvrm.engine import native
from kvrm.engine.translator.region import Region

LARGEST_CACHE = 512 << 20
"""Bytes of compiled regions that are kept on disk; those used longest ago go first."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A region as machines use it: entered at `entry`, valid while `code` is there.

    `code` is pairs of address and bytes; `seconds` is what compiling took.
    """

    key: str
    number: int
    entry: int
    code: tuple[tuple[int, bytes], ...]
    object_code: bytes
    seconds: float

    @property
    def pages(self) -> set[int]:
        """Numbers of the pages that the code lies on."""
        return {start >> 12 for start, _ in self.code}

    def covers(self, address: int) -> bool:
        """Whether the instruction at an address is part of the region."""
        return any(start <= address < start + len(data) for start, data in self.code)

    def pack(self) -> bytes:
        """As bytes: the length of the head (8 bytes), the head, the object code."""
        code = [[start, data.hex()] for start, data in self.code]
        head = {"key": self.key, "number": self.number, "entry": self.entry, "code": code}
        text = json.dumps(head | {"seconds": self.seconds}).encode()
        return len(text).to_bytes(8, "little") + text + self.object_code

    @staticmethod
    def unpack(data: bytes) -> Compiled:
        """The region of bytes that `pack` made."""
        end = 8 + int.from_bytes(data[:8], "little")
        head = json.loads(data[8:end])
        code = tuple((start, bytes.fromhex(text)) for start, text in head["code"])
        return Compiled(head["key"], head["number"], head["entry"], code, data[end:], head["seconds"])


class Store:
    """Where compiled regions come from. Use `store()`: there is one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._loader = native.Loader()
        self._addresses: dict[str, int] = {}
        self._pool = ThreadPoolExecutor(1, "kvrm-translator")
        self._use_disk = not native.dumps()
        self.compiled = self.from_disk = 0

    def address(self, region: Compiled) -> int:
        """Host address of a region's function."""
        with self._lock:
            if region.key not in self._addresses:
                self._loader.load(region.object_code)
                self._addresses[region.key] = self._loader.address(f"region_{region.key}")
            return self._addresses[region.key]

    def request(self, region: Region) -> Future[Compiled]:
        """Compile a region in the background, or find it on disk."""
        return self._pool.submit(self.make, region)

    def make(self, region: Region) -> Compiled:
        """Compile a region, or find it on disk."""
        known = self.find(region.key)
        if known is not None:
            return known
        began = time.perf_counter()
        object_code = compile_region(region)
        code = tuple(
            (b.start, b"".join(w.to_bytes(4, "little") for w in b.words)) for b in region.blocks.values()
        )
        seconds = time.perf_counter() - began
        made = Compiled(region.key, region.number, region.entry, code, object_code, seconds)
        self.compiled += 1
        if self._use_disk:
            cache.write_checked(self._directory / f"{made.key}.region", made.pack())
            if self.compiled % 64 == 1:
                cache.shrink(self._directory, "*.region", LARGEST_CACHE)
        return made

    def find(self, key: str) -> Compiled | None:
        """A region from disk; None if it is not there."""
        data = cache.read_checked(self._directory / f"{key}.region") if self._use_disk else None
        if data is None:
            return None
        self.from_disk += 1
        return Compiled.unpack(data)

    def program(self, name: str) -> list[Compiled]:
        """The regions that earlier runs of a program left; `name` is a hash of its code."""
        data = cache.read_checked(self._directory / f"{name}.index") if self._use_disk else None
        found = map(self.find, data.decode().split() if data else ())
        return [region for region in found if region is not None]

    def remember(self, name: str, regions: Iterable[Compiled]) -> None:
        """Add to the regions of a program."""
        path = self._directory / f"{name}.index"
        known = (cache.read_checked(path) or b"").decode().split()
        keys = dict.fromkeys([*known, *(region.key for region in regions)])
        if self._use_disk and len(keys) > len(known):
            cache.write_checked(path, " ".join(keys).encode())


def compile_region(region: Region) -> bytes:
    """Object code with the function `region_<key>`."""
    from llvmlite import ir

    from kvrm.engine.translator.stage import build_region

    module = ir.Module(name=region.key)
    build_region(module, f"region_{region.key}", region)
    return native.compile_object(str(module))


@functools.cache
def store() -> Store:
    """The process's store."""
    stamp = f"{cache.source_hash()} {native.fingerprint()}".encode()
    name = hashlib.blake2b(stamp, digest_size=12).hexdigest()
    return Store(cache.versioned_directory("regions", name))
