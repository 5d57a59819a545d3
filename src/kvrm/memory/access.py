"""Accesses of any size to guest memory, written once over a space (`kvrm.memory.space`).

These functions are kernels (`kvrm.staging.translation`): they run as Python over a `Memory`, and natively
over what stands for a space's operations. Nothing is copied unless all of it may be.
"""

from __future__ import annotations

from kvrm.memory.page_table import R_BIT, W_BIT
from kvrm.memory.pages import PAGE
from kvrm.memory.space import Space, room, within


def reach(space: Space, address: int, kind: int) -> int:
    """The entry of an address's page, which allows the access from now on; 0 if it is refused."""
    entry = space.entry(address)
    if space.allows(entry, kind):
        return entry
    return space.resolve(address, kind)


def reached(space: Space, address: int, size: int, kind: int) -> int:
    """Have all pages of a range allow an access: how many bytes come before the first that does not."""
    done = 0
    while done < size:
        if reach(space, address + done, kind) == 0:
            return done
        done += min(room(address + done), size - done)
    return size


def load_range(space: Space, address: int, size: int, kind: int, to: int) -> int:
    """Copy guest bytes, which may be accessed, to an address of the host."""
    done = 0
    while done < size:
        offset = within(address + done)
        here = min(PAGE - offset, size - done)
        space.take(reach(space, address + done, kind), offset, to + done, here)
        done += here
    return 0


def store_range(space: Space, address: int, size: int, source: int) -> int:
    """Copy bytes of the host to guest memory that may be written."""
    done = 0
    while done < size:
        offset = within(address + done)
        here = min(PAGE - offset, size - done)
        space.give(reach(space, address + done, W_BIT), offset, source + done, here)
        done += here
    return 0


def read(space: Space, address: int, size: int, to: int) -> int:
    """Copy one or more bytes from the guest; not 0 if that was refused."""
    entry = reach(space, address, R_BIT)
    head = min(room(address), size)
    rest = size - head
    if entry == 0 or reached(space, address + head, rest, R_BIT) < rest:
        return 1
    space.take(entry, within(address), to, head)
    return load_range(space, address + head, rest, R_BIT, to + head)


def write(space: Space, address: int, size: int, source: int) -> int:
    """Copy one or more bytes to the guest, all or nothing; not 0 if that was refused."""
    entry = reach(space, address, W_BIT)
    head = min(room(address), size)
    rest = size - head
    if entry == 0 or reached(space, address + head, rest, W_BIT) < rest:
        return 1
    space.give(entry, within(address), source, head)
    return store_range(space, address + head, rest, source + head)
