"""The rows: each primitive folds on ints and emits through an engine's emitter, with the same total meaning.

`e` is the emitter that an engine passes (`kvrm.staging.emitter.Emitter`); its methods carry LLVM's names.
Nothing here imports LLVM.
"""

from __future__ import annotations

from typing import Any

from kvrm.values.bits import primitive


def signed(width: int, value: int) -> int:
    """The two's complement reading of `value`."""
    return value - (1 << width) if value >> (width - 1) else value


def _sdiv(w: int, a: int, b: int) -> int:
    a, b = signed(w, a), signed(w, b)
    if b == 0:
        return 0
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _reverse(w: int, a: int) -> int:
    return int(f"{a:0{w}b}"[::-1], 2)


def _swap(w: int, a: int) -> int:
    return int.from_bytes(a.to_bytes(w // 8, "little"), "big")


def _reshape(w: int, lanes: tuple[int, ...], width: int, count: int) -> list[int]:
    whole = sum(v << (i * w) for i, v in enumerate(lanes))
    return [(whole >> (i * width)) & ((1 << width) - 1) for i in range(count)]


def _shift(op: str) -> Any:
    def emit(e: Any, t: Any, a: Any, n: Any) -> Any:
        w, amount = e.width(a), e.known(n)
        if amount is not None and amount < w:
            return getattr(e, op)(a, n)
        inside = e.icmp_unsigned("<", n, e.const(n.type, w))
        if op == "ashr":
            return e.ashr(a, e.select(inside, n, e.const(n.type, w - 1)))
        safe = e.select(inside, n, e.const(n.type, 0))
        return e.select(inside, getattr(e, op)(a, safe), e.const(t, 0))

    return emit


def _emit_udiv(e: Any, t: Any, a: Any, b: Any) -> Any:
    zero = e.icmp_unsigned("==", b, e.const(t, 0))
    return e.select(zero, e.const(t, 0), e.udiv(a, e.select(zero, e.const(t, 1), b)))


def _emit_sdiv(e: Any, t: Any, a: Any, b: Any) -> Any:
    zero = e.icmp_unsigned("==", b, e.const(t, 0))
    minus = e.icmp_unsigned("==", b, e.const(t, -1))
    safe = e.select(e.or_(zero, minus), e.const(t, 1), b)
    q = e.select(minus, e.sub(e.const(t, 0), a), e.sdiv(a, safe))
    return e.select(zero, e.const(t, 0), q)


def _emit_mulh(extend: str) -> Any:
    def emit(e: Any, t: Any, a: Any, b: Any) -> Any:
        w = e.width(a)
        wide = e.resized(a.type, 2 * w)
        product = e.mul(getattr(e, extend)(a, wide), getattr(e, extend)(b, wide))
        return e.trunc(e.lshr(product, e.const(wide, w)), t)

    return emit


def _compare(signedness: str, op: str) -> Any:
    return lambda e, t, a, b: getattr(e, f"icmp_{signedness}")(op, a, b)


def _intrinsic(name: str, *extra: Any) -> Any:
    return lambda e, t, *args: e.intrinsic(name, t, *args, *extra)


primitive("add", lambda w, a, b: a + b, lambda e, t, a, b: e.add(a, b))
primitive("sub", lambda w, a, b: a - b, lambda e, t, a, b: e.sub(a, b))
primitive("mul", lambda w, a, b: a * b, lambda e, t, a, b: e.mul(a, b))
primitive("and", lambda w, a, b: a & b, lambda e, t, a, b: e.and_(a, b))
primitive("or", lambda w, a, b: a | b, lambda e, t, a, b: e.or_(a, b))
primitive("xor", lambda w, a, b: a ^ b, lambda e, t, a, b: e.xor(a, b))
primitive("lsl", lambda w, a, n: a << n if n < w else 0, _shift("shl"))
primitive("lsr", lambda w, a, n: a >> n if n < w else 0, _shift("lshr"))
primitive("asr", lambda w, a, n: signed(w, a) >> min(n, w - 1), _shift("ashr"))
primitive(
    "ror", lambda w, a, n: (a >> n % w) | (a << -n % w), lambda e, t, a, n: e.intrinsic("fshr", t, a, a, n)
)
primitive("udiv", lambda w, a, b: a // b if b else 0, _emit_udiv)
primitive("sdiv", _sdiv, _emit_sdiv)
primitive("umulh", lambda w, a, b: (a * b) >> w, _emit_mulh("zext"))
primitive("smulh", lambda w, a, b: (signed(w, a) * signed(w, b)) >> w, _emit_mulh("sext"))
primitive("umin", lambda w, a, b: min(a, b), _intrinsic("umin"))
primitive("umax", lambda w, a, b: max(a, b), _intrinsic("umax"))
primitive("smin", lambda w, a, b: min(signed(w, a), signed(w, b)), _intrinsic("smin"))
primitive("smax", lambda w, a, b: max(signed(w, a), signed(w, b)), _intrinsic("smax"))
primitive("clz", lambda w, a: w - a.bit_length(), lambda e, t, a: e.intrinsic("ctlz", t, a, e.false))
primitive("popcount", lambda w, a: a.bit_count(), _intrinsic("ctpop"))
primitive("bitreverse", _reverse, _intrinsic("bitreverse"))
primitive("byteswap", _swap, _intrinsic("bswap"))

primitive("eq", lambda w, a, b: int(a == b), _compare("unsigned", "=="))
primitive("ult", lambda w, a, b: int(a < b), _compare("unsigned", "<"))
primitive("ule", lambda w, a, b: int(a <= b), _compare("unsigned", "<="))
primitive("slt", lambda w, a, b: int(signed(w, a) < signed(w, b)), _compare("signed", "<"))
primitive("sle", lambda w, a, b: int(signed(w, a) <= signed(w, b)), _compare("signed", "<="))
primitive("select", lambda w, c, a, b: a if c else b, lambda e, t, c, a, b: e.select(c, a, b))

primitive("zext", lambda w, a: a, lambda e, t, a: e.zext(a, t))
primitive("sext", signed, lambda e, t, a: e.sext(a, t))
primitive("trunc", lambda w, a: a, lambda e, t, a: e.trunc(a, t))

primitive("lane", lambda w, a, i: (a[i],), lambda e, t, a, i: e.extract_element(a, e.index(i)), whole=True)
primitive(
    "lane_at",
    lambda w, a, i: (a[i[0] % len(a)],),
    lambda e, t, a, i: e.extract_element(a, e.lane_index(a, i)),
    whole=True,
)
primitive(
    "with_lane",
    lambda w, a, v, i: (*a[:i], v[0], *a[i + 1 :]),
    lambda e, t, a, v, i: e.insert_element(a, v, e.index(i)),
    whole=True,
)
primitive(
    "with_lane_at",
    lambda w, a, i, v: (*a[: i[0] % len(a)], v[0], *a[i[0] % len(a) + 1 :]),
    lambda e, t, a, i, v: e.insert_element(a, v, e.lane_index(a, i)),
    whole=True,
)
primitive("splat", lambda w, a, n: a * n, lambda e, t, a, n: e.splat(a, n), whole=True)
primitive(
    "shuffle",
    lambda w, a, b, ix: [(a + b)[i] for i in ix],
    lambda e, t, a, b, ix: e.shuffle(a, b, ix),
    whole=True,
)

primitive("reshape", _reshape, lambda e, t, a, width, count: e.bitcast(a, t), whole=True)
