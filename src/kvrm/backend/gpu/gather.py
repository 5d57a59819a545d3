"""Kernels that bring together what some of the lanes have, for the host to read in one go.

`places` is a word for each lane and one more: where what the lane has goes, and where that ends; a lane whose
two are equal is left out. `gather(params, sources, places, bytes)` copies bytes, from the address that each
lane has in `sources`. `states(params, _, places, words)` copies all words of a lane, and
`pages(params, count, places, rows)` the pages that it has its own copy of, each to a row: a word, the index
of its entry in the group's table, and the page. Rows whose places are not in [0, count) are left out.
`owned(params, _, _, column)` counts the pages that each lane has its own copy of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llvmlite import ir

from kvrm.backend.gpu.device_abi import Param, pointer
from kvrm.backend.gpu.group_memory import ENTRY_BYTES, OWN, OWN_STRIDE, SLAB, local_words
from kvrm.backend.gpu.thread import Thread
from kvrm.memory import PAGE
from kvrm.staging.emitter import I8, I32, I64, Emitter

ROW_WORDS = 1 + PAGE // 8
"""Words of a row of `pages`."""
AT_ONCE = 16
"""Words of a page that are loaded before the first of them is stored. The compiler must assume that a store
changes what the next load reads: one by one, each word would wait for the one before it."""


def _c(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


def _gather(
    e: Emitter, t: Thread, params: ir.Value, sources: ir.Value, places: ir.Value, to: ir.Value
) -> None:
    source = pointer(e, e.load_at(pointer(e, sources), e.shl(t.number, _c(3)), I64))
    first, end = _place(e, t, places)
    place = pointer(e, e.add(to, first))
    with e.repeat(e.sub(end, first)) as i:
        e.store(e.load(e.at(source, i), typ=I8), e.at(place, i))


def _states(e: Emitter, t: Thread, params: ir.Value, _: ir.Value, places: ir.Value, to: ir.Value) -> None:
    first, end = _place(e, t, places)
    place = pointer(e, e.add(to, e.shl(first, _c(3))))
    with e.repeat(e.sub(end, first)) as i:
        word = e.load_at(pointer(e, t.state), e.shl(i, _c(8)), I64)
        e.store_at(word, place, e.shl(i, _c(3)))


def _owned(e: Emitter, t: Thread, params: ir.Value, _: ir.Value, __: ir.Value, column: ir.Value) -> None:
    count = _variable(e, _c(0))
    with _own_entries(e, t):
        e.store(e.add(e.load(count, typ=I64), _c(1)), count)
    e.store_at(e.load(count, typ=I64), pointer(e, column), e.shl(t.number, _c(3)))


def _pages(e: Emitter, t: Thread, params: ir.Value, rows: ir.Value, places: ir.Value, to: ir.Value) -> None:
    first, end = _place(e, t, places)
    next_row = _variable(e, first)
    with e.if_then(e.icmp_unsigned("!=", first, end)), _own_entries(e, t) as (index, entry):
        row = e.load(next_row, typ=I64)
        e.store(e.add(row, _c(1)), next_row)
        with e.if_then(e.icmp_unsigned("<", row, rows)):
            place = pointer(e, e.add(to, e.mul(row, _c(8 * ROW_WORDS))))
            e.store(index, place)
            _copy_own_page(e, t, entry, e.at(place, 8))


def _copy_own_page(e: Emitter, t: Thread, entry: ir.Value, to: ir.Value) -> None:
    source = pointer(e, e.add(e.load_at(entry, SLAB, I64), e.shl(t.lane, _c(3))))
    with e.repeat(PAGE // 8 // AT_ONCE) as i:
        here, there = (
            e.at(base, e.mul(i, _c(AT_ONCE * step))) for base, step in ((source, OWN_STRIDE), (to, 8))
        )
        words = [e.load_at(here, OWN_STRIDE * k, I64) for k in range(AT_ONCE)]
        for k, word in enumerate(words):
            e.store_at(word, there, 8 * k)


@contextmanager
def _own_entries(e: Emitter, t: Thread) -> Iterator[tuple[ir.Value, ir.Value]]:
    """What is emitted inside runs with index and address of the entry of each page that the lane owns."""
    a, size = t.access(e), e.load_at(t.params, 8 * Param.TABLE_BYTES, I64)
    with e.repeat(e.udiv(size, _c(ENTRY_BYTES))) as index:
        entry = pointer(e, e.add(t.table, e.mul(index, _c(ENTRY_BYTES))))
        with e.if_then(a.bit(e.load_at(entry, OWN, I32))):
            yield index, entry


def _place(e: Emitter, t: Thread, places: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Where what the lane has goes, and where that ends."""
    here = e.at(pointer(e, places), e.shl(t.number, _c(3)))
    return e.load(here, typ=I64), e.load_at(here, 8, I64)


def _variable(e: Emitter, value: ir.Value) -> ir.Value:
    """The address of a word of the thread's own that holds a value.

    It is made in the entry block: elsewhere it would be memory of a size known only at run time, which a GPU
    does not have.
    """
    with e.goto_entry_block():
        word = local_words(e, 1)
    e.store(value, word)
    return word


BODIES: dict[str, Callable[..., None]] = {
    "gather": _gather,
    "states": _states,
    "owned": _owned,
    "pages": _pages,
}
"""What emits the body of each kernel for one thread."""
