"""Guest memory: pages, permissions, faults, copy-on-write images, snapshots.

>>> from kvrm.memory import Memory, Prot
>>> memory = Memory()
>>> memory.map(0x10000, 0x2000, Prot.R | Prot.W)
>>> memory.write(0x10FFE, b"across a page end")
>>> before = memory.snapshot()
>>> memory.write(0x10FFE, b"AC")
>>> memory.restore(before)
>>> memory.read(0x10FFE, 6)
b'across'
"""

from kvrm.errors import OutOfMemory
from kvrm.memory.faults import (
    AccessKind,
    AlignmentFault,
    BeyondFile,
    GuestFault,
    SPAlignmentFault,
    untagged,
)
from kvrm.memory.memory import Memory
from kvrm.memory.page_table import OUTSIDE, R_BIT, VA_BITS, VA_END, W_BIT, X_BIT, PageTable
from kvrm.memory.pages import PAGE, Image, page_up
from kvrm.memory.regions import Mark, Prot, Region
from kvrm.memory.snapshots import Changes, Snapshot

__all__ = [
    "OUTSIDE",
    "PAGE",
    "R_BIT",
    "VA_BITS",
    "VA_END",
    "W_BIT",
    "X_BIT",
    "AccessKind",
    "AlignmentFault",
    "BeyondFile",
    "Changes",
    "GuestFault",
    "Image",
    "Mark",
    "Memory",
    "OutOfMemory",
    "PageTable",
    "Prot",
    "Region",
    "SPAlignmentFault",
    "Snapshot",
    "page_up",
    "untagged",
]
