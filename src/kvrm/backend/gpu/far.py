"""Far accesses: calls of functions that find the page of an address and make the access.

Nearly all end in the *quick* function. It has no call and no memory of its own, which would cost it more than
its work: where it would need them it does nothing, and the *careful* function is called instead.

Both are calls: in line, the accesses of a large program fill the instruction cache, and a warp waited 37
cycles for code for each instruction it issued, instead of 26 (docs/measurements/gpu.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from kvrm.backend.gpu import group_memory
from kvrm.backend.gpu.device_abi import Own, lane_number, pointer
from kvrm.backend.gpu.group_memory import ADDRESS, CHUNK, MASK, OWN, READ
from kvrm.memory import PAGE, VA_BITS
from kvrm.staging.emitter import I1, I32, I64, PTR, Emitter

REFUSED, DONE = 0, 1
"""What a far access returns, or else where its page begins, plus 1 if the page is the lane's own."""
WORD = 8
MASKS = ir.VectorType(I32, 4)
PLACES = ir.VectorType(I64, 2)
"""What an entry has: masks, from READ on, and the addresses in front of them."""
Words = Sequence[ir.Value]


def read(e: Emitter, own: ir.Value, address: ir.Value, t: ir.Type) -> tuple[ir.Value, ir.Value]:
    """What a far access returned, and the little-endian `t`."""
    size = t.width // 8
    status, *words = _access(e, "read", size, [own, address], 1 + -(-size // WORD))
    return status, e.trunc(words[0], t) if t.width < 64 else group_memory.join(e, t, words)


def write(e: Emitter, own: ir.Value, address: ir.Value, value: ir.Value) -> ir.Value:
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
    if not group_memory.fast(size):
        return _parts(e, e.call(careful, arguments))
    found = _parts(e, e.call(_function(e.module, f"quick_{kind}_{size}", t, _quick), arguments))
    before = e.block
    with e.if_then(e.icmp_unsigned("==", found[0], ir.Constant(I64, REFUSED)), likely=False):
        other, there = _parts(e, e.call(careful, arguments)), e.block
    out = []
    for one, another in zip(found, other, strict=True):
        either = e.phi(I64)
        either.add_incoming(one, before)
        either.add_incoming(another, there)
        out.append(either)
    return out


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
    data = group_memory.local_words(e, count)
    for i in range(count):
        e.store_at(words[i] if words else ir.Constant(I64, 0), data, WORD * i)
    state, params, table = (
        e.load_at(own, at, t) for at, t in ((Own.STATE, PTR), (Own.PARAMS, I64), (Own.TABLE, I64))
    )
    slow = group_memory.slow_function(e.module, f"{kind}_slow")
    reason = e.call(slow, [state, params, table, lane_number(e), address, ir.Constant(I64, size), data])
    status = e.zext(e.icmp_unsigned("==", reason, ir.Constant(I64, 0)), I64)
    read_words = [] if words else [e.load_at(data, WORD * i, I64) for i in range(count)]
    _return(e, fn, [status, *read_words])


def _quick(fn: ir.Function, kind: str, size: int) -> None:
    own, address, *words = fn.args
    e = Emitter(fn.append_basic_block("entry"))
    page = _Page(e, own, address, "R" if kind == "read" else "W")
    ok = e.and_(page.allowed, group_memory.is_easy(e, group_memory.offset_of(e, address), size))
    first = page.first_word if size == WORD else e.add(page.first_word, _zext(e, page.low, 7))
    places = [first] if size <= WORD else [page.word(i) for i in range(size // WORD)]
    base = e.or_(page.base, e.zext(page.own, I64))
    status = e.select(ok, base, ir.Constant(I64, REFUSED))
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

    def __init__(self, e: Emitter, own: ir.Value, address: ir.Value, access: str) -> None:
        self._e = e
        self.low = e.trunc(address, I32)
        number = e.trunc(e.lshr(address, ir.Constant(I64, 12)), I32)
        high = e.trunc(e.lshr(address, ir.Constant(I64, 32)), I32)
        beyond = e.and_(high, ir.Constant(I32, (1 << 24) - (1 << VA_BITS - 32)))
        in_range = e.icmp_unsigned("==", beyond, ir.Constant(I32, 0))
        root, table = (e.load_at(own, at, I64) for at in (Own.ROOT, Own.TABLE))
        chunks = (1 << VA_BITS - 12) // CHUNK
        where = _zext(e, e.lshr(number, ir.Constant(I32, 7)), 4 * (chunks - 1))
        chunk = e.load(pointer(e, e.add(root, where)), typ=I32)
        far = e.mul(e.zext(chunk, I64), ir.Constant(I64, 32 * CHUNK))
        within = _zext(e, e.shl(number, ir.Constant(I32, 5)), 32 * (CHUNK - 1))
        self.entry = e.add(e.add(table, far), within)
        masks = e.load(pointer(e, e.add(self.entry, ir.Constant(I64, READ))), typ=MASKS, align=16)
        places = e.load(pointer(e, self.entry), typ=PLACES, align=16)
        self._lane = e.trunc(lane_number(e), I32)
        mask, owners = (e.extract_element(masks, e.index((at - READ) // 4)) for at in (MASK[access], OWN))
        self.allowed = e.and_(self._bit(mask if access == "R" else e.and_(mask, owners)), in_range)
        self.own = self._bit(owners) if access == "R" else ir.Constant(I1, 1)
        shared, slab = (self._now(e.extract_element(places, e.index(i))) for i in (0, 1))
        mine = e.add(slab, e.shl(e.zext(self._lane, I64), ir.Constant(I64, 3)))
        self.base = e.select(self.own, mine, e.and_(shared, ir.Constant(I64, ADDRESS)))
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
