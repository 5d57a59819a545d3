"""Compiled regions: made by LLVM in the background, kept on disk, shared by all machines of the process.

A file `<key>.region` is one compiled region: what code it stands for, and where its object is
(`kvrm.staging.objects`).
A file `<program>.index` lists the entries and keys of a program's regions for its next start. All are
written under a temporary name and renamed; a damaged one is noticed by its checksum and made again.
"""

from __future__ import annotations

import functools
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kvrm import cache
from kvrm.engine.translator.compile import Compiled, compile_region
from kvrm.staging import native

if TYPE_CHECKING:
    from kvrm.engine.translator.background import Background
    from kvrm.engine.translator.region import Region

LARGEST_CACHE = 512 << 20
"""Bytes that are kept on disk, with what killed processes leave; what was written longest ago goes first."""


class Store:
    """Where compiled regions come from. Use `store()`: there is one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._loader = native.Loader()
        self._addresses: dict[str, int] = {}
        self._use_disk = not native.dumps()
        self.compiled = self.from_disk = 0

    @functools.cached_property
    def background(self) -> Background:
        """What plans and compiles; imported when first asked for, as few starts last until then."""
        from kvrm.engine.translator.background import Background

        return Background()

    def address(self, region: Compiled) -> int:
        """Host address of a region's function."""
        with self._lock:
            if region.key not in self._addresses:
                self._loader.load(region.file)
                self._addresses[region.key] = self._loader.address(f"region_{region.key}")
            return self._addresses[region.key]

    def make(self, region: Region) -> Compiled:
        """Compile a region, or find it on disk."""
        known = self.find(region.key)
        if known is not None:
            return known
        began = time.perf_counter()
        file = compile_region(region)
        code = tuple(
            (b.start, b"".join(w.to_bytes(4, "little") for w in b.words)) for b in region.blocks.values()
        )
        seconds = time.perf_counter() - began
        made = Compiled(region.key, region.number, region.entry, code, file, seconds)
        self.compiled += 1
        if self._use_disk:
            cache.write_checked(self._directory / f"{made.key}.region", made.pack())
            if self.compiled % 64 == 1:
                cache.shrink(self._directory, "*", LARGEST_CACHE)
        return made

    def find(self, key: str) -> Compiled | None:
        """A region from disk; None if it is not there."""
        data = cache.read_checked(self._directory / f"{key}.region") if self._use_disk else None
        region = None if data is None else Compiled.unpack(data)
        if region is not None:
            self.from_disk += 1
        return region

    def program(self, name: str) -> dict[int, str]:
        """The regions that earlier runs of a program left: keys by entry. `name` is a hash of its code."""
        data = cache.read_checked(self._directory / f"{name}.index") if self._use_disk else None
        words = data.decode().split() if data else []
        return {int(entry, 16): key for entry, key in zip(words[::2], words[1::2], strict=False)}

    def remember(self, name: str, region: Compiled) -> None:
        """Add to the regions of a program; the newest with an entry is kept."""
        known = self.program(name)
        if self._use_disk and known.get(region.entry) != region.key:
            known[region.entry] = region.key
            text = "".join(f"{entry:x} {key}\n" for entry, key in known.items())
            cache.write_checked(self._directory / f"{name}.index", text.encode())


@functools.cache
def store() -> Store:
    return Store(native.versioned("regions"))
