"""Memory accesses of handlers and regions, shaped by hand: what every guest instruction that loads pays for.

They are overrides of the staged text for one access (`kvrm.backend.gpu.group_memory`), in three steps. A
*near* access is a comparison with the page that its site remembers and a load or store, in line. A *quick*
one calls a function that finds the page and makes the access; it has no call and no memory of its own, which
would cost it more than its work: where it would need them it does nothing. Then the *careful* function is
called, which is the staged text.

Handlers have no near accesses, and only few regions do (`kvrm.backend.gpu.region_plan.ALL`): in line, the
accesses of a large program fill the instruction cache, and a warp waited 37 cycles for code for each
instruction it issued, instead of 26 (docs/measurements/gpu.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from kvrm.backend.gpu import prefetch
from kvrm.backend.gpu.device_abi import Own, lane_number, pointer
from kvrm.backend.gpu.group_memory import (
    ADDRESS,
    CHUNK,
    ENTRY_BYTES,
    INSIDE,
    OFFSET,
    OWN,
    OWN_STRIDE,
    READ,
    WORD,
    WRITE,
    Transfer,
    read_slow,
    write_slow,
)
from kvrm.engine.interpreter.abi import unlikely
from kvrm.memory import PAGE, VA_BITS
from kvrm.staging.device import call
from kvrm.staging.emitter import I1, I16, I32, I64, Emitter

REFUSED, DONE = 0, 1
"""What a quick or careful access returns; a quick one that was made the page (`group_memory`)."""
MASKS = ir.VectorType(I32, 4)
PLACES = ir.VectorType(I64, 2)
"""What an entry has: masks, from READ on, and the addresses in front of them."""
Words = Sequence[ir.Value]


def _c(value: int) -> ir.Constant:
    return ir.Constant(I64, value & (1 << 64) - 1)


# -- near ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Site:
    """Where an access of a region finds the page that it last used; each is a stack slot.

    They hold a page's number, and the page.
    """

    number: ir.Value
    page: ir.Value

    def forget(self, e: Emitter) -> None:
        e.store(_c(-1), self.number)


def read(
    e: Emitter, own: ir.Value, address: ir.Value, t: ir.Type, site: Site | None
) -> tuple[ir.Value, ir.Value]:
    """A little-endian `t`, and whether it was refused; without a `site` it is far."""
    if site is None:
        status, value = read_far(e, own, address, t)
        return value, e.icmp_unsigned("==", status, _c(REFUSED))
    near, away, done = (e.append_basic_block(name) for name in ("near", "far", "read"))
    unlikely(e.cbranch(_hits(e, address, t.width // 8, site), near, away))
    e.position_at_end(near)
    where, stride = place(e, e.load(site.page, typ=I64), address)
    value = _join(e, t, [e.load(pointer(e, p), typ=w) for p, w in _words(e, where, stride, t)])
    e.branch(done)
    e.position_at_end(away)
    status, other = read_far(e, own, address, t)
    _remember(e, address, status, site)
    after = e.block
    e.branch(done)
    e.position_at_end(done)
    return _either(e, value, near, other, after), _refused(e, near, status, after)


def write(
    e: Emitter, own: ir.Value, address: ir.Value, value: ir.Value, site: Site | None
) -> tuple[ir.Value, ir.Value]:
    """Store `value`; whether it was done by a far access, and whether it was refused.

    A far access may give the lane its own copy of a page.
    """
    if site is None:
        status = write_far(e, own, address, value)
        return ir.Constant(I1, 1), e.icmp_unsigned("==", status, _c(REFUSED))
    t = value.type
    near, away, done = (e.append_basic_block(name) for name in ("near", "far", "written"))
    unlikely(e.cbranch(_hits(e, address, t.width // 8, site), near, away))
    e.position_at_end(near)
    where, _ = place(e, e.load(site.page, typ=I64), address)
    for i, (p, w) in enumerate(_words(e, where, _c(OWN_STRIDE), t)):
        part = value if w == t else e.trunc(e.lshr(value, ir.Constant(t, 64 * i)), w)
        e.store(part, pointer(e, p))
    e.branch(done)
    e.position_at_end(away)
    status = write_far(e, own, address, value)
    _remember(e, address, status, site)
    after = e.block
    e.branch(done)
    e.position_at_end(done)
    return _either(e, ir.Constant(I1, 0), near, ir.Constant(I1, 1), after), _refused(e, near, status, after)


def place(e: Emitter, page: ir.Value, address: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Where an address is on the device, and how far the next word is."""
    stride = e.select(e.trunc(page, I1), _c(OWN_STRIDE), _c(WORD))
    first, offset = e.and_(page, _c(-2)), e.and_(address, _c(OFFSET))
    inside = e.or_(e.mul(e.lshr(offset, _c(3)), stride), e.and_(offset, _c(INSIDE)))
    return e.add(first, inside), stride


