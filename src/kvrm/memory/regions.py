"""Regions: which addresses are mapped, with what permissions and contents (the VMAs of Linux)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntFlag
from itertools import pairwise
from operator import attrgetter

from kvrm.arguments import integer, shown
from kvrm.errors import UsageError
from kvrm.memory.page_table import VA_END
from kvrm.memory.pages import PAGE, ZERO_PAGE, Image

_start = attrgetter("start")


class Prot(IntFlag):
    """Permissions of a page."""

    NONE = 0
    R = 1
    W = 2
    X = 4


class Mark(IntFlag):
    """What Linux notes of a mapping besides permissions (VM_* in linux/mm.h). No access looks at it."""

    NONE = 0
    SHARED = 1
    LOCKED = 2
    GROWSDOWN = 4
    SEQUENTIAL = 8
    RANDOM = 16
    DONTFORK = 32
    DONTDUMP = 64
    WIPEONFORK = 128
    HUGEPAGE = 256
    NOHUGEPAGE = 512
    MERGEABLE = 1024


@dataclass(frozen=True, slots=True)
class Region:
    """Guest addresses start <= address < end, both multiples of `PAGE`, that are mapped alike.

    Contents are those of `backing` from byte `offset` on, or zeros; `offset` is 0 without a backing.
    `name` is for people only, as the last column of /proc/self/maps.
    """

    start: int
    end: int
    prot: Prot
    backing: Image | None = None
    offset: int = 0
    name: str = ""
    marks: Mark = Mark.NONE

    @property
    def limit(self) -> int:
        """The first address whose page has no contents, because the file has ended; else `end`."""
        if self.backing is None or not self.backing.ends:
            return self.end
        return min(self.end, max(self.start, self.start + self.backing.length - self.offset))

    def part(self, start: int, end: int) -> Region:
        """The piece of this region between two page-aligned addresses, clipped to the region."""
        start, end = max(start, self.start), min(end, self.end)
        if (start, end) == (self.start, self.end):
            return self
        return replace(self, start=start, end=end, offset=self._offset_at(start))

    def page_at(self, address: int) -> int:
        """Host address of the unmodified contents of the page at `address`, a multiple of `PAGE`."""
        return self.backing.page_at(self._offset_at(address)) if self.backing else ZERO_PAGE

    def joins(self, other: Region) -> bool:
        """Whether `other` goes on where this region ends, so that one region can say both."""
        return (
            self.end == other.start
            and self.prot == other.prot
            and self.name == other.name
            and self.marks == other.marks
            and self.backing is other.backing
            and self._offset_at(self.end) == other.offset
        )

    def same_at(self, other: Region, address: int) -> bool:
        """Whether both map `address` with the same permissions and the same contents."""
        return (
            self.prot == other.prot
            and self.backing is other.backing
            and self._offset_at(address) == other._offset_at(address)
        )

    def _offset_at(self, address: int) -> int:
        return self.offset + address - self.start if self.backing else 0


class RegionList:
    """Disjoint regions in ascending order. Adjacent regions that can be one are one."""

    __slots__ = ("_regions", "_starts")

    def __init__(self, regions: Sequence[Region] = ()) -> None:
        self._regions = list(regions)
        self._starts = [region.start for region in regions]

    def __iter__(self) -> Iterator[Region]:
        return iter(self._regions)

    def find(self, address: int) -> Region | None:
        """The region that holds `address`."""
        position = bisect_right(self._starts, address) - 1
        if position < 0:
            return None
        region = self._regions[position]
        return region if address < region.end else None

    def between(self, start: int, end: int) -> list[Region]:
        """The regions that overlap start <= address < end, clipped to it, in order."""
        return [region.part(start, end) for region in self._regions[slice(*self._span(start, end))]]

    def replace(self, start: int, end: int, new: Sequence[Region]) -> None:
        """Replace everything between `start` and `end` by `new` (in order, within start..end)."""
        low, high = self._span(start, end)
        low, high = max(low - 1, 0), min(high + 1, len(self._regions))
        around = self._regions[low:high]
        before = [region.part(0, start) for region in around if region.start < start]
        after = [region.part(end, region.end) for region in around if region.end > end]
        joined = _join([*before, *new, *after])
        self._regions[low:high] = joined
        self._starts[low:high] = map(_start, joined)

    def find_free(self, length: int, low: int, high: int) -> int | None:
        """The highest start of a hole of `length` bytes within low <= address < high."""
        top = high
        for region in reversed(self._regions[: bisect_left(self._starts, high)]):
            if top - region.end >= length:
                break
            top = region.start
        return top - length if top - length >= low else None

    def _span(self, start: int, end: int) -> tuple[int, int]:
        low = bisect_right(self._starts, start) - 1
        if low < 0 or self._regions[low].end <= start:
            low += 1
        return low, bisect_left(self._starts, end)


def _join(regions: list[Region]) -> list[Region]:
    joined: list[Region] = []
    for region in regions:
        if joined and joined[-1].joins(region):
            region = replace(joined.pop(), end=region.end)
        joined.append(region)
    return joined


def differences(old: RegionList, new: RegionList) -> list[tuple[int, int]]:
    """Address ranges (start, end) that the two lists map differently. Quick if they have much in common."""
    if list(old) == list(new):
        return []
    common = set(old) & set(new)
    edges: set[int] = set()
    for regions in (old, new):
        for region in regions:
            if region not in common:
                edges.update((region.start, region.end))
    ranges = []
    for start, end in pairwise(sorted(edges)):
        before, after = old.find(start), new.find(start)
        same = before is after if before is None or after is None else before.same_at(after, start)
        if not same:
            ranges.append((start, end))
    return ranges


def checked_range(start: int, length: int) -> tuple[int, int]:
    """Start and end of a range. Raises UsageError unless it is one page or more of the address space."""
    start, length = integer("the start", start), integer("the length", length)
    if (start | length) & PAGE - 1 or length <= 0 or start < 0 or start + length > VA_END:
        what = f"{shown(length)} bytes at {shown(start)}"
        raise UsageError(f"cannot map {what}: not whole pages of the address space")
    return start, start + length


def checked_prot(prot: Prot | int) -> Prot:
    """The permissions. Raises UsageError if there are other bits."""
    bits = integer("the permission", prot)
    if bits & ~7:
        raise UsageError(f"the permission is {shown(bits)}; it takes a sum of Prot.R, Prot.W and Prot.X")
    return Prot(bits)


def pieces(address: int, length: int) -> Iterator[tuple[int, int, int]]:
    """Cut a range at page ends: (address, bytes before it, bytes in it)."""
    done = 0
    while done < length:
        size = min(PAGE - (address + done & PAGE - 1), length - done)
        yield address + done, done, size
        done += size
