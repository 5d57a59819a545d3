"""The flat format of a space: a table with a word for each page of guest addresses (`PageTable`).

An entry is the host address of the page, and bits for what is allowed.
"""

from __future__ import annotations

from typing import Final

from kvrm.memory.page_table import ENTRIES
from kvrm.memory.pages import PAGE, PAGE_SHIFT
from kvrm.staging.host import load

ADDRESS: Final = -PAGE
PAGE_BITS: Final = (1 << 56 - PAGE_SHIFT) - 1
"""Of an address without its tag and its offset."""


def page_of(address: int) -> int:
    """The number of an address's page, its tag ignored; `ENTRIES` or more if it is out of range."""
    return (address >> PAGE_SHIFT) & PAGE_BITS


def entry(table: int, address: int) -> int:
    """The entry of an address in the table at a host address; 0 out of range."""
    index = page_of(address)
    if index >= ENTRIES:
        return 0
    return load(table + 8 * index)


def allows(entry: int, kinds: int) -> int:
    """Whether an entry allows accesses of all these kinds."""
    return entry & kinds == kinds


def page(entry: int) -> int:
    """The host address of the page's first byte."""
    return entry & ADDRESS