def ask_ahead(e: Emitter, address: ir.Value, page: ir.Value, steps: ir.Value) -> None:
    """Prefetch what is ahead of `address`, whose access returned `page`, by `steps` as in a slot, 64 bits.

    A word on the same page costs no look-up; another page's is not asked for.
    """
    known = e.icmp_unsigned(">", page, _c(DONE))
    for k in range(prefetch.MOST):
        step = e.sext(e.trunc(e.lshr(steps, _c(16 * k)), I16), I64)
        there = e.add(address, step)
        same = e.icmp_unsigned("==", e.lshr(e.xor(address, there), _c(12)), _c(0))
        some = e.icmp_unsigned("!=", step, _c(0))
        with e.if_then(e.and_(e.and_(known, same), some)):
            where, _ = place(e, page, there)
            # nothing depends on it: without a side effect the optimiser would remove it
            t = ir.FunctionType(ir.VoidType(), [I64])
            e.asm(t, prefetch.INSTRUCTION, "l", [where], side_effect=True)


def _hits(e: Emitter, address: ir.Value, size: int, site: Site) -> ir.Value:
    """Whether an access lies in whole words (one, if it is small) of the page that is remembered."""
    if not _quick_size(size):
        return ir.Constant(I1, 0)
    hit = e.icmp_unsigned("==", e.lshr(address, _c(12)), e.load(site.number, typ=I64))
    return e.and_(hit, _is_whole(e, address, size))


def _remember(e: Emitter, address: ir.Value, status: ir.Value, site: Site) -> None:
    known = e.icmp_unsigned(">", status, _c(DONE))
    e.store(e.select(known, e.lshr(address, _c(12)), _c(-1)), site.number)
    e.store(status, site.page)


def _either(e: Emitter, one: ir.Value, there: ir.Block, other: ir.Value, elsewhere: ir.Block) -> ir.Value:
    value = e.phi(one.type)
    value.add_incoming(one, there)
    value.add_incoming(other, elsewhere)
    return value


def _refused(e: Emitter, near: ir.Block, status: ir.Value, after: ir.Block) -> ir.Value:
    return e.icmp_unsigned("==", _either(e, _c(DONE), near, status, after), _c(REFUSED))


def _quick_size(size: int) -> bool:
    """Whether there is a quick way for accesses of that many bytes: not for those of three registers."""
    return size in (1, 2, 4) or size % 8 == 0


def _is_whole(e: Emitter, address: ir.Value, size: int) -> ir.Value:
    """Whether an access lies in whole words (one, if it is small) of one page."""
    if size == 1:
        return ir.Constant(I1, 1)
    offset = e.and_(address, _c(OFFSET))
    whole = e.and_(offset, _c(min(size, WORD) - 1))
    aligned = e.icmp_unsigned("==", whole, _c(0))
    return aligned if size <= WORD else e.and_(aligned, e.icmp_unsigned("<=", offset, _c(PAGE - size)))


