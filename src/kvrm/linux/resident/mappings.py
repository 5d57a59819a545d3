"""The staged system calls that change a lane's mappings: its pages, its words, and its log."""

from __future__ import annotations

from llvmlite import ir

from kvrm.linux import abi
from kvrm.linux.calls.advice import HARMLESS
from kvrm.linux.errno import Errno
from kvrm.linux.loader import MMAP_TOP
from kvrm.linux.resident import files
from kvrm.linux.resident.call import LARGEST, NUMBERS, Call, const
from kvrm.linux.resident.layout import (
    FILE,
    KEEP,
    MAP,
    SOME_BEYOND,
    SOME_CODE,
    SOME_FILE,
    SOME_HOLE,
    SOME_MAPPED,
    SOME_OTHER,
    Fixed,
    Word,
)
from kvrm.memory import PAGE, VA_BITS, Prot
from kvrm.staging.emitter import I64

NOTHING = const(0), const(0)
"""Device address and bytes of a file that memory shows which is none."""
_UNUSUAL = abi.MAP_FIXED | abi.MAP_GROWSDOWN | abi.MAP_LOCKED | abi.MAP_HUGETLB
_UNUSUAL |= ~(abi.LEGACY_MAP_FLAGS | abi.MAP_TYPE)
"""Flags of mmap that are for the CPU."""


def brk(c: Call) -> None:
    """Move the end of the heap, over pages that nothing else has."""
    e, address, old = c.e, c.x(0), c.get(Word.HEAP_END)
    low, high = c.below(address, c.fixed(Fixed.HEAP_START)), c.below(const((1 << VA_BITS) - PAGE), address)
    c.ret_if(e.or_(low, high), old)
    c.require_room_in_log()
    before, after = _page_up(c, old), _page_up(c, address)
    grows = c.below(before, after)
    start, end = e.select(grows, before, after), e.select(grows, after, before)
    c.refuse_if(e.and_(grows, c.has(c.fixed(Fixed.LIMITED), 1)))
    found = c.examine(start, end)
    c.refuse_if(c.has(found, SOME_OTHER | SOME_CODE))
    # a page stays free between the heap and what follows it
    beyond = c.examine(end, e.add(end, const(PAGE)))
    c.ret_if(e.and_(grows, c.has(e.or_(found, beyond), SOME_MAPPED)), old)
    with e.if_else(grows) as (larger, smaller):
        with larger:
            c.show(start, end, const(Prot.R | Prot.W | MAP), *NOTHING, const(0))
        with smaller:
            c.change(start, end, 0)
    c.put(Word.HEAP_END, address)
    c.log(NUMBERS["brk"], address)
    c.ret(address)


def mmap(c: Call) -> None:
    """New memory or a file below all other: where it goes unless there is a hole that is large enough."""
    e, prot, flags = c.e, c.x(2), c.x(3, "u")
    c.fail_if(c.has(c.x(5), PAGE - 1), Errno.EINVAL)
    fd, anonymous = c.x(4, "i"), c.has(flags, abi.MAP_ANONYMOUS)
    with e.if_then(e.not_(anonymous)):
        c.stream(fd)
    c.fail_if(c.equal(c.x(1), 0), Errno.EINVAL)
    c.refuse_if(e.or_(c.has(c.x(0), -1), c.has(flags, _UNUSUAL)))
    c.refuse_if(e.or_(c.has(c.fixed(Fixed.LIMITED), 1), c.has(c.x(5), 1 << 63)))
    c.refuse_unless(c.below(e.sub(c.x(1), const(1)), LARGEST))
    c.require_room_in_log()
    kind, last = e.sub(e.and_(flags, const(abi.MAP_TYPE)), const(abi.MAP_SHARED)), abi.MAP_SHARED_VALIDATE
    of_memory = e.select(anonymous, const(last - 1), const(last))
    c.fail_if(e.not_(c.below(kind, of_memory)), Errno.EINVAL)
    length, end = _page_up(c, c.x(1)), c.get(Word.LOWEST)
    file, content, size = _what(c, length)
    room = c.get(Word.FILE_ROOM)
    c.refuse_if(c.below(room, size))
    c.refuse_unless(c.below(c.get(Word.HOLES), length))
    start = e.sub(end, length)
    c.refuse_if(c.has(c.examine(start, end), SOME_MAPPED | SOME_OTHER | SOME_CODE))
    rest = e.select(anonymous, const(0), const(FILE))
    c.show(start, end, _allowed(c, prot, MAP), content, size, rest)
    _note_code(c)
    c.put(Word.LOWEST, start)
    c.put(Word.FILE_ROOM, e.sub(room, size))
    c.log(NUMBERS["mmap"], start, *(c.x(i) for i in range(4)), file, c.x(5))
    c.ret(start)


