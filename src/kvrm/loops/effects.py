"""What an iteration does to memory and non-affine registers: fills, copies, reductions, searches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from kvrm.loops.access_streams import Place, Stream
from kvrm.loops.affine import Affine, vector_offset
from kvrm.loops.conditions import Interval
from kvrm.loops.iteration import Iteration, Unsuitable
from kvrm.loops.sums import Atom, Sum, Sums, Value, possible


class Operation(IntEnum):
    """How a reduction takes a loaded value in."""

    ADD = 0
    XOR = 1
    OR = 2
    AND = 3


@dataclass(frozen=True, slots=True)
class Loaded:
    """`size` bytes of the n-th access, from byte `low` on, with sign or zeros above."""

    access: int
    low: int
    size: int
    signed: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """`size` bytes of a stored value, from its byte `at` on.

    They come from the state, at `offset`; from a load of this iteration (`lag` 0) or the iteration before
    (1), then with what register that one left (`offset`, and its `whole` bytes); or are the number `const`.
    """

    at: int
    size: int
    offset: int | None = None
    load: Loaded | None = None
    lag: int = 0
    whole: int = 0
    const: int = 0


@dataclass(frozen=True, slots=True)
class Fold:
    """`slot` of `width` bits takes in a loaded value, times `times` (for ADD)."""

    slot: int
    width: int
    operation: Operation
    loaded: Loaded
    times: int


@dataclass(frozen=True, slots=True)
class Held:
    """A register that holds what the iteration before loaded: `whole` bytes at `offset` of the state.

    It is zero but for `size` bytes, those `apart` bytes after the address of the stream.
    """

    offset: int
    whole: int
    size: int
    apart: int


@dataclass(frozen=True, slots=True)
class Copy:
    """Bytes of one stream go to another: those `source_offset` after its address to those at the other's.

    `block` bytes an iteration, without gaps. `ascending` and `descending` say in which order an iteration
    stores them: where it goes that way from iteration to iteration too, a target above the source
    may overlap it.
    """

    source: int
    target: int
    source_offset: int
    block: int
    ascending: bool
    descending: bool
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Search:
    """Another iteration follows while `times` (1 or -1) * loaded value + `rest` is in the interval."""

    loaded: Loaded
    times: int
    rest: Value
    interval: Interval


# -- loaded values -------------------------------------------------------------------------------------------
def loaded_of(atom: Atom) -> Loaded | None:
    """The load that an atom comes from, whole or in part, extended or not."""
    inner, is_signed = atom, False
    if atom.kind in ("zext", "sext"):
        whole = atom.args[0]
        if not isinstance(whole, Sum) or whole.atom is None:
            return None
        inner, is_signed = whole.atom, atom.kind == "sext"
    low, width = 0, inner.width
    if inner.kind == "slice":
        low, inner = inner.detail, inner.args[0]
    if inner.kind != "load" or low % 8 or width % 8:
        return None
    return Loaded(inner.detail, low // 8, width // 8, is_signed)


def _one_load(value: Value) -> Loaded | None:
    atom = value.atom if isinstance(value, Sum) else None
    return loaded_of(atom) if atom is not None else None


# -- stored values -------------------------------------------------------------------------------------------
def pieces_of(iteration: Iteration, affine: Affine, access: int) -> list[Piece]:
    """The pieces of a stored value, in order and without gaps. Raises Unsuitable."""
    stored = iteration.accesses[access]
    value, size = stored.value, stored.size
    if isinstance(value, int):
        return [Piece(0, size, const=value)]
    if possible(value) == (1 << 8 * size) - 1 and value.const:
        raise Unsuitable("a computed value is stored")
    found = sorted(_parts(iteration, affine, value), key=lambda p: p.at)
    at, out = 0, []
    for piece in [*found, Piece(size, 0)]:
        if piece.at < at:
            raise Unsuitable("a computed value is stored")
        if piece.at > at:
            out.append(Piece(at, piece.at - at, const=value.const >> 8 * at & (1 << 8 * (piece.at - at)) - 1))
        out.append(piece)
        at = piece.at + piece.size
    return [piece for piece in out if piece.size]


def _parts(iteration: Iteration, affine: Affine, value: Sum) -> Iterator[Piece]:
    for atom, times in value.terms:
        while times:
            shift = (times & -times).bit_length() - 1
            times &= times - 1
            if shift % 8:
                raise Unsuitable("a computed value is stored")
            yield _part(iteration, affine, atom, shift // 8)


def _part(iteration: Iteration, affine: Affine, atom: Atom, at: int) -> Piece:
    if (loaded := loaded_of(atom)) is not None and not loaded.signed:
        return Piece(at, loaded.size, load=loaded)
    inner = atom
    if atom.kind == "zext" and isinstance(atom.args[0], Sum) and atom.args[0].atom is not None:
        inner = atom.args[0].atom
    width, low = inner.width, 0
    if inner.kind == "slice":
        low, inner = inner.detail, inner.args[0]
    if inner.kind not in ("x", "v") or width % 8 or low % 8:
        raise Unsuitable("a computed value is stored")
    size, low = width // 8, low // 8
    number, vector = inner.detail, inner.kind == "v"
    offset = vector_offset(number) if vector else 8 * number
    if number in (affine.other_vectors if vector else affine.others):
        left = (iteration.v if vector else iteration.x)[number]
        if low or (loaded := _one_load(left)) is None or loaded.signed or loaded.size < size:
            raise Unsuitable("a register is stored that is not known")
        return Piece(at, size, offset, loaded, lag=1, whole=16 if vector else 8)
    if not vector and number in affine.moving:
        raise Unsuitable("a counter is stored")
    return Piece(at, size, offset + low)


# -- copies --------------------------------------------------------------------------------------------------
def copy_of(iteration: Iteration, affine: Affine, places: list[Place], streams: list[Stream]) -> Copy:
    """The copy that all stores of an iteration make. Raises Unsuitable."""
    moves: list[tuple[int, int, int, Piece]] = []
    for i, access in enumerate(iteration.accesses):
        for piece in pieces_of(iteration, affine, i) if access.store else ():
            if piece.load is None:
                raise Unsuitable("loaded values are stored among others")
            moves.append((i, places[i].offset + piece.at, piece.load.access, piece))
    targets, sources = {places[i].stream for i, *_ in moves}, {places[j].stream for _, _, j, _ in moves}
    if len(targets) != 1 or len(sources) != 1:
        raise Unsuitable("several copies")
    target, source = targets.pop(), sources.pop()
    stride = streams[target].stride
    if not stride or stride != streams[source].stride:
        raise Unsuitable("source and target go at different steps")
    apart = {_from(places, move) - stride * move[3].lag - move[1] for move in moves}
    spans = sorted((at, at + piece.size) for _, at, _, piece in moves)
    if len(apart) != 1 or any(a[1] != b[0] for a, b in itertools.pairwise(spans)):
        raise Unsuitable("a copy with gaps")
    if spans[0][0] or spans[-1][1] != abs(stride) or streams[target].size != abs(stride):
        raise Unsuitable("a copy with gaps")
    held = {_held(places, stride, move) for move in moves if move[3].lag}
    order = [at for _, at, _, _ in moves]
    up, down = order == sorted(order), order == sorted(order, reverse=True)
    return Copy(
        source, target, apart.pop(), abs(stride), up, down, tuple(sorted(held, key=lambda h: h.offset))
    )


def _from(places: list[Place], move: tuple[int, int, int, Piece]) -> int:
    piece = move[3]
    assert piece.load is not None
    return places[piece.load.access].offset + piece.load.low


def _held(places: list[Place], stride: int, move: tuple[int, int, int, Piece]) -> Held:
    piece = move[3]
    assert piece.load is not None and piece.offset is not None
    return Held(piece.offset, piece.whole, piece.load.size, _from(places, move) - stride)


# -- reductions ----------------------------------------------------------------------------------------------
def folds_of(iteration: Iteration, slot: int) -> list[Fold]:
    """How a register takes in loaded values; none if it does not, or not in a way that is known."""
    s, value = iteration.sums, iteration.x[slot]
    own, width = s.new("x", 64, (), slot), 64
    if isinstance(value, Sum) and value.atom is not None and value.atom.kind == "zext":
        value = value.atom.args[0]
        width = value.width if isinstance(value, Sum) else 64
    if width not in (32, 64) or isinstance(value, int):
        return []
    before = s.slice(own, 0, width)
    if value.atom is not None and value.atom.kind.upper() in Operation.__members__:
        return _logical(slot, width, value.atom, before)
    rest = s.add(width, value, before, -1)
    if isinstance(rest, int) or rest.const:
        return []
    found = []
    for atom, times in rest.terms:
        if (loaded := loaded_of(atom)) is None or loaded.size > 8:
            return []
        found.append(Fold(slot, width, Operation.ADD, loaded, times))
    return found


def _logical(slot: int, width: int, atom: Atom, before: Value) -> list[Fold]:
    args = list(atom.args)
    if before not in args:
        return []
    args.remove(before)
    loaded = _one_load(args[0])
    if loaded is None or loaded.size > 8:
        return []
    return [Fold(slot, width, Operation[atom.kind.upper()], loaded, 1)]


# -- searches ------------------------------------------------------------------------------------------------
def search_of(sums: Sums, affine: Affine, interval: Interval) -> Search:
    """The search that an exit on loaded data is. Raises Unsuitable."""
    distance = interval.distance
    if isinstance(distance, int):
        raise Unsuitable("an exit that loaded data does not decide")
    parts = [(atom, times) for atom, times in distance.terms if loaded_of(atom) is not None]
    full = (1 << interval.width) - 1
    if len(parts) != 1 or parts[0][1] not in (1, full):
        raise Unsuitable("an exit on several loads")
    atom, times = parts[0]
    loaded = loaded_of(atom)
    assert loaded is not None
    rest = sums.add(interval.width, distance, sums.of(atom), -1 if times == 1 else 1)
    for value in (rest, interval.length):
        if affine.rate(value, interval.width) != 0:
            raise Unsuitable("loaded data is compared with what changes")
    if loaded.size > 8:
        raise Unsuitable("an exit on more than 64 bits")
    return Search(loaded, 1 if times == 1 else -1, rest, interval)
