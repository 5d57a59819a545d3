"""Advanced SIMD loads and stores of structures: LD1-LD4, ST1-ST4, LD1R-LD4R (Arm ARM C4.1.88).

All elements of an instruction are one access to consecutive memory, so a fault leaves everything untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kvrm.isa.assembly import general, number, printer
from kvrm.isa.context import Context
from kvrm.isa.definition import Decoded, Execution, Static, insn
from kvrm.values import Bits, bits, concat, cond

EXECUTION = Execution.LOAD_STORE


def joined(parts: Sequence[Bits]) -> Bits:
    """The lanes of values of one shape as one value, those of the first one lowest."""
    if len(parts) == 1:
        return parts[0]
    padded = [*parts, parts[-1]] if len(parts) % 2 else parts
    lanes = parts[0].lanes
    pairs = [a.shuffle(range(2 * lanes), b) for a, b in zip(padded[::2], padded[1::2], strict=True)]
    both = joined(pairs)
    return both if padded is parts else both.shuffle(range(len(parts) * lanes))


def interleaved(lanes: int, count: int, selem: int) -> list[list[int]]:
    """Which elements of memory make up each of `count` registers: neighbours, or every selem-th one."""
    if selem == 1:
        return [list(range(r * lanes, (r + 1) * lanes)) for r in range(count)]
    return [list(range(r, lanes * count, count)) for r in range(count)]


def _advance(m: Context, Rn: Bits, Rm: Bits, size: int) -> None:
    """Add to the base what the post-index form says: Xm, or the size in bytes where Rm is 31."""
    m.xsp[Rn, 64] = m.xsp[Rn, 64] + m.x[Rm, 64] + cond(Rm.eq(31), bits(64, size), 0)


# -- Multiple structures ---------------------------------------------------------------------------------


def load_multiple(m: Context, Q: Static, size: Static, Rn: Bits, Rt: Bits, count: int, selem: int) -> None:
    """LD1, LD2, LD3, LD4 (multiple structures)."""
    datasize, esize = 128 if Q else 64, 8 << size
    elements = m.mem[m.base[Rn], count * datasize].split(esize)
    for r, places in enumerate(interleaved(datasize // esize, count, selem)):
        m.v[Rt + r, datasize] = elements.shuffle(places)


def store_multiple(m: Context, Q: Static, size: Static, Rn: Bits, Rt: Bits, count: int, selem: int) -> None:
    """ST1, ST2, ST3, ST4 (multiple structures)."""
    datasize, esize = 128 if Q else 64, 8 << size
    elements = joined([m.v[Rt + r, datasize].split(esize) for r in range(count)])
    if selem > 1:
        lanes = datasize // esize
        elements = elements.shuffle([r * lanes + e for e in range(lanes) for r in range(count)])
    m.mem[m.base[Rn], count * datasize] = elements


def load_multiple_post(
    m: Context, Q: Static, Rm: Bits, size: Static, Rn: Bits, Rt: Bits, count: int, selem: int
) -> None:
    """LD1, LD2, LD3, LD4 (multiple structures), post-index."""
    load_multiple(m, Q, size, Rn, Rt, count, selem)
    _advance(m, Rn, Rm, count * (16 if Q else 8))


def store_multiple_post(
    m: Context, Q: Static, Rm: Bits, size: Static, Rn: Bits, Rt: Bits, count: int, selem: int
) -> None:
    """ST1, ST2, ST3, ST4 (multiple structures), post-index."""
    store_multiple(m, Q, size, Rn, Rt, count, selem)
    _advance(m, Rn, Rm, count * (16 if Q else 8))


# -- Single structures -----------------------------------------------------------------------------------


def element_of(opcode: int, Q: int, S: int, size: int) -> tuple[int, int]:
    """Element size in bits and lane number of a single structure."""
    if opcode == 2 and size & 1:
        return 64, Q
    return 8 << opcode, (Q << 3 | S << 2 | size) >> opcode


def load_single(
    m: Context, Q: Static, opcode: Static, S: Static, size: Static, Rn: Bits, Rt: Bits, selem: int
) -> None:
    """LD1, LD2, LD3, LD4 (single structure)."""
    esize, lane = element_of(opcode, Q, S, size)
    structure = m.mem[m.base[Rn], selem * esize]
    for r in range(selem):
        element = structure[esize * (r + 1) - 1 : esize * r]
        m.v[Rt + r, 128] = m.v[Rt + r, 128].split(esize).with_lane(lane, element)


def store_single(
    m: Context, Q: Static, opcode: Static, S: Static, size: Static, Rn: Bits, Rt: Bits, selem: int
) -> None:
    """ST1, ST2, ST3, ST4 (single structure)."""
    esize, lane = element_of(opcode, Q, S, size)
    elements = [m.v[Rt + r, 128].split(esize).lane(lane) for r in range(selem)]
    m.mem[m.base[Rn], selem * esize] = concat(*reversed(elements))


def load_single_post(
    m: Context, Q: Static, Rm: Bits, opcode: Static, S: Static, size: Static, Rn: Bits, Rt: Bits, selem: int
) -> None:
    """LD1, LD2, LD3, LD4 (single structure), post-index."""
    load_single(m, Q, opcode, S, size, Rn, Rt, selem)
    _advance(m, Rn, Rm, selem * element_of(opcode, Q, S, size)[0] // 8)


def store_single_post(
    m: Context, Q: Static, Rm: Bits, opcode: Static, S: Static, size: Static, Rn: Bits, Rt: Bits, selem: int
) -> None:
    """ST1, ST2, ST3, ST4 (single structure), post-index."""
    store_single(m, Q, opcode, S, size, Rn, Rt, selem)
    _advance(m, Rn, Rm, selem * element_of(opcode, Q, S, size)[0] // 8)


def load_replicate(m: Context, Q: Static, size: Static, Rn: Bits, Rt: Bits, selem: int) -> None:
    """LD1R, LD2R, LD3R, LD4R."""
    datasize, esize = 128 if Q else 64, 8 << size
    structure = m.mem[m.base[Rn], selem * esize]
    for r in range(selem):
        m.v[Rt + r, datasize] = structure[esize * (r + 1) - 1 : esize * r].splat(datasize // esize)


def load_replicate_post(
    m: Context, Q: Static, Rm: Bits, size: Static, Rn: Bits, Rt: Bits, selem: int
) -> None:
    """LD1R, LD2R, LD3R, LD4R, post-index."""
    load_replicate(m, Q, size, Rn, Rt, selem)
    _advance(m, Rn, Rm, selem << size)


# -- Assembly --------------------------------------------------------------------------------------------


def _list(d: Decoded, arrangement: str) -> str:
    bound = d.definition.bound
    count = bound.get("count", bound["selem"])
    return "{" + ", ".join(f"v{(d.Rt + r) % 32}.{arrangement}" for r in range(count)) + "}"


@printer
def arranged(d: Decoded, _: int) -> str:
    """A register list whose arrangement `size` and `Q` say."""
    return _list(d, f"{(8 << d.Q) >> d.size}{'bhsd'[d.size]}")


@printer
def element_list(d: Decoded, _: int) -> str:
    """A register list with the lane of a single structure."""
    esize, lane = element_of(d.opcode, d.Q, d.S, d.size)
    return f"{_list(d, 'bhsd'[esize.bit_length() - 4])}[{number(lane)[1:]}]"


@printer
def step(d: Decoded, r: int) -> str:
    """What the post-index form adds: a register, or the bytes that it accesses, in decimal."""
    if r < 31:
        return general(r, 1)
    bound = d.definition.bound
    if "count" in bound:
        return f"#{bound['count'] * (16 if d.Q else 8)}"
    if "opcode" in d.fields:
        return f"#{bound['selem'] * element_of(d.opcode, d.Q, d.S, d.size)[0] // 8}"
    return f"#{bound['selem'] << d.size}"


# -- Definitions -----------------------------------------------------------------------------------------


Operations = tuple[Callable[..., None], Callable[..., None]]
"""Of the form without and of the form with post-index."""


def _define(
    name: str,
    kind: str,
    head: str,
    tail: str,
    registers: str,
    operations: Operations,
    holes: str,
    bound: dict[str, Any],
) -> None:
    """The form without and the form with post-index, which differ in bit 23 and in Rm."""
    mnemonic = name.split()[0].lower()
    asm = f"{mnemonic} {{:{registers}}}, [{{Rn:Xsp}}]"
    plain = f"{head.replace('post', '0')} 00000 {tail} Rn:5 Rt:5"
    insn(name, plain, asm, key=f"{mnemonic}_{kind}", unallocated=holes, **bound)(operations[0])
    post = f"{head.replace('post', '1')} Rm:5 {tail} Rn:5 Rt:5"
    key = f"{mnemonic}_{kind}_post"
    insn(name, post, f"{asm}, {{Rm:step}}", key=key, unallocated=holes, **bound)(operations[1])


MULTIPLE: tuple[tuple[int, str, Operations], ...] = (
    (0, "ST", (store_multiple, store_multiple_post)),
    (1, "LD", (load_multiple, load_multiple_post)),
)
SINGLE: tuple[tuple[int, str, Operations], ...] = (
    (0, "ST", (store_single, store_single_post)),
    (1, "LD", (load_single, load_single_post)),
)
NO_ELEMENT = "opcode=11 | opcode=01 size=x1 | opcode=10 size=1x | opcode=10 size=01 S=1"

for _opcode, _count, _selem in (
    ("0111", 1, 1),
    ("1010", 2, 1),
    ("0110", 3, 1),
    ("0010", 4, 1),
    ("1000", 2, 2),
    ("0100", 3, 3),
    ("0000", 4, 4),
):
    for _load, _mnemonic, _operations in MULTIPLE:
        _define(
            f"{_mnemonic}{_selem} (multiple structures)",
            f"multiple_{_count}",
            f"0 Q 001100 post {_load} 0",
            f"{_opcode} size:2",
            "arranged",
            _operations,
            "Q=0 size=11" if _selem > 1 else "",
            {"count": _count, "selem": _selem},
        )

for _selem in range(1, 5):
    _odd, _r = (_selem - 1) >> 1, (_selem - 1) & 1
    for _load, _mnemonic, _operations in SINGLE:
        _define(
            f"{_mnemonic}{_selem} (single structure)",
            "single",
            f"0 Q 001101 post {_load} {_r}",
            f"opcode:2 {_odd} S size:2",
            "element_list",
            _operations,
            NO_ELEMENT,
            {"selem": _selem},
        )
    _define(
        f"LD{_selem}R",
        "replicate",
        f"0 Q 001101 post 1 {_r}",
        f"11 {_odd} 0 size:2",
        "arranged",
        (load_replicate, load_replicate_post),
        "",
        {"selem": _selem},
    )
