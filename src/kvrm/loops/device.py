"""Skipping iterations on a GPU: the function that replaces the handler of a loop's head in the kernel.

Sites are words that all lanes read (`kvrm.loops.plan`). A lane copies one to memory of its own, has
iterations skipped, and goes on with plain execution in a second copy of the page's slots.

`state` is the thread's words at hand, the general registers first. A page is the device address of its first
byte, plus 1 if its words are those of a slab, side by side with other lanes'.
"""

from __future__ import annotations

import itertools
from typing import Final

from kvrm.backend.gpu.device_abi import (
    PAGES_LEFT,
    SCRATCH,
    DeviceFunction,
    Module,
    Own,
    Param,
    lane_number,
    pointer,
)
from kvrm.backend.gpu.group_memory import CODE as EXECUTED
from kvrm.backend.gpu.group_memory import (
    OWN,
    OWN_STRIDE,
    PRIVATE,
    READ,
    SHARED,
    WRITE,
    byte_of,
    entry_of,
    has,
    own,
    page_of,
)
from kvrm.backend.gpu.skipping import SITE_BYTES
from kvrm.lane import words as layout
from kvrm.loops import guest_pages, plan
from kvrm.loops.bulk import INSIDE
from kvrm.loops.guest_pages import REFUSED, highest, lowest
from kvrm.loops.plan import ALL, BLOCK, WORD
from kvrm.loops.skip import skipped
from kvrm.memory import PAGE, W_BIT
from kvrm.staging.device import DEVICE
from kvrm.staging.emitter import I1, I8, I64, PTR, Emitter, Value, integer
from kvrm.staging.host import add, apart, load, store, store_byte
from kvrm.staging.operations import Emitted, Operations
from kvrm.staging.translation import define

ONES: Final = ALL // 255
TOPS: Final = ONES << 7
"""The lowest and the highest bit of each byte of a word."""


# -- code that is emitted ------------------------------------------------------------------------------------
lane = Emitted(lane_number)
"""Which lane of its group a thread is."""


def _at(e: Emitter, where: Value, offset: Value) -> Value:
    shift = e.select(e.trunc(where, I1), e.const(I64, OWN_STRIDE.bit_length() - 1), e.const(I64, 3))
    word = e.shl(e.lshr(offset, e.const(I64, 3)), shift)
    inside = e.or_(word, e.and_(offset, e.const(I64, INSIDE)))
    return e.inttoptr(e.add(e.and_(where, e.const(I64, -2)), inside), PTR)


def _places(e: Emitter, where: Value, offset: Value, count: int) -> list[Value]:
    """The addresses of the word that a byte is in, and of those after it."""
    stride = e.select(e.trunc(where, I1), e.const(I64, OWN_STRIDE), e.const(I64, WORD))
    first = _at(e, where, e.and_(offset, e.const(I64, -WORD)))
    return [first, *(e.at(first, e.mul(stride, e.const(I64, i))) for i in range(1, count))]


def _words(e: Emitter, where: Value, offset: Value, count: int, size: int = WORD) -> list[Value]:
    """Words that begin at any byte, without a branch; of the last only `size` bytes count."""
    last = e.and_(e.add(offset, e.const(I64, WORD * (count - 1) + size - 1)), e.const(I64, -WORD))
    places = [*_places(e, where, offset, count), _at(e, where, last)]
    found = [e.load(at, typ=I64) for at in places]
    shift = e.shl(e.and_(offset, e.const(I64, INSIDE)), e.const(I64, 3))
    back = e.sub(e.const(I64, 63), shift)
    pairs = itertools.pairwise(found)
    return [e.or_(e.lshr(low, shift), e.shl(e.shl(high, e.const(I64, 1)), back)) for low, high in pairs]


def _loaded(e: Emitter, where: Value, offset: Value, size: Value) -> Value:
    if size.constant == 1:
        return e.zext(e.load(_at(e, where, offset), typ=I8), I64)
    (word,) = _words(e, where, offset, 1, size.constant)
    return e.and_(word, e.const(I64, (1 << 8 * size.constant) - 1))


def _put(e: Emitter, where: Value, offset: Value, value: Value, size: Value) -> Value:
    """In a whole word, or byte by byte."""
    low = e.and_(offset, e.const(I64, size.constant - 1))
    aligned = e.icmp_unsigned("==", low, e.const(I64, 0))
    with e.if_else(aligned, likely=True) as (then, otherwise):
        with then:
            e.store(e.trunc(value, integer(8 * size.constant)), _at(e, where, offset))
        with otherwise:
            for i in range(size.constant):
                byte = e.trunc(e.lshr(value, e.const(I64, 8 * i)), I8)
                e.store(byte, _at(e, where, e.add(offset, e.const(I64, i))))
    return value


def _store_words(e: Emitter, where: Value, offset: Value, words: list[Value]) -> None:
    for word, at in zip(words, _places(e, where, offset, len(words)), strict=True):
        e.store(word, at)


