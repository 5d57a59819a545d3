"""A lane as staged system calls see it, and how they reach its words and memory.

A call is a kernel (`kvrm.staging.translation`): its arguments are those that `kvrm.linux.calls` has for it,
with the lane instead of the process, and so is its result, or LEAVE: then Python does the call. It changes
nothing before that is settled. Whatever it changes is in the lane's own words (`Word`), in its areas and
actions, in its memory and in its buffers, of which `kvrm.linux.resident.start` makes a process.
"""

from __future__ import annotations

from typing import Protocol

from kvrm.linux.resident.layout import LEAVE, SOME_FIXED
from kvrm.memory import PAGE, VA_END, page_up
from kvrm.staging.host import below

LARGEST = 1 << 26
"""Bytes of the largest range of addresses that a call changes here."""
U32 = 0xFFFFFFFF
EVERYTHING = -1
"""What pages are that cannot be looked at: all SOME_..."""


class Lane(Protocol):
    """The lane of a call. Every target says what stands for these (`kvrm.staging.operations`)."""

    def x(self, number: int) -> int:
        """A general register."""

    def put_x(self, number: int, value: int) -> int:
        """Set a general register."""

    def end(self, code: int) -> int:
        """Note the exit code."""

    def retired(self) -> int:
        """Instructions that the lane has retired."""

    def word(self, index: int) -> int:
        """One of the lane's own words (`Word`)."""

    def put(self, index: int, value: int) -> int:
        """Set one of them."""

    def fixed(self, word: int) -> int:
        """One of the words that are the same for all lanes (`Fixed`)."""

    def place(self, word: int) -> int:
        """The address of such a word, which more may follow; on a bare machine that of the first is 0."""

    def part(self, base: int, size: int, at: int) -> int:
        """The address of byte `at` of the lane's part of buffers of `size` bytes that begin at `base`."""

    def descriptor(self, fd: int) -> int:
        """Its open file's number << 32, FD_CLOEXEC << 31, status flags; below 0 what a call returns."""

    def lowest(self, least: int) -> int:
        """The lowest descriptor from `least` on that is free; below 0 what a call returns."""

    def refer(self, fd: int, file: int, cloexec: int) -> int:
        """Have a descriptor refer to an open file, 0 for none, and to no other: the descriptor, or LEAVE."""

    def get_action(self, signal: int, to: int) -> int:
        """Copy what happens on a signal, 1 to 64, to an address (`struct sigaction`)."""

    def set_action(self, signal: int, action: int) -> int:
        """Have happen what is at an address."""

    def read(self, address: int, size: int, to: int) -> int:
        """Copy 1 to `PAGE` bytes from the guest; not 0 if that was refused."""

    def write(self, address: int, size: int, source: int) -> int:
        """Copy 1 to `PAGE` bytes to the guest, all or nothing; not 0 if that was refused."""

    def examine(self, start: int, end: int) -> int:
        """What the pages of a range are: SOME_..."""

    def change(self, start: int, end: int, become: int) -> int:
        """Set what the pages of a range are: bits of `Prot`, MAP and KEEP."""

    def show(self, start: int, end: int, become: int, content: int, size: int, rest: int) -> int:
        """The same of pages that are not mapped. They show `size` bytes from an address, then `rest`.

        That is 0 for zeros, or FILE for what is past a file's end. The result: whether it was done.
        """


def is_user(address: int, size: int) -> int:
    """Whether a range lies within the addresses that can be mapped, and has no tag."""
    return below(address, VA_END) and below(size, VA_END) and address + size <= VA_END


def examine(lane: Lane, start: int, end: int) -> int:
    """What the pages of a range are: SOME_..., or EVERYTHING if there are too many."""
    if start > end or end > VA_END or end - start > LARGEST:
        return EVERYTHING
    return lane.examine(start, end)


def is_writable(lane: Lane, address: int, size: int) -> int:
    """Whether the guest may write all of a range, which is not too large."""
    if not below(address, VA_END) or not below(size, LARGEST):
        return 0
    return not examine(lane, address & -PAGE, page_up(address + size)) & SOME_FIXED


def take(lane: Lane, address: int, size: int, to: int) -> int:
    """Copy from the guest: 0 or LEAVE."""
    return copy(lane, address, size, to, 0)


def give(lane: Lane, address: int, size: int, source: int) -> int:
    """Copy to the guest, all or nothing: 0 or LEAVE."""
    return copy(lane, address, size, source, 1) if is_writable(lane, address, size) else LEAVE


def copy(lane: Lane, address: int, size: int, data: int, writes: int) -> int:
    """Copy between the guest and an address, page by page: 0 or LEAVE."""
    if not is_user(address, size):
        return LEAVE
    done = 0
    while done < size:
        length = min(size - done, PAGE - (address + done) % PAGE)
        if writes:
            refused = lane.write(address + done, length, data + done)
        else:
            refused = lane.read(address + done, length, data + done)
        if refused:
            return LEAVE
        done += length
    return 0
