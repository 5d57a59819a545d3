"""A loop as native code reads it: 64-bit words, and offsets in bytes from their beginning."""

from __future__ import annotations

import ctypes
import itertools
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from kvrm.loops.access_streams import Stream
from kvrm.loops.affine import form_of
from kvrm.loops.analysis import Fill, Loop
from kvrm.loops.conditions import Interval
from kvrm.loops.effects import Operation
from kvrm.loops.structure import Effect
from kvrm.loops.sums import Value
from kvrm.memory import R_BIT, W_BIT, X_BIT
from kvrm.staging.host import load

WORD = 8
ALL: Final = (1 << 64) - 1
TOP: Final = 1 << 63

HEAD, COST, LEAST, CREDIT, ENTRIES, SKIPS, ITERATIONS, EFFECT, EXIT = (WORD * i for i in range(9))
"""Offsets of a site: the slot where plain execution goes on, instructions of an iteration, the fewest
iterations that are skipped, how long it may go on without skipping, how often it was entered, how often
iterations were skipped and how many; its effect and its exit."""
GUARDS, STREAMS, MOVING, PARTS, MORE, PAIRS = (WORD * (9 + 2 * i) for i in range(6))
"""Offsets of tables and, one word further, how many rows they have: intervals, streams, moving registers,
parts of the effect, more of them (what to gather before a fill, registers held by a copy), and pairs of
streams that must not meet."""
PERIOD = WORD * 21
"""Bytes after which a fill repeats, if it leaves no gaps; else 0. `BUFFER` is where the bytes are."""
BUFFER = WORD * 22
UNDECODED, PC, CLASS_WORD = (WORD * i for i in range(23, 26))
"""What the slot in the loop's own page has without skipping: handler, address, execution class."""
MOVE, FIND = WORD * 26, WORD * 27
"""Addresses of the C library's memmove and memchr, for the CPU."""
LENGTH = WORD * 28
"""How many words the site has."""
HEADER = 29

INTERVAL_ROW, STREAM_ROW, MOVING_ROW, PAIR_ROW = WORD * 6, WORD * 8, WORD * 3, WORD * 2
FILL_ROW, GATHER_ROW, HELD_ROW, FOLD_ROW = (WORD * n for n in (5, 3, 4, 8))
"""Bytes of a row of each table that may have several. Parts of fills and copies begin with a stream that is
stored to, where in it, and how many bytes."""
STREAM_ADDRESS, STREAM_STEP = WORD * 6, WORD * 7
"""Where in a stream's row native code keeps its first address and its step, once an entry has found them."""
TERM_ROW = WORD * 5

BLOCK = 64
"""Bytes of a pattern that is stored at once."""
LONGEST_PERIOD = 512
"""Bytes: two periods fit the buffer of a site; fills that repeat less often go store by store."""
WORTH, LOOK = 48, 12
"""What a skip costs, and an entry without one, in instructions that are executed."""
CREDIT_AT_FIRST = 128 * LOOK
LARGEST_CREDIT = 64 * CREDIT_AT_FIRST
"""Instructions that a site may cost more than it spares before it rests: a few entries in vain must not end
it, and a long time in which it paid must not keep it for ever."""


def _library(name: str) -> int:
    return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0


_MOVE, _FIND = _library("memmove"), _library("memchr")


