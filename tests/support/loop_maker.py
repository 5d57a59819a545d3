"""Random loops, and random states to begin them in."""

from __future__ import annotations

import random

from kvrm.lane.state import State
from kvrm.loops.affine import form_of
from kvrm.loops.analysis import Loop
from kvrm.loops.sums import Value
from kvrm.memory import PAGE, GuestFault
from loop_tools import CODE, WINDOWS, Lab, back, encode

LOADS = {1: "ldrb_w", 2: "ldrh_w", 4: "ldr_w", 8: "ldr_x", 16: "ldr_q"}
STORES = {1: "strb_w", 2: "strh_w", 4: "str_w", 8: "str_x", 16: "str_q"}
SIGNED = {1: ("ldrsb_x", "ldrsb_w"), 2: ("ldrsh_x", "ldrsh_w"), 4: ("ldrsw_x",)}


class Maker:
    """Draws loops of registers x0 to x9 and SP; some registers have several roles."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def body(self) -> list[int]:
        """A loop that might be accepted."""
        rng = self.rng
        kinds = [self.pure, self.fill, self.copy, self.pipelined, self.reduction, self.search]
        words, closed = rng.choice(kinds)()
        for _ in range(rng.choice((0, 0, 0, 1, 2))):
            words.insert(rng.randrange(len(words) + 1), self.noise())
        if not closed:
            words += self.exit()
        else:
            words += closed
        return back(words)

    def register(self) -> int:
        """A pointer, a counter, or anything."""
        return self.rng.randrange(10)

    def step(self, r: int) -> int:
        rng, wide = self.rng, self.rng.random() < 0.8
        n = rng.choice((1, 1, 2, 4, 8, 16, 64, 3, rng.randrange(4096)))
        choice = rng.random()
        if choice < 0.8:
            return encode(rng.choice(("add_imm", "sub_imm")), sf=wide, imm12=n, Rn=r, Rd=r)
        return encode(rng.choice(("add_shift", "sub_shift")), sf=wide, Rn=r, Rm=self.register(), Rd=r)

    def access(self, table: dict[int, str], size: int, base: int, data: int) -> int:
        """One access in a random addressing mode."""
        rng, key = self.rng, table[size]
        mode = rng.choice(("unsigned", "post", "post", "pre", "register", "unscaled"))
        if mode == "unsigned":
            return encode(f"{key}_unsigned", imm12=rng.choice((0, 0, 1, 2, 3)), Rn=base, Rt=data)
        if mode == "register":
            option, scaled = rng.choice((3, 3, 3, 2, 6, 7)), rng.randrange(2)
            return encode(f"{key}_register", Rm=self.register(), option=option, S=scaled, Rn=base, Rt=data)
        offset = rng.choice((size, size, size, -size, 2 * size, rng.randrange(-256, 256)))
        if mode == "unscaled":
            key = key.replace("ldr", "ldur").replace("str", "stur")
        return encode(f"{key}_{mode}", imm9=offset, Rn=base, Rt=data)

    def pair(self, store: bool, base: int, size: int, offset: int, mode: str, data: int) -> int:
        letter = {4: "w", 8: "x", 16: "q"}[size]
        key = f"{'stp' if store else 'ldp'}_{letter}_{mode}"
        return encode(key, imm7=offset // size, Rt2=(data + 1) % 31, Rn=base, Rt=data)

    def noise(self) -> int:
        """An instruction between registers."""
        rng, wide = self.rng, self.rng.randrange(2)
        d, n, m = rng.randrange(16), self.register(), self.register()
        return rng.choice(
            (
                encode("add_imm", sf=wide, imm12=rng.randrange(64), Rn=n, Rd=d),
                encode("orr_shift", sf=wide, Rn=31, Rm=m, Rd=d),
                encode("eor_shift", sf=wide, Rn=n, Rm=m, Rd=d),
                encode("and_imm", sf=wide, N=wide, imms=rng.randrange(16), Rn=n, Rd=d),
                encode("csel", sf=wide, Rm=m, cond=rng.randrange(14), Rn=n, Rd=d),
                encode("movz", sf=wide, imm16=rng.randrange(256), Rd=d),
                encode("subs_shift", sf=wide, Rm=m, Rn=n, Rd=31),
                encode("sbfm", sf=1, N=1, immr=0, imms=31, Rn=n, Rd=d),
                encode("ubfm", sf=1, N=1, immr=rng.randrange(64), imms=rng.randrange(64), Rn=n, Rd=d),
                encode("adcs", sf=wide, Rm=m, Rn=n, Rd=d),
                encode("add_shift", sf=wide, Rm=m, Rn=n, Rd=d),
            )
        )

    def exit(self) -> list[int]:
        """What decides about another iteration; the branch's offset is missing."""
        rng, wide = self.rng, int(self.rng.random() < 0.7)
        counter, other = self.register(), self.register()
        kind = rng.choice(("cbnz", "flags", "flags", "flags", "compare", "compare", "test", "bit"))
        stepped = [self.step(counter)] if rng.random() < 0.6 else []
        if kind == "cbnz":
            return [*stepped, encode(rng.choice(("cbnz", "cbnz", "cbz")), sf=wide, Rt=counter)]
        if kind == "bit":
            key, bit = rng.choice(("tbz", "tbnz")), rng.randrange(64)
            return [*stepped, encode(key, b5=bit >> 5, b40=bit & 31, Rt=counter)]
        cond = rng.choice((0, 1, 1, 1, 2, 3, 4, 5, 8, 8, 9, 10, 11, 12, 13))
        branch = encode("b_cond", cond=cond)
        if kind == "flags":
            key = rng.choice(("subs_imm", "subs_imm", "adds_imm"))
            return [encode(key, sf=wide, imm12=rng.choice((1, 1, 2, 8, 64)), Rn=counter, Rd=counter), branch]
        if kind == "test":
            return [
                *stepped,
                encode("ands_imm", sf=1, N=1, imms=rng.randrange(12), Rn=counter, Rd=31),
                branch,
            ]
        if rng.random() < 0.3:
            return [*stepped, encode("subs_imm", sf=wide, imm12=rng.randrange(64), Rn=counter, Rd=31), branch]
        if rng.random() < 0.2:
            return [
                *stepped,
                encode("subs_ext", Rm=other, option=rng.choice((0, 2, 6)), Rn=counter, Rd=31, sf=wide),
                branch,
            ]
        pair = rng.choice(((counter, other), (other, counter)))
        return [*stepped, encode("subs_shift", sf=wide, Rm=pair[1], Rn=pair[0], Rd=31), branch]

    def pure(self) -> tuple[list[int], list[int]]:
        return [self.step(self.register()) for _ in range(self.rng.randrange(1, 4))], []

    def fill(self) -> tuple[list[int], list[int]]:
        rng = self.rng
        base, size = self.register(), rng.choice((1, 2, 4, 8, 16))
        if rng.random() < 0.3 and size >= 4:
            modes = [("offset", 2 * size), ("pre", 4 * size)] if rng.random() < 0.7 else [("post", 2 * size)]
            return [self.pair(True, base, size, o, m, rng.choice((31, 20, 21))) for m, o in modes], []
        if rng.random() < 0.1:
            return [encode("dc_zva", Rt=base), encode("add_imm", sf=1, imm12=64, Rn=base, Rd=base)], []
        count = rng.choice((1, 1, 1, 2, 3))
        return [
            self.access(STORES, size, base, rng.choice((31, 20, 21, 20, self.register())))
            for _ in range(count)
        ], []

    def copy(self) -> tuple[list[int], list[int]]:
        rng = self.rng
        source, target, size = self.register(), self.register(), rng.choice((1, 2, 4, 8, 16))
        way = rng.choice((1, 1, -1))
        if rng.random() < 0.5:
            mode = "post" if size < 4 or rng.random() < 0.7 else "pair"
            if mode == "pair":
                return [
                    self.pair(False, source, size, 2 * size * way, "post", 14),
                    self.pair(True, target, size, 2 * size * way, "post", 14),
                ], []
            key = rng.choice(("post", "pre"))
            return [
                encode(f"{LOADS[size]}_{key}", imm9=size * way, Rn=source, Rt=14),
                encode(f"{STORES[size]}_{key}", imm9=size * way, Rn=target, Rt=14),
            ], []
        return [self.access(LOADS, size, source, 14), self.access(STORES, size, target, 14)], []

    def pipelined(self) -> tuple[list[int], list[int]]:
        """Stores of what the iteration before loaded."""
        rng = self.rng
        source, target, size = self.register(), self.register(), rng.choice((4, 8, 16))
        words = []
        for i in range(rng.choice((1, 2))):
            words.append(self.pair(True, target, size, 2 * size * i, "offset", 12 + 2 * i))
            words.append(self.pair(False, source, size, 2 * size * (i + 1), "offset", 12 + 2 * i))
        n = 2 * size * (len(words) // 2)
        words += [encode("add_imm", sf=1, imm12=n, Rn=r, Rd=r) for r in (source, target)]
        return words, []

    def reduction(self) -> tuple[list[int], list[int]]:
        rng = self.rng
        base, size = self.register(), rng.choice((1, 2, 4, 8))
        keys = [LOADS[size], *SIGNED.get(size, ())]
        words = []
        for i in range(rng.choice((1, 1, 2))):
            table = {size: rng.choice(keys)}
            words.append(self.access(table, size, base, 14 + i))
            key = rng.choice(("add_shift", "add_shift", "eor_shift", "orr_shift", "and_shift", "sub_shift"))
            total = rng.choice((16, 16, 17, self.register()))
            amount = rng.choice((0, 0, 0, 1, 3)) if key in ("add_shift", "sub_shift") else 0
            words.append(encode(key, sf=rng.randrange(2), Rm=14 + i, Rn=total, Rd=total, imm6=amount))
        return words, []

    def search(self) -> tuple[list[int], list[int]]:
        rng = self.rng
        base, size = self.register(), rng.choice((1, 1, 2, 4, 8))
        key = rng.choice([LOADS[size], *SIGNED.get(size, ())])
        words = [self.access({size: key}, size, base, 14)]
        wide = rng.randrange(2)
        if rng.random() < 0.4:
            return words, [encode(rng.choice(("cbnz", "cbnz", "cbz")), sf=wide, Rt=14)]
        branch = encode("b_cond", cond=rng.choice((0, 1, 1, 1, 2, 3, 8, 9, 10, 11, 12, 13)))
        if rng.random() < 0.5:
            return words, [encode("subs_imm", sf=wide, imm12=rng.randrange(256), Rn=14, Rd=31), branch]
        pair = rng.choice(((14, 18), (18, 14)))
        return words, [encode("subs_shift", sf=wide, Rm=pair[1], Rn=pair[0], Rd=31), branch]


def random_start(rng: random.Random, lab: Lab) -> tuple[bytes, int]:
    """A state in which the present loop may do something: pointers, ends, small and extreme numbers."""
    state = lab.state
    pointers = [_pointer(rng) for _ in range(4)]
    for r in range(19):
        kind = rng.random()
        if kind < 0.45:
            value = rng.choice(pointers) + rng.choice((0, 0, rng.randrange(-64, 64), 8 * rng.randrange(300)))
        elif kind < 0.8:
            value = rng.choice(
                (rng.randrange(80), rng.randrange(2000), -rng.randrange(200), 64 * rng.randrange(30))
            )
        else:
            value = rng.choice((1 << 31, 1 << 32, 1 << 63, 0, 1 << 64)) + rng.randrange(-300, 300)
        state.x[r] = value
    state.sp = rng.choice(pointers) & -16
    for i in range(20, 22):
        state.x[i] = rng.getrandbits(64)
        state.v[i] = rng.getrandbits(128)
    state.nzcv = rng.randrange(16)
    state.pc = CODE
    loop = lab.loop
    if loop is not None and rng.random() < 0.85:
        aim(rng, lab, loop)
    return state.save()


def _pointer(rng: random.Random) -> int:
    start, pages, _ = rng.choice((*WINDOWS, WINDOWS[0], WINDOWS[0], WINDOWS[0]))
    near = rng.choice((0, pages * PAGE, PAGE * rng.randrange(pages + 1), rng.randrange(pages * PAGE)))
    address = start + near + rng.choice((0, 0, 8 * rng.randrange(-20, 20), rng.randrange(-100, 100)))
    return address | (rng.randrange(256) << 56 if rng.random() < 0.03 else 0)


def aim(rng: random.Random, lab: Lab, loop: Loop) -> None:
    """Give registers that address memory pointers, others small numbers, and the exit some iterations."""
    state = lab.state
    pointing: dict[int, int] = {}
    for stream in loop.streams:
        slots = [t.offset >> 3 for t in form_of(stream.address).terms if t.mask >> 40]
        for r in slots[1:]:
            state.words[r] = rng.randrange(64)
        if slots:
            state.words[slots[0]] = _pointer(rng)
            pointing[slots[0]] = stream.stride or 1
    s, iterations = loop.structure, rng.choice((0, 1, 2, 3, rng.randrange(40), rng.randrange(400)))
    steps = {slot: step for slot, _, step in loop.moving}
    if s.counter is None:
        return
    step = steps[s.counter]
    stride = step - (step >> 63 << 64) if isinstance(step, int) else 1
    if s.counter in pointing and s.bound_register is not None:
        state.words[s.bound_register] = state.words[s.counter] + iterations * stride & (1 << 64) - 1
    elif s.counter not in pointing:
        goal = rng.choice((0, 0, 64, rng.randrange(100)))
        state.words[s.counter] = goal - iterations * stride & (1 << 64) - 1
        if s.bound_register is not None and s.bound_register not in pointing:
            state.words[s.bound_register] = goal
    if loop.copy is not None and rng.random() < 0.9:
        _hold_what_was_loaded(lab, loop)


def _hold_what_was_loaded(lab: Lab, loop: Loop) -> None:
    """As a copy's iteration before would have left it, as far as memory can be read."""
    assert loop.copy is not None
    base = _evaluated(loop.streams[loop.copy.source].address, lab.state)
    for held in loop.copy.held:
        try:
            data = lab.memory.read(base + held.apart & (1 << 64) - 1, held.size)
        except GuestFault:
            return
        whole = int.from_bytes(data, "little")
        for i in range(0, held.whole, 8):
            lab.state.set(held.offset + i, whole >> 8 * i & (1 << 64) - 1)


def _evaluated(value: Value, state: State) -> int:
    form = form_of(value)
    total = form.const
    for t in form.terms:
        narrow = state.get(t.offset) + t.plus & t.mask
        total += ((narrow ^ t.sign) - t.sign) * t.times
    return total & (1 << 64) - 1
