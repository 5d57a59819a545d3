"""A space finds the page of a lane's address: the interface that accesses are written over.

Pages are one thing (`kvrm.memory.pages`, or slabs on a GPU), the space that finds them another. What the host
and native code do with guest memory is written once, over the operations below (`kvrm.memory.access`), and
each format says what stands for them (`kvrm.staging.operations`):

- flat: a word for each page of guest addresses (`kvrm.memory.flat`). `Memory` has it, handlers and regions
  read it, and native lanes on the CPU fill it by themselves (`kvrm.backend.cpu.space`).
- group: masks and addresses for the lanes of a warp (`kvrm.backend.gpu.group_memory`).

An *entry* is what the format knows of a page: a number that only the format understands, but that no entry
which allows anything is 0. *Kinds* of access are bits of `Prot`.
"""

from __future__ import annotations

from typing import Final, Protocol

from kvrm.memory.pages import PAGE

OFFSET: Final = PAGE - 1


class Space(Protocol):
    """What a format has to say about the addresses of one lane, whose tags it ignores."""

    def entry(self, address: int) -> int:
        """The entry of an address's page as it is now; 0 if nothing is known, or it is out of range."""

    def allows(self, entry: int, kind: int) -> int:
        """Whether an entry allows accesses of this kind; a write, only if the page is the lane's own."""

    def resolve(self, address: int, kind: int) -> int:
        """Ask the regime, and note what it says: the entry, which allows the access, or 0 if it is refused.

        The first write to a page makes it the lane's own. In Python a refusal is a GuestFault.
        """

    def own(self, address: int) -> int:
        """Make a mapped page the lane's own, whatever it permits: the entry, or 0 if that is refused."""

    def take(self, entry: int, offset: int, to: int, size: int) -> int:
        """Copy bytes of a page, from an offset on, to memory of the host, or of a thread of a GPU."""

    def give(self, entry: int, offset: int, source: int, size: int) -> int:
        """Copy bytes from there to a page that is the lane's own."""

    def left(self) -> int:
        """How many pages of its own the lane may still get."""


def within(address: int) -> int:
    """How far into its page an address is."""
    return address & OFFSET


def room(address: int) -> int:
    """Bytes from an address to the end of its page."""
    return PAGE - within(address)