def _allowed(c: Call, prot: ir.Value, bits: int) -> ir.Value:
    """What pages become with these permissions: what may be written or executed can be read."""
    e, read = c.e, c.e.select(c.has(prot, abi.PROT_RWX), const(Prot.R), const(0))
    return e.or_(e.or_(read, e.and_(prot, const(Prot.W))), const(bits))


def _what(c: Call, length: ir.Value) -> list[ir.Value]:
    """What mmap maps: the lane's word of the file instead of the descriptor, device address, and bytes."""
    e, parts = c.e, [c.local(1) for _ in range(3)]

    def be(*values: ir.Value) -> None:
        for part, value in zip(parts, values, strict=True):
            e.store(value, part)

    be(c.x(4), *NOTHING)
    with e.if_then(e.not_(c.has(c.x(3), abi.MAP_ANONYMOUS))):
        be(*files.mappable(c, c.x(4, "i"), c.x(5), length))
    return [e.load(part, typ=I64) for part in parts]


def munmap(c: Call) -> None:
    """Remove mappings that can be put back: memory that was zeros or a file before it was written."""
    e = c.e
    start, end = _range(c)
    lowest = c.get(Word.LOWEST)
    c.refuse_if(e.or_(c.below(start, lowest), c.below(const(MMAP_TOP), end)))
    c.require_room_in_log()
    c.refuse_if(c.has(c.examine(start, end), SOME_OTHER | SOME_CODE))
    c.change(start, end, 0)
    c.put(Word.HOLES, e.add(c.get(Word.HOLES), e.sub(end, start)))
    with e.if_then(c.equal(start, lowest)):
        _raise_lowest(c)
    c.log(NUMBERS["munmap"], const(0))
    c.ret(0)


def _raise_lowest(c: Call) -> None:
    """LOWEST to the first page that is mapped."""
    e = c.e
    loop, look, step, done = (e.append_basic_block(name) for name in ("loop", "look", "step", "done"))
    e.branch(loop)
    e.position_at_end(loop)
    at = c.get(Word.LOWEST)
    e.cbranch(c.below(at, MMAP_TOP), look, done)
    e.position_at_end(look)
    e.cbranch(c.has(c.examine(at, e.add(at, const(PAGE))), SOME_MAPPED), done, step)
    e.position_at_end(step)
    c.put(Word.LOWEST, e.add(at, const(PAGE)))
    c.put(Word.HOLES, e.sub(c.get(Word.HOLES), const(PAGE)))
    e.branch(loop)
    e.position_at_end(done)


def mprotect(c: Call) -> None:
    """Change permissions, but not those of code."""
    start, end = _range(c)
    c.refuse_if(c.e.or_(c.has(c.x(2), ~abi.PROT_RWX), c.has(c.fixed(Fixed.LIMITED), 1)))
    c.require_room_in_log()
    found = c.examine(start, end)
    c.refuse_if(c.has(found, SOME_HOLE | SOME_CODE | SOME_BEYOND))
    # files that are mapped here were opened for reading, so shared ones cannot be made writable
    c.refuse_if(c.e.and_(c.has(c.x(2), Prot.W), c.has(found, SOME_FILE)))
    c.change(start, end, _allowed(c, c.x(2), MAP | KEEP))
    _note_code(c)
    c.log(NUMBERS["mprotect"], const(0))
    c.ret(0)


def _note_code(c: Call) -> None:
    """Memory that the call makes executable is only read here: a lane that jumps there goes to the CPU."""
    c.put(Word.HAS_CODE, c.e.or_(c.get(Word.HAS_CODE), c.e.and_(c.x(2), const(Prot.X))))


def madvise(c: Call) -> None:
    """Advice that changes nothing that a program could tell; the CPU notes it if it takes the lane."""
    advice, (start, end) = c.x(2, "i"), _range(c)
    c.refuse_unless(c.below(advice, 64))
    c.refuse_unless(c.has(c.e.lshr(const(sum(1 << k for k in HARMLESS)), advice), 1))
    c.refuse_if(c.has(c.examine(start, end), SOME_HOLE))
    c.require_room_in_log()
    c.log(NUMBERS["madvise"], const(0))
    c.ret(0)


def _page_up(c: Call, address: ir.Value) -> ir.Value:
    return c.e.and_(c.e.add(address, const(PAGE - 1)), const(-PAGE))


def _range(c: Call) -> tuple[ir.Value, ir.Value]:
    """The pages of a range; none, or what starts inside a page, is for the CPU."""
    e, start, length = c.e, c.x(0), c.x(1)
    c.refuse_if(c.has(start, PAGE - 1))
    c.refuse_unless(e.and_(c.below(start, 1 << VA_BITS), c.below(e.sub(length, const(1)), LARGEST)))
    return start, e.add(start, _page_up(c, length))