@Emitted
def carry_block(e: Emitter, to: Value, at: Value, of: Value, start: Value) -> Value:
    """Copy a block to where a word of a page begins; all of it is loaded before a byte is stored."""
    _store_words(e, to, at, _words(e, of, start, BLOCK // WORD))
    return to


def _repeat_block(e: Emitter, to: Value, at: Value, buffer: Value, start: Value, count: Value) -> Value:
    words = _words(e, buffer, start, BLOCK // WORD)
    with e.repeat(count) as i:
        _store_words(e, to, e.add(at, e.mul(i, e.const(I64, BLOCK))), words)
    return to


# -- pages ---------------------------------------------------------------------------------------------------
def entry(state: int, address: int) -> int:
    """Where the group's entry of an address is (`kvrm.backend.gpu.group_memory`)."""
    return entry_of(load(state + Own.ROOT), load(state + Own.TABLE), address)


def register(state: int, offset: int) -> int:
    """General ones are at hand, the others in the lane's state."""
    return (state if offset < layout.V_OFFSET else load(state + Own.STATE)) + offset


def pages_for(state: int, address: int, asked: int, wanted: int) -> int:
    """By the masks of the group's entry."""
    at = entry(state, address)
    executed = load(at + SHARED) // EXECUTED & 1
    permissions = has(at + READ, lane()) | has(at + WRITE, lane()) << 1 | executed << 2
    if permissions & asked != wanted:
        return REFUSED
    return 1 - has(at + OWN, lane()) if wanted & W_BIT else 0


def pages_left(state: int) -> int:
    """From the lane's state."""
    return load(load(state + Own.STATE) + PAGES_LEFT)


@apart  # several effects call these: one copy for all
def lacking(state: int, address: int, step: int, size: int, count: int, take: int) -> int:
    """Those that count against the lane's limit; they are got as the first store to each would."""
    if abs(step) > PAGE:
        return REFUSED
    found = 0
    at = lowest(address, step, count - 1) & -PAGE
    while at < highest(address, step, count - 1) + size:
        where = entry(state, at)
        if take:
            if not own(load(state + Own.PARAMS), lane(), where, load(state + Own.STATE) + PAGES_LEFT):
                return REFUSED
        elif not (has(where + OWN, lane()) or load(where + SHARED) & PRIVATE):
            found += 1
        at += PAGE
    return found


@apart
def page(state: int, address: int) -> int:
    """By the group's entry."""
    return page_of(entry(state, address), lane())


# -- bytes ---------------------------------------------------------------------------------------------------
@apart
def carry(site: int, to: int, at: int, of: int, start: int, size: int, down: int) -> int:
    """By blocks and words of the target, and bytes before and after them."""
    left = size
    while left:
        edge = at + (left if down else size - left)
        unit = 1 if edge & INSIDE or left < WORD else WORD
        if unit == WORD and left >= BLOCK:
            unit = BLOCK
        n = left - unit if down else size - left
        if unit == BLOCK:
            carry_block(to, at + n, of, start + n)
        elif unit == WORD:
            store(byte_of(to, at + n), guest_pages.loaded(of, start + n, WORD))
        else:
            store_byte(byte_of(to, at + n), guest_pages.loaded(of, start + n, 1))
        left -= unit
    return to


@apart
def find(site: int, where: int, offset: int, byte: int, count: int) -> int:
    """By whole words, as far as they have it not.

    A word has a zero byte if (word - 0x01...01) & ~word & 0x80...80 is not zero.
    """
    at = 0
    while at + WORD <= count:
        word = guest_pages.loaded(where, offset + at, WORD) ^ byte * ONES
        if (word - ONES) & ~word & TOPS:
            break
        at += WORD
    while at < count and guest_pages.loaded(where, offset + at, 1) != byte:
        at += 1
    return at


OPERATIONS: Operations = {
    **DEVICE,
    guest_pages.repeat_block: Emitted(_repeat_block),
    guest_pages.register: register,
    guest_pages.pages_for: pages_for,
    guest_pages.pages_left: pages_left,
    guest_pages.lacking: lacking,
    guest_pages.page: page,
    guest_pages.loaded: Emitted(_loaded),
    guest_pages.put: Emitted(_put),
    guest_pages.carry: carry,
    guest_pages.find: find,
}


# -- the kernel's handler ------------------------------------------------------------------------------------
@apart  # large and rare: in the kernel's loop it would cost all handlers registers and instruction cache
def enter(state: int, mine: int, site: int, budget: int) -> int:
    """Skip what can be skipped, by the lane's copy of a site, and count it; how many instructions it is."""
    iterations = skipped(state, mine, budget)
    add(site + plan.ENTRIES, 1)
    add(site + plan.SKIPS, min(iterations, 1))
    add(site + plan.ITERATIONS, iterations)
    return iterations * load(mine + plan.COST)


def emit(module: Module) -> Value:
    """`skip_iterations`, a handler whose first operand is the number of a site."""
    f = DeviceFunction(module, "skip_iterations")
    f.fn.attributes.add("noinline")
    e = f.e
    params = pointer(e, f.parameters())
    at = e.mul(f.operands[0], e.const(I64, SITE_BYTES))
    site = pointer(e, e.add(e.load_at(params, 8 * Param.SITES, I64), at))
    mine = e.at(f.state, SCRATCH)
    count = e.udiv(e.add(e.load_at(site, plan.LENGTH, I64), e.const(I64, 3)), e.const(I64, 4))
    with e.repeat(count) as i:
        places = [e.add(e.shl(i, e.const(I64, 5)), e.const(I64, half)) for half in (0, 16)]
        pairs = [e.load_at(site, at, integer(64, 2), align=16) for at in places]
        for pair, at in zip(pairs, places, strict=True):
            e.store_at(pair, mine, at, align=16)
    addresses = [e.ptrtoint(p, I64) for p in (e.addrspacecast(f.registers, PTR), mine, site)]
    spent = e.call(define(module, enter, OPERATIONS), [*addresses, f.budget])
    f.go_on(e.load_at(mine, plan.HEAD, I64), e.sub(f.budget, spent))
    return f.fn
