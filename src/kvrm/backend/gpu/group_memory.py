"""Guest memory on the device: entries for groups, pages that are shared until written, interleaved copies.

An entry is 32 bytes: address of the shared page, address of the slab (0: none yet), and four masks of 32
bits, one bit for each lane: may read, may write, is mapped, has its own copy. Five low bits of the first word
are marks: PRIVATE if the lanes began with a private page there, so that own copies of it do not count against
their limits, CODE if it is executable, FILE if it is of a file that a lane has mapped, UNSURE while that is
not settled (`kvrm.backend.gpu.ranges`), and READY if the slab has all copies of what lanes began with, though
they own theirs only when they write. A slab has the 32 copies of a page interleaved by 8-byte words.

The entry of an address is found through ROOT, which all groups share: which *chunk* of the group's table, 512
entries, its 2 MiB have. Chunk 0 is empty, so an address that nothing is mapped at needs no test of its own.

A *page* is known by the address of its first byte, plus 1 if it is the lane's own, whose words are apart.
This is staged text; `kvrm.backend.gpu.access` has the same steps for a single access, shaped by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kvrm.backend.gpu.device_abi import GROUP, LANE_WORDS, PAGES_LEFT, Param
from kvrm.lane import words as layout
from kvrm.memory import PAGE, VA_BITS, AccessKind
from kvrm.staging import host
from kvrm.staging.device import (
    add,
    copy_words,
    exchange,
    load,
    load_byte,
    load_four,
    replace,
    set_bits,
    set_four,
    store,
    store_byte,
)
from kvrm.staging.host import apart

SHARED, SLAB, READ, WRITE, MAPPED, OWN = 0, 8, 16, 20, 24, 28
"""Offsets in an entry."""
ENTRY_BYTES: Final = 32
PRIVATE, CODE, UNSURE, READY, ADDRESS = 1, 2, 8, 16, -32
"""Marks in its first word besides FILE (`kvrm.linux.resident.layout`), and the bits of the address."""
SHOWN: Final = ~(UNSURE | READY)
"""What a first word says of the contents."""
CHUNK: Final = 512
"""Entries of a chunk."""
WORD: Final = 8
SLAB_BYTES: Final = GROUP * PAGE
OWN_STRIDE: Final = GROUP * WORD
"""Bytes from a word to the next in a slab."""
BUSY: Final = 1
"""Instead of a slab's address while a lane takes one."""
PAGES: Final = 1 << (VA_BITS - 12)
PAGE_BITS: Final = (1 << 44) - 1
"""Of a page's number, without the address's tag."""
OFFSET: Final = PAGE - 1
INSIDE: Final = WORD - 1


# -- lanes ---------------------------------------------------------------------------------------------------
def parameter(params: int, which: int) -> int:
    """A word of the parameter block (`Param`)."""
    return load(params + WORD * which)


def words_of(params: int, number: int) -> int:
    """Where a lane's words are: those of a group side by side."""
    group = number // GROUP * (GROUP * WORD * LANE_WORDS)
    return parameter(params, Param.STATES) + group + WORD * (number % GROUP)


def table_of(params: int, number: int) -> int:
    """Where the table of a lane's group is."""
    return parameter(params, Param.TABLES) + number // GROUP * parameter(params, Param.TABLE_BYTES)


