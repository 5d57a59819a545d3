"""A machine's memory as all lanes begin with it: its pages on the device, and the entries that lead there."""

from __future__ import annotations

from collections.abc import Container, Iterable

import numpy as np
import numpy.typing as npt

from kvrm.backend.gpu.device_abi import CHUNKS, GROUP
from kvrm.backend.gpu.group_memory import CHUNK, CODE, PRIVATE
from kvrm.backend.protocols import Driver
from kvrm.errors import UsageError
from kvrm.linux.resident.layout import FILE
from kvrm.memory import PAGE, Memory, Prot, untagged

ENTRY = np.dtype(
    [("shared", "u8"), ("slab", "u8"), ("read", "u4"), ("write", "u4"), ("mapped", "u4"), ("own", "u4")]
)
"""An entry as `kvrm.backend.gpu.group_memory` has it."""
ALL = (1 << GROUP) - 1
LARGEST = 1 << 30
"""Bytes of guest addresses that may be mapped when lanes begin: each page has an entry in every group."""


class Image:
    """The pages that all lanes read until they write, those with equal contents once.

    `root` and `table` are what `Param.ROOT` and the tables of groups hold, `code` the executable pages,
    `pages_left` how many pages of its own a lane may get, `zeros` the address of the page of zeros; `private`
    pages count as the lanes' own already. `ahead` are chunks that have entries though nothing may be mapped
    there: a lane can map pages of zeros in them.
    """

    def __init__(
        self, gpu: Driver, memory: Memory, private: Container[int] = (), ahead: Iterable[int] = ()
    ) -> None:
        contents: dict[bytes, int] = {bytes(PAGE): 0}
        places: list[tuple[int, int, Prot, bool]] = []
        self.code: dict[int, bytes] = {}
        regions = memory.regions()
        size = sum(region.end - region.start for region in regions)
        if size > LARGEST:
            raise UsageError(
                f"{size >> 20} MiB are mapped; lanes on a GPU begin with {LARGEST >> 20} at most"
            )
        for region in regions:
            data, there = memory.peek(region.start, memory.filled(region)), region.limit - region.start
            for at in range(0, region.end - region.start, PAGE):
                page, content = (region.start + at) // PAGE, data[at : at + PAGE].ljust(PAGE, b"\0")
                prot = region.prot if at < there else Prot.NONE
                places.append((page, contents.setdefault(content, len(contents)), prot, at >= there))
                if prot & Prot.X:
                    self.code[page] = content
        self.pages_left = memory.limit // PAGE - memory.private_pages
        self._pages = gpu.upload(b"".join(contents))
        self.zeros = self._pages.address
        chunks = dict.fromkeys([*(page // CHUNK for page, *_ in places), *ahead])
        root = np.zeros(CHUNKS, np.uint32)
        for number, chunk in enumerate(chunks, 1):
            root[chunk] = number
        self.table = np.zeros((1 + len(chunks)) * CHUNK, ENTRY)
        self.table["shared"][CHUNK:] = self.zeros
        for page, number, prot, beyond in places:
            entry = self.table[int(root[page // CHUNK]) * CHUNK + page % CHUNK]
            marks = PRIVATE * (page in private) | CODE * bool(prot & Prot.X) | FILE * beyond
            entry["shared"] = self.zeros + number * PAGE | marks
            entry["read"], entry["write"] = (ALL * bool(prot & p) for p in (Prot.R, Prot.W))
            entry["mapped"] = ALL
        self.root = gpu.upload(root)
        self._chunks = list(chunks)

    def index(self, address: int) -> int:
        """The index of the entry of an address; one that no page is mapped at, if there is none."""
        page = untagged(address) // PAGE
        chunk = page // CHUNK
        return (self._chunks.index(chunk) + 1) * CHUNK + page % CHUNK if chunk in self._chunks else 0

    def may_own(self, page: int) -> bool:
        """Whether lanes can get their own copies of a page: it has an entry, and is not code."""
        index = self.index(page * PAGE)
        return bool(index) and not int(self.table["shared"][index]) & CODE

    def pages_at(self, indices: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """The numbers of the pages whose entries are at these indices of a group's table."""
        chunks, within = np.divmod(indices, np.uint64(CHUNK))
        return np.array([0, *self._chunks], np.uint64)[chunks] * np.uint64(CHUNK) + within
