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


def transfer(space: Space, address: int, size: int, kind: int, data: int) -> int:
    """Copy guest bytes to an address of the host, or from there if `kind` is W_BIT.

    How many bytes come before the first that is refused; unless that is all, nothing is copied.
    """
    allowed = reached(space, address, size, kind)
    if allowed < size:
        return allowed
    done = 0
    while done < size:
        entry = reach(space, address + done, kind)
        offset = within(address + done)
        here = min(PAGE - offset, size - done)
        if kind == W_BIT:
            space.give(entry, offset, data + done, here)
        else:
            space.take(entry, offset, data + done, here)
        done += here
    return size


def read(space: Space, address: int, size: int, to: int) -> int:
    """Copy from the guest; not 0 if that was refused."""
    return transfer(space, address, size, R_BIT, to) - size


def write(space: Space, address: int, size: int, source: int) -> int:
    """Copy to the guest; not 0 if that was refused."""
    return transfer(space, address, size, W_BIT, source) - size