class _Words:
    def __init__(self) -> None:
        self.words = [0] * HEADER
        self.words[MOVE // WORD], self.words[FIND // WORD] = _MOVE, _FIND

    @property
    def end(self) -> int:
        return WORD * len(self.words)

    def add(self, words: Sequence[int]) -> int:
        """Append; where they are."""
        at = self.end
        self.words += words
        return at

    def form(self, value: Value) -> int:
        form = form_of(value)
        rows = [(t.offset, t.plus, t.mask, t.sign, t.times) for t in form.terms]
        return self.add([len(rows), form.const, *(word for row in rows for word in row)])

    def table(self, place: int, rows: Sequence[Sequence[int]]) -> None:
        at = self.add([word for row in rows for word in row])
        self.words[place // WORD : place // WORD + 2] = [at, len(rows)]

    def interval(self, interval: Interval, step: Value) -> list[int]:
        width = interval.width
        forms = [self.form(v) for v in (interval.distance, interval.length, step)]
        return [*forms, (1 << width) - 1, 64 - width, int(interval.may_be_empty)]

    def stream(self, stream: Stream) -> list[int]:
        asked, wanted = (W_BIT | X_BIT, W_BIT) if stream.store else (R_BIT, R_BIT)
        forms = [self.form(stream.address), self.form(stream.step)]
        return [*forms, stream.size, asked, wanted, int(stream.before > 0), 0, 0]


def plan_of(loop: Loop, head: int, least: int | None = None) -> array[int]:
    """The words of a loop whose head, for plain execution, is the slot at the host address `head`.

    `least` is the fewest iterations that are skipped; by default, those that are worth it.
    """
    w, cost = _Words(), len(loop.words)
    streams = [w.stream(stream) for stream in loop.streams]
    guards = [w.interval(interval, step) for interval, step in loop.guards]
    moving = [(8 * slot, (1 << width) - 1, w.form(step)) for slot, width, step in loop.moving]
    if loop.exit is not None:
        w.words[EXIT // WORD] = w.add(w.interval(*loop.exit))
    w.table(STREAMS, streams)
    w.table(GUARDS, guards)
    w.table(MOVING, moving)
    effect = loop.structure.effect
    _PARTS[effect](w, loop)
    fewest = max(2, WORTH // cost) if least is None else least
    w.words[: EXIT // WORD] = [head, cost, fewest, CREDIT_AT_FIRST, 0, 0, 0, effect]
    w.words[LENGTH // WORD] = len(w.words)
    return array("Q", [word & ALL for word in w.words])


def _stream_at(w: _Words, number: int) -> int:
    return w.words[STREAMS // WORD] + STREAM_ROW * number


def _pure(w: _Words, loop: Loop) -> None:
    """There are no parts."""


def _fill(w: _Words, loop: Loop) -> None:
    stores = [i for i, stream in enumerate(loop.streams) if stream.store]
    pairs = [(_stream_at(w, a), _stream_at(w, b)) for i, a in enumerate(stores) for b in stores[:i]]
    w.table(PAIRS, pairs)
    period = _period(loop)
    buffers, at = [], 0
    for fill in loop.fills:
        buffers.append(fill.place.offset if period else at)
        at += -(-fill.size // WORD) * WORD
    size = max(2 * period, at, WORD)
    image = bytearray(size)
    gathered = []
    for fill, start in zip(loop.fills, buffers, strict=True):
        gathered += _gathered(fill, start, image)
    base = w.add(memoryview(bytes(image)).cast("Q").tolist())
    pieces = [
        (fill.place.stream, fill.place.offset + at, size, base + start + at)
        for fill, start in zip(loop.fills, buffers, strict=True)
        for at, size in _stores(fill.size)
    ]
    # one part is stored for all iterations before the next one is: iterations must not overlap then
    several = Counter(piece[0] for piece in pieces)
    parts = [
        (_stream_at(w, stream), offset, size, at, loop.streams[stream].size if several[stream] > 1 else 0)
        for stream, offset, size, at in pieces
    ]
    if period:
        parts = [(_stream_at(w, 0), 0, loop.streams[0].size, base, 0)]
    w.table(PARTS, parts)
    w.table(MORE, [(base + to, offset, size) for to, offset, size in gathered])
    w.words[PERIOD // WORD], w.words[BUFFER // WORD] = period, base


def _stores(size: int) -> Iterator[tuple[int, int]]:
    """The stores of 1, 2, 4, 8 or 16 bytes that one of `size` bytes is: where each is in it, and its size."""
    at = 0
    while at < size:
        part = min(2 * WORD, 1 << (size - at).bit_length() - 1)
        yield at, part
        at += part


def _gathered(fill: Fill, start: int, image: bytearray) -> list[tuple[int, int, int]]:
    """Where pieces go, where in the state they come from, and their sizes; numbers are put there now."""
    rows = []
    for piece in fill.pieces:
        to = start + piece.at
        if piece.offset is None:
            image[to : to + piece.size] = piece.const.to_bytes(piece.size, "little")
        else:
            rows.append((to, piece.offset, piece.size))
    return rows


def _period(loop: Loop) -> int:
    """The bytes that a fill repeats, stored without gaps or overlaps; 0 if it is not so simple."""
    if len({fill.place.stream for fill in loop.fills}) != 1 or len(loop.streams) != 1:
        return 0
    stream = loop.streams[0]
    spans = sorted((fill.place.offset, fill.place.offset + fill.size) for fill in loop.fills)
    whole = all(a[1] == b[0] for a, b in itertools.pairwise(spans))
    iteration = abs(stream.stride or 0)
    if (
        not whole
        or iteration != stream.size
        or iteration > LONGEST_PERIOD
        or (iteration % WORD and BLOCK % iteration)
    ):
        return 0
    return BLOCK if BLOCK % iteration == 0 else iteration


def _copy(w: _Words, loop: Loop) -> None:
    c = loop.copy
    assert c is not None
    ways = int(c.ascending) | int(c.descending) << 1
    row = (_stream_at(w, c.target), 0, c.block, _stream_at(w, c.source), c.source_offset, ways)
    w.table(PARTS, [row])
    w.table(MORE, [(h.offset, h.whole, h.size, h.apart) for h in c.held])
    w.words[BUFFER // WORD] = w.add([0, 0])


def _reduction(w: _Words, loop: Loop) -> None:
    rows = []
    for fold, place in loop.folds:
        mask = (1 << fold.width) - 1
        kind = fold.loaded.size | int(fold.loaded.signed) << 4 | fold.operation << 5
        identity = ALL if fold.operation is Operation.AND else 0
        to = 8 * fold.slot
        rows.append(
            (
                _stream_at(w, place.stream),
                place.offset,
                fold.loaded.size,
                kind,
                identity,
                fold.times,
                to,
                mask,
            )
        )
    w.table(PARTS, rows)
    w.words[BUFFER // WORD] = w.add([0, 0])


def _search(w: _Words, loop: Loop) -> None:
    assert loop.search is not None
    search, place = loop.search
    interval = search.interval
    forms = [w.form(search.rest), w.form(interval.length)]
    kind = search.loaded.size | int(search.loaded.signed) << 4
    mask = (1 << interval.width) - 1
    row = (_stream_at(w, place.stream), place.offset, search.loaded.size, kind, search.times, *forms, mask)
    w.table(PARTS, [(*row, int(interval.may_be_empty), 0)])


_PARTS = {
    Effect.PURE: _pure,
    Effect.FILL: _fill,
    Effect.COPY: _copy,
    Effect.REDUCTION: _reduction,
    Effect.SEARCH: _search,
}


# -- as kernels read it --------------------------------------------------------------------------------------
def word(row: int, number: int) -> int:
    """A word of a row at a host address."""
    return load(row + WORD * number)


def rows(site: int, table: int) -> int:
    """How many rows a table of a site has."""
    return load(site + table + WORD)


def row_at(site: int, table: int, size: int, number: int) -> int:
    """The host address of a row, of `size` bytes."""
    return site + load(site + table) + size * number


def form(state: int, site: int, at: int) -> int:
    """The value of a sum."""
    total = word(site + at, 1)
    for i in range(word(site + at, 0)):
        term = site + at + 2 * WORD + TERM_ROW * i
        narrow = (load(state + word(term, 0)) + word(term, 1)) & word(term, 2)
        total += ((narrow ^ word(term, 3)) - word(term, 3)) * word(term, 4)
    return signed(total)


def signed(value: int) -> int:
    """The signed number whose 64 bits are the low ones of a number: what native code has anyway."""
    return ((value + TOP) & ALL) - TOP
