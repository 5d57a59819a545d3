"""The rule for loops: what one would write by hand, from the shapes that compilers and libraries use.

It reads one instruction after another and computes nothing: which register the last comparison tests, which
add or write-back changes that, whether there are loads and stores.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvrm.isa.a64 import decode
from kvrm.isa.definition import Decoded
from kvrm.neural.loops.sites import Body
from kvrm.neural.loops.structure import Bound, Condition, Effect, Structure

ADDS = ("add_imm", "sub_imm", "adds_imm", "subs_imm", "add_shift", "sub_shift", "adds_shift", "subs_shift")
FOLDS = ("add_shift", "add_ext", "sub_shift", "eor_shift", "orr_shift", "and_shift")
ZERO = 31


def rule(bodies: Sequence[Body]) -> list[Structure | None]:
    """What each body seems to do."""
    return [_of(body) for body in bodies]


def _of(body: Body) -> Structure | None:
    code = [decode(word) for word in body]
    if any(d is None for d in code):
        return None
    known = [d for d in code if d is not None]
    tested = _tested(known)
    return None if tested is None else _structure(known, *tested)


def _tested(code: list[Decoded]) -> tuple[Condition, list[int], Bound] | None:
    """Condition, the registers that are compared, and with what the first is."""
    last = code[-1]
    key = last.definition.key
    if key in ("cbz", "cbnz"):
        return Condition(int(key == "cbnz")), [last.Rt], Bound.ZERO
    if key in ("tbz", "tbnz"):
        return (Condition.MI if key == "tbnz" else Condition.PL), [last.Rt], Bound.ZERO
    if last.cond not in set(Condition):
        return None
    condition = Condition(last.cond)
    for d in reversed(code[:-1]):
        name = d.definition.key
        if name == "subs_imm" or name == "adds_imm":
            stepped = d.Rd == d.Rn and condition in (Condition.NE, Condition.EQ, Condition.MI, Condition.PL)
            zero = stepped or d.imm12 == 0
            return condition, [d.Rn], Bound.ZERO if zero else Bound.CONSTANT
        if name in ("subs_shift", "subs_ext"):
            return condition, [d.Rn, d.Rm], Bound.REGISTER
        if name in ("ands_imm", "ands_shift"):
            return condition, [d.Rn], Bound.ZERO
    return None


def _structure(
    code: list[Decoded], condition: Condition, tested: list[int], bound: Bound
) -> Structure | None:
    loads = [d for d in code if _mnemonic(d).startswith("ld")]
    stores = [d for d in code if _mnemonic(d).startswith("st") or d.definition.key == "dc_zva"]
    loaded = {r for d in loads for r in (d.fields.get("Rt"), d.fields.get("Rt2")) if r is not None}
    if _vector(loads):
        loaded = set()
    data = [r for r in tested if r in loaded]
    if data:
        others = [r for r in tested if r not in data and r != ZERO]
        limit = bound if bound is not Bound.REGISTER or others else Bound.ZERO
        register = others[0] if others and limit is Bound.REGISTER else None
        return Structure(False, None, None, limit, register, condition, Effect.SEARCH)
    for counter in tested:
        found, step = _step(code, counter)
        if found:
            others = [r for r in tested if r not in (counter, ZERO)]
            register = others[0] if bound is Bound.REGISTER and others else None
            limit = bound if register is not None or bound is not Bound.REGISTER else Bound.ZERO
            return Structure(
                True, counter, step, limit, register, condition, _effect(code, loads, stores, loaded)
            )
    return None


def _mnemonic(d: Decoded) -> str:
    return d.definition.name.lower()


def _vector(loads: list[Decoded]) -> bool:
    return all(d.word >> 26 & 1 for d in loads)


def _step(code: list[Decoded], counter: int) -> tuple[bool, int | None]:
    """Whether something adds to the counter, and the register that has how much."""
    for d in code:
        fields, key = d.fields, d.definition.key
        if key in ADDS and fields.get("Rd") == counter and fields.get("Rn") == counter:
            return True, fields.get("Rm")
        if key.endswith(("_post", "_pre")) and fields.get("Rn") == counter:
            return True, None
    return False, None


def _effect(code: list[Decoded], loads: list[Decoded], stores: list[Decoded], loaded: set[int]) -> Effect:
    if stores:
        return Effect.COPY if loads else Effect.FILL
    folds = [d for d in code if d.definition.key in FOLDS and d.Rd in (d.Rn, d.Rm)]
    taken = any(loaded & {d.Rn, d.Rm} for d in folds)
    return Effect.REDUCTION if taken else Effect.PURE
