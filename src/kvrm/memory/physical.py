"""The pages of a lane, apart from the space that finds them: by number, its own or frozen in a snapshot.

A program's space numbers pages by guest address. One that the guest's own page tables make would number them
by physical address, over the same pages: nothing here knows of regions, permissions or page tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from kvrm.errors import OutOfMemory
from kvrm.memory.pages import PAGE, Page, PagePool


class PhysicalPages:
    """The private pages of one lane, at most `limit`, and which of them it has to itself.

    `changed` are the numbers of the pages that differ from the snapshot last taken or restored. A private
    page belongs to the lane alone, and may be written in place, exactly if its number is in there.
    """

    __slots__ = ("_changed", "_pages", "_pool", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._pages: dict[int, Page] = {}
        self._changed: set[int] = set()
        self._pool = PagePool()

    def __len__(self) -> int:
        return len(self._pages)

    @property
    def changed(self) -> Set[int]:
        """Numbers, as above."""
        return self._changed

    def find(self, index: int) -> int | None:
        """The host address of a private page; None if the lane has none of that number."""
        page = self._pages.get(index)
        return None if page is None else page.address

    def own(self, index: int, shown: int) -> int:
        """The host address of a page that the lane has to itself from now on.

        Unless it has a private one, that begins as a copy of what is at host address `shown`. Raises
        OutOfMemory.
        """
        page = self._pages.get(index)
        if page is not None and index in self._changed:
            return page.address
        if page is None and len(self._pages) >= self.limit:
            limit = self.limit * PAGE
            raise OutOfMemory(f"the memory limit is reached; memory_limit={limit} would have to be more")
        mine = self._pool.copy_of(shown if page is None else page.address, index)
        self._pages[index] = mine
        self._changed.add(index)
        return mine.address

    def numbers(self, first: int, last: int) -> list[int]:
        """The private pages with first <= number < last, in ascending order."""
        inside = range(first, last) if last - first < len(self._pages) else sorted(self._pages)
        return [index for index in inside if first <= index < last and index in self._pages]

    def drop(self, first: int, last: int, since_snapshot: bool) -> None:
        """Throw those away; with `since_snapshot`, a snapshot has what they differ from."""
        dropped = self.numbers(first, last)
        for index in dropped:
            del self._pages[index]
        if since_snapshot:
            self._changed.update(dropped)
        else:
            self._changed.difference_update(dropped)

    def freeze(self) -> dict[int, Page]:
        """All private pages, which are shared from now on: the lane copies one before it writes."""
        self._changed.clear()
        return self._pages.copy()

    def differences(self, pages: Mapping[int, Page]) -> Set[int]:
        """The numbers of pages that are not those of a snapshot."""
        return {index for index, _ in self._pages.items() ^ pages.items()}

    def changes(self) -> dict[int, Page | None]:
        """What `changed` pages are; None for one that was dropped."""
        return {index: self._pages.get(index) for index in self._changed}

    def revert(self, pages: Mapping[int, Page], stale: Set[int]) -> None:
        """Have the pages of these numbers be those of a snapshot, from which nothing differs then."""
        self._put({index: pages.get(index) for index in stale})
        self._changed.clear()

    def redo(self, changes: Mapping[int, Page | None]) -> None:
        """Have `changes` again, which the lane has to itself."""
        self._put(changes)
        self._changed.update(changes)

    def _put(self, pages: Mapping[int, Page | None]) -> None:
        for index, page in pages.items():
            if page is None:
                self._pages.pop(index, None)
            else:
                self._pages[index] = page

    def close(self) -> None:
        """Give all pages back that no snapshot holds."""
        self._pages.clear()
        # The old pool goes with the last page of it that a snapshot holds.
        self._pool = PagePool()
