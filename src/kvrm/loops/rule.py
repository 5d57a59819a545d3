"""The rule for loops: what one would write by hand, from the shapes that compilers and libraries use.

It reads one instruction after another and computes nothing: which register the last comparison tests, which
add or write-back changes that, whether there are loads and stores. It proposes nothing where a register that
neither counts nor takes in what is loaded is read before it is written.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from kvrm.isa.a64 import decode
from kvrm.isa.definition import Decoded
from kvrm.isa.probe import Effects, effects_of
from kvrm.loops.sites import Body
from kvrm.loops.structure import Bound, Condition, Effect, Structure

ADDS = ("add_imm", "sub_imm", "adds_imm", "subs_imm", "add_shift", "sub_shift", "adds_shift", "subs_shift")
FOLDS = ("add_shift", "add_ext", "sub_shift", "sub_ext", "eor_shift", "orr_shift", "and_shift")
ZERO = 31


def rule(bodies: Sequence[Body]) -> list[Structure | None]:
    """What each body seems to do."""
    return [_of(body) for body in bodies]


def _of(body: Body) -> Structure | None:
    code = [d for word in body if (d := decode(word)) is not None]
    tested = _tested(code) if len(code) == len(body) else None
    found = None if tested is None else _structure(code, *tested)
    return found if found is not None and _plausible(code, found.effect) else None


@dataclass(slots=True)
class _Roles:
    """Registers by what a body does to them: it adds to them, loads them, or makes them otherwise."""

    stepped: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)


def _roles(code: list[Decoded]) -> _Roles:
    roles = _Roles()
    for d in code:
        counts = _counts(d)
        roles.stepped |= counts
        reads = any(kind == "read" for kind, _ in _effects(d.word).memory)
        (roles.loaded if reads else roles.made).update(_written(d) - counts)
    return roles


def _plausible(code: list[Decoded], effect: Effect) -> bool:
    """Whether what is not counted is made anew in each iteration, and what is stored is copied or kept."""
    roles, now = _roles(code), set[str]()
    changing = roles.loaded | roles.made
    stored = roles.stepped | roles.made | (set() if effect is Effect.COPY else roles.loaded)
    for d in code:
        does, counts = _effects(d.word), _counts(d)
        if does.system_read or does.system_written or does.event is not None:
            return False
        folds = effect is Effect.REDUCTION and d.definition.key in FOLDS and d.Rd in (d.Rn, d.Rm)
        stores = any(kind == "write" for kind, _ in does.memory)
        data = _data(d) if stores else set()
        if (data - {"31"}) & stored or (does.memory and (_read(d) - data) & changing):
            return False
        if (_read(d) - data) & changing - now - counts and not folds:
            return False
        now |= _written(d)
    return True


@functools.lru_cache(4096)
def _effects(word: int) -> Effects:
    d = decode(word)
    assert d is not None
    return effects_of(d)


def _read(d: Decoded) -> set[str]:
    does = _effects(d.word)
    return {*map(str, does.x_read), *(f"v{r}" for r in does.v_read)}


def _written(d: Decoded) -> set[str]:
    does = _effects(d.word)
    return {*map(str, does.x_written), *(f"v{r}" for r in does.v_written)}


def _counts(d: Decoded) -> set[str]:
    """The register that an instruction adds to or writes back."""
    key, fields = d.definition.key, d.fields
    if key in ADDS and fields["Rd"] == fields["Rn"]:
        return {_name(fields["Rd"])}
    return {_name(fields["Rn"])} if key.endswith(("_post", "_pre")) else set()


def _name(register: int) -> str:
    return "sp" if register == ZERO else str(register)


def _data(d: Decoded) -> set[str]:
    """The registers that a store stores."""
    vector = d.word >> 26 & 1
    numbers = [d.fields[name] for name in ("Rt", "Rt2") if name in d.fields and d.definition.key != "dc_zva"]
    return {f"v{r}" if vector else str(r) for r in numbers}


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
