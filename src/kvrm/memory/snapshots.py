"""What a `Memory` gives away of itself: all of it at one moment, or what changed since."""

from __future__ import annotations

from dataclasses import dataclass

from kvrm.memory.pages import Page
from kvrm.memory.regions import RegionList


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Snapshot:
    """Guest memory at one moment. It stays valid for as long as it is kept, and for any `Memory`.

    `pages` holds the private pages by page number. They are frozen: shared, and copied before a write.
    """

    pages: dict[int, Page]
    regions: RegionList


@dataclass(frozen=True, slots=True)
class Changes:
    """What a lane changed since a snapshot, taken away from it (`Memory.take_changes`).

    `pages` are its private pages by page number, None where a page was dropped; `regions` is None unless they
    changed too.
    """

    pages: dict[int, Page | None]
    regions: RegionList | None