# -- pages ---------------------------------------------------------------------------------------------------
def entry_of(root: int, table: int, address: int) -> int:
    """Where the entry of an address is, its top byte ignored; the table's first if it is out of range."""
    number = address >> 12 & PAGE_BITS
    if number >= PAGES:
        return table
    chunk = load_four(root + 4 * (number // CHUNK))
    return table + ENTRY_BYTES * (CHUNK * chunk + number % CHUNK)


def has(mask: int, lane: int) -> int:
    """The lane's bit of the mask at an address."""
    return load_four(mask) >> lane & 1


def page_of(entry: int, lane: int) -> int:
    """The page that the lane reads, which may be its own."""
    own = load(entry + SLAB) + WORD * lane + 1
    return own if has(entry + OWN, lane) else load(entry + SHARED) & ADDRESS


def byte_of(page: int, offset: int) -> int:
    """Where a byte of a page is."""
    words = offset // WORD * (OWN_STRIDE if page & 1 else WORD)
    return (page & -2) + words + (offset & INSIDE)


def take(page: int, offset: int, to: int, size: int) -> int:
    """Copy bytes of a page to any memory that the thread has."""
    step = 1 if (offset | to | size) & INSIDE else WORD
    at = 0
    while at < size:
        if step == 1:
            host.store_byte(to + at, load_byte(byte_of(page, offset + at)))
        else:
            host.store(to + at, load(byte_of(page, offset + at)))
        at += step
    return to


def give(page: int, offset: int, source: int, size: int) -> int:
    """Copy bytes to a page, which is the lane's own."""
    step = 1 if (offset | source | size) & INSIDE else WORD
    at = 0
    while at < size:
        if step == 1:
            store_byte(byte_of(page, offset + at), host.load_byte(source + at))
        else:
            store(byte_of(page, offset + at), host.load(source + at))
        at += step
    return page


@apart  # one rare copy: in line it would push hot code out of the instruction cache
def own(params: int, lane: int, entry: int, left: int) -> int:
    """The lane's own copy of a page that it has not executed, which it gets if need be; 0 if it may not.

    That is so if the pool has run out, the lane's limit (a word at `left`) is reached, or the page is code,
    which only the host changes.
    """
    if has(entry + OWN, lane):
        return load(entry + SLAB) + WORD * lane + 1
    first = load(entry + SHARED)
    counts = ~first & PRIVATE
    pages = host.load(left)
    if first & CODE or (counts and pages == 0):
        return 0
    slab = slab_of(params, entry)
    if slab == 0:
        return 0
    if not first & READY:
        copy_words(slab + WORD * lane, OWN_STRIDE, first & ADDRESS, WORD, PAGE // WORD)
    host.store(left, pages - counts)
    set_four(entry + OWN, 1 << lane)
    return slab + WORD * lane + 1


def make_ready(params: int, lane: int, entry: int) -> int:
    """Make the lane's copy of a page, before lanes run; nothing happens if the pool has none."""
    slab = slab_of(params, entry)
    if slab:
        source = load(entry + SHARED) & ADDRESS
        copy_words(slab + WORD * lane, OWN_STRIDE, source, WORD, PAGE // WORD)
        set_bits(entry + SHARED, READY)
    return slab


def slab_of(params: int, entry: int) -> int:
    """The entry's slab, one from the pool if need be; 0 if that has none.

    Lanes of a group can ask at the same moment: one takes a slab, the others wait for it.
    """
    slab = replace(entry + SLAB, 0, BUSY)
    if slab == 0:
        number = add(parameter(params, Param.SLAB_NEXT), 1)
        if number < parameter(params, Param.SLAB_LIMIT):
            slab = parameter(params, Param.SLABS) + number * SLAB_BYTES
        else:
            add(parameter(params, Param.SLAB_NEXT), -1)
        exchange(entry + SLAB, slab)
        return slab
    while slab == BUSY:
        slab = add(entry + SLAB, 0)
    return slab


def pool_is_used_up(params: int) -> int:
    """Whether no slab is left in the pool."""
    return load(parameter(params, Param.SLAB_NEXT)) >= parameter(params, Param.SLAB_LIMIT)


# -- accesses ------------------------------------------------------------------------------------------------
Transfer = Callable[[int, int, int, int, int, int, int], int]


def transferring(kind: AccessKind) -> Transfer:
    """Copies 1 to `PAGE` bytes from the guest, or to it, once all of it is allowed; not 0 if it is not.

    The state then says what was refused. `data` is in any memory of the thread.
    """
    copy = give if kind == AccessKind.WRITE else take

    def reach(state: int, params: int, table: int, lane: int, address: int) -> int:
        entry = entry_of(parameter(params, Param.ROOT), table, address)
        page = 0
        if has(entry + (WRITE if kind == AccessKind.WRITE else READ), lane):
            if kind == AccessKind.WRITE:
                page = own(params, lane, entry, state + PAGES_LEFT)
            else:
                page = page_of(entry, lane)
        if page == 0:
            host.store(state + layout.ADDRESS, address)
            host.store(state + layout.KIND, kind)
        return page

    @apart  # one rare copy, as `own`
    def transfer(state: int, params: int, table: int, lane: int, address: int, size: int, data: int) -> int:
        offset = address & OFFSET
        head = min(size, PAGE - offset)
        first = reach(state, params, table, lane, address)
        last = reach(state, params, table, lane, address + head) if first and head < size else first
        if last == 0:
            return 1
        copy(first, offset, data, head)
        copy(last, 0, data + head, size - head)
        return 0

    return transfer


read_slow, write_slow = transferring(AccessKind.READ), transferring(AccessKind.WRITE)
