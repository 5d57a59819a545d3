"""Ranges of pages in a lane's entries (`kvrm.backend.gpu.group_memory`): what they are, and what they become.

All lanes of a group share the address of what a page shows until it is written: the page of zeros, or one of
a file, as the first lane has it that maps the page. It can become another while no lane of the group has the
page mapped. Lanes map pages at the same moment only if they are at the same system call instruction, and none
goes on after it before all have done theirs (`kvrm.backend.gpu.rounds`). A lane that finds what another one
has mapped where its own would be has nothing mapped, and the CPU does its call. A page is READY from the
beginning, until a lane gives up its copy or shows something else there.
"""

from __future__ import annotations

from kvrm.backend.gpu.device_abi import Param
from kvrm.backend.gpu.group_memory import (
    CODE,
    MAPPED,
    OFFSET,
    OWN,
    READ,
    READY,
    SHARED,
    SHOWN,
    UNSURE,
    WRITE,
    entry_of,
    has,
    parameter,
)
from kvrm.linux.resident.layout import (
    FILE,
    KEEP,
    MAP,
    SOME_BEYOND,
    SOME_CODE,
    SOME_FILE,
    SOME_FIXED,
    SOME_HOLE,
    SOME_MAPPED,
    SOME_OTHER,
    Fixed,
)
from kvrm.memory import PAGE
from kvrm.staging import host
from kvrm.staging.device import (
    clear_bits,
    clear_four,
    exchange,
    fence,
    load,
    look,
    look_four,
    replace,
    set_four,
)
from kvrm.staging.host import apart


def zeros(params: int) -> int:
    """The address of the page of zeros."""
    return load(parameter(params, Param.PROCESS) + 8 * Fixed.ZEROS)


def is_beyond(params: int, first: int) -> int:
    """Whether a page, whose entry begins with this word, lies past the end of its file."""
    return first & SHOWN == zeros(params) | FILE


@apart  # several system calls use these: one copy of each for all
def examine(params: int, table: int, lane: int, start: int, end: int) -> int:
    """What the pages of a range are: SOME_... of `kvrm.linux.resident.layout`."""
    root = parameter(params, Param.ROOT)
    found = 0
    for number in range(start // PAGE, end // PAGE):
        entry = entry_of(root, table, number * PAGE)
        first = load(entry + SHARED)
        found |= SOME_MAPPED if has(entry + MAPPED, lane) else SOME_HOLE
        if not has(entry + WRITE, lane):
            found |= SOME_FIXED
        if first & CODE:
            found |= SOME_CODE
        if first & FILE:
            found |= SOME_FILE
            if is_beyond(params, first):
                found |= SOME_BEYOND
        elif first & SHOWN != zeros(params):
            found |= SOME_OTHER
    return found


@apart
def change(params: int, table: int, lane: int, start: int, end: int, become: int, left: int) -> int:
    """Set the lane's bits in the entries of a range.

    It may have as many more pages (the word at `left`) as it had copies there.
    """
    root = parameter(params, Param.ROOT)
    bit = 1 << lane
    for number in range(start // PAGE, end // PAGE):
        entry = entry_of(root, table, number * PAGE)
        # other lanes of the group change their bits at the same time, and look at those that stay set
        assign(entry + READ, bit, become & 1)
        assign(entry + WRITE, bit, become & 2)
        assign(entry + MAPPED, bit, become & MAP)
        if not become & KEEP and clear_four(entry + OWN, bit) & bit:
            host.store(left, host.load(left) + 1)
            # the copy has what the lane wrote, and must be made again before the lane owns it again
            clear_bits(entry + SHARED, READY)
    return 0


def assign(mask: int, bit: int, value: int) -> int:
    """Set or clear a bit."""
    return set_four(mask, bit) if value else clear_four(mask, bit)


@apart
def show(
    params: int,
    table: int,
    lane: int,
    start: int,
    end: int,
    become: int,
    left: int,
    content: int,
    size: int,
    rest: int,
) -> int:
    """Map pages that the lane has not mapped. They show `size` bytes of a file at the address `content`.

    The pages after those are zeros, or with FILE as `rest` past the file's end. 0 if some page shows
    something else to another lane; then nothing is mapped.
    """
    root = parameter(params, Param.ROOT)
    after = zeros(params) | rest
    for number in range(start // PAGE, end // PAGE):
        done = number * PAGE - start
        wanted = content + done | FILE if done < size else after
        if not claim(entry_of(root, table, number * PAGE), wanted):
            return 0
    change(params, table, lane, start, end, become, left)
    if rest & FILE:
        change(params, table, lane, start + (size + OFFSET & -PAGE), end, MAP, left)
    # a lane that has claimed a page since has seen that it is mapped, or is seen here
    fence()
    for number in range(start // PAGE, end // PAGE):
        done = number * PAGE - start
        wanted = content + done | FILE if done < size else after
        if look(entry_of(root, table, number * PAGE) + SHARED) & ~READY != wanted:
            change(params, table, lane, start, end, 0, left)
            return 0
    return 1


@apart
def claim(entry: int, wanted: int) -> int:
    """Have a page show what is wanted; 0 if it cannot.

    What is claimed is UNSURE until it is known that no lane had mapped what was there before. Lanes that find
    it so wait. A group's lanes are of one block: its fence is wide enough.
    """
    while True:
        # in this order: what other lanes have mapped they have claimed before
        mapped = look_four(entry + MAPPED)
        now = look(entry + SHARED)
        if now & ~READY == wanted:
            return 1
        if now & UNSURE:
            continue
        if mapped:
            return 0
        if replace(entry + SHARED, now, wanted | UNSURE) == now:
            fence()
            conflict = look_four(entry + MAPPED)
            exchange(entry + SHARED, now & ~READY if conflict else wanted)
            return not conflict