def _words(e: Emitter, where: ir.Value, stride: ir.Value, t: ir.Type) -> list[tuple[ir.Value, ir.Type]]:
    """Addresses and types of the words that a `t` is in."""
    if t.width < 64:
        return [(where, t)]
    out = []
    for _ in range(t.width // 64):
        out.append((where, I64))
        where = e.add(where, stride)
    return out


def _join(e: Emitter, t: ir.Type, parts: list[ir.Value]) -> ir.Value:
    """A `t` of its words."""
    if len(parts) == 1:
        return parts[0]
    value = e.zext(parts[0], t)
    for i, word in enumerate(parts[1:], 1):
        value = e.or_(value, e.shl(e.zext(word, t), ir.Constant(t, 64 * i)))
    return value


# -- far: quick, or else careful -----------------------------------------------------------------------------
def read_far(e: Emitter, own: ir.Value, address: ir.Value, t: ir.Type) -> tuple[ir.Value, ir.Value]:
    """What a far access returned, and the little-endian `t`."""
    size = t.width // 8
    status, *words = _access(e, "read", size, [own, address], 1 + -(-size // WORD))
    return status, e.trunc(words[0], t) if t.width < 64 else _join(e, t, words)


def write_far(e: Emitter, own: ir.Value, address: ir.Value, value: ir.Value) -> ir.Value:
    """What a far access returned. It may have given the lane its own copy of a page."""
    size = value.type.width // 8
    whole = ir.IntType(64 * -(-size // WORD))
    wide = value if value.type == whole else e.zext(value, whole)
    words = [e.lshr(wide, ir.Constant(whole, at)) if at else wide for at in range(0, whole.width, 64)]
    words = [word if whole == I64 else e.trunc(word, I64) for word in words]
    return _access(e, "write", size, [own, address, *words], 1)[0]


def _access(e: Emitter, kind: str, size: int, arguments: Words, results: int) -> list[ir.Value]:
    """The results of the quick function, or of the careful one if that refuses."""
    t = ir.FunctionType(ir.LiteralStructType([I64] * results), [a.type for a in arguments])
    careful = _function(e.module, f"careful_{kind}_{size}", t, _careful)
    if not _quick_size(size):
        return _parts(e, e.call(careful, arguments))
    found = _parts(e, e.call(_function(e.module, f"quick_{kind}_{size}", t, _quick), arguments))
    before = e.block
    with e.if_then(e.icmp_unsigned("==", found[0], _c(REFUSED)), likely=False):
        other, there = _parts(e, e.call(careful, arguments)), e.block
    return [_either(e, one, before, another, there) for one, another in zip(found, other, strict=True)]


def _parts(e: Emitter, struct: ir.Value) -> list[ir.Value]:
    return [e.extract_value(struct, i) for i in range(len(struct.type.elements))]


def _function(
    module: ir.Module, name: str, t: ir.FunctionType, body: Callable[[ir.Function, str, int], None]
) -> ir.Function:
    if name not in module.globals:
        fn = ir.Function(module, t, name)
        fn.linkage = "internal"
        fn.attributes.add("noinline")  # see above
        _, kind, size = name.split("_")
        body(fn, kind, int(size))
    return module.globals[name]


def _return(e: Emitter, fn: ir.Function, values: Words) -> None:
    out = ir.Constant(fn.function_type.return_type, ir.Undefined)
    for i, value in enumerate(values):
        out = e.insert_value(out, value, i)
    e.ret(out)


def _careful(fn: ir.Function, kind: str, size: int) -> None:
    own, address, *words = fn.args
    e = Emitter(fn.append_basic_block("entry"))
    count = -(-size // WORD)
    data = e.words(count)
    for i in range(count):
        e.store_at(words[i] if words else _c(0), data, WORD * i)
    transfer: Transfer = read_slow if kind == "read" else write_slow
    known = (e.load_at(own, at, I64) for at in (Own.STATE, Own.PARAMS, Own.TABLE))
    arguments = [*known, lane_number(e), address, _c(size), e.ptrtoint(data, I64)]
    reason = call(e, transfer, *arguments)
    status = e.zext(e.icmp_unsigned("==", reason, _c(0)), I64)
    read_words = [] if words else [e.load_at(data, WORD * i, I64) for i in range(count)]
    _return(e, fn, [status, *read_words])


def _quick(fn: ir.Function, kind: str, size: int) -> None:
    own, address, *words = fn.args
    e = Emitter(fn.append_basic_block("entry"))
    page = _Page(e, own, address, READ if kind == "read" else WRITE)
    ok = e.and_(page.allowed, _is_whole(e, address, size))
    first = page.first_word if size == WORD else e.add(page.first_word, _zext(e, page.low, INSIDE))
    places = [first] if size <= WORD else [page.word(i) for i in range(size // WORD)]
    base = e.or_(page.base, e.zext(page.own, I64))
    status = e.select(ok, base, _c(REFUSED))
    t = ir.IntType(8 * min(size, WORD))
    if not words:
        read_words = [e.load(pointer(e, e.select(ok, at, page.entry)), typ=t) for at in places]
        _return(e, fn, [status, *(word if t == I64 else e.zext(word, I64) for word in read_words)])
        return
    with e.if_then(ok):
        for word, at in zip(words, places, strict=True):
            e.store(word if t == I64 else e.trunc(word, t), pointer(e, at))
    _return(e, fn, [status])


def _zext(e: Emitter, value: ir.Value, mask: int) -> ir.Value:
    return e.zext(e.and_(value, ir.Constant(I32, mask)), I64)


class _Page:
    """The page of an address. Numbers that fit into 32 bits have no more: the device computes with those.

    `entry`: the address of its entry. `allowed`: whether the lane may access it. `own`: whether it is the
    lane's own. `base`, `first_word`: where its first byte is, and the word that the address is in.
    """

    def __init__(self, e: Emitter, own: ir.Value, address: ir.Value, mask: int) -> None:
        self._e = e
        self.low = e.trunc(address, I32)
        number = e.trunc(e.lshr(address, _c(12)), I32)
        high = e.trunc(e.lshr(address, _c(32)), I32)
        beyond = e.and_(high, ir.Constant(I32, (1 << 24) - (1 << VA_BITS - 32)))
        in_range = e.icmp_unsigned("==", beyond, ir.Constant(I32, 0))
        root, table = (e.load_at(own, at, I64) for at in (Own.ROOT, Own.TABLE))
        chunks = (1 << VA_BITS - 12) // CHUNK
        where = _zext(e, e.lshr(number, ir.Constant(I32, 7)), 4 * (chunks - 1))
        chunk = e.load(pointer(e, e.add(root, where)), typ=I32)
        far = e.mul(e.zext(chunk, I64), _c(ENTRY_BYTES * CHUNK))
        within = _zext(e, e.shl(number, ir.Constant(I32, 5)), ENTRY_BYTES * (CHUNK - 1))
        self.entry = e.add(e.add(table, far), within)
        masks = e.load(pointer(e, e.add(self.entry, _c(READ))), typ=MASKS, align=16)
        places = e.load(pointer(e, self.entry), typ=PLACES, align=16)
        self._lane = e.trunc(lane_number(e), I32)
        allowed, owners = (e.extract_element(masks, e.index((at - READ) // 4)) for at in (mask, OWN))
        # a write needs the lane's own copy: another is for the careful function to make
        allowed = allowed if mask == READ else e.and_(allowed, owners)
        self.allowed = e.and_(self._bit(allowed), in_range)
        self.own = self._bit(owners) if mask == READ else ir.Constant(I1, 1)
        shared, slab = (self._now(e.extract_element(places, e.index(i))) for i in (0, 1))
        mine = e.add(slab, e.shl(e.zext(self._lane, I64), _c(3)))
        self.base = e.select(self.own, mine, e.and_(shared, _c(ADDRESS)))
        self._shift = e.select(self.own, ir.Constant(I32, 8), ir.Constant(I32, 3))
        self._index = e.and_(e.lshr(self.low, ir.Constant(I32, 3)), ir.Constant(I32, PAGE // WORD - 1))
        self.first_word = self.word(0)

    def _now(self, word: ir.Value) -> ir.Value:
        """The same word, as an assembly with side effects, which stays where it is.

        The word is loaded here, together with the masks. Without this the load moves below the branch on
        them, and an access waits for memory twice.
        """
        return self._e.asm(ir.FunctionType(I64, [I64]), "", "=l,0", [word], side_effect=True)

    def _bit(self, mask: ir.Value) -> ir.Value:
        return self._e.trunc(self._e.lshr(mask, self._lane), I1)

    def word(self, index: int) -> ir.Value:
        """Where the word is that comes `index` words later."""
        e = self._e
        number = e.add(self._index, ir.Constant(I32, index)) if index else self._index
        return e.add(self.base, e.zext(e.shl(number, self._shift), I64))
