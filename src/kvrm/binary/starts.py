"""Where the functions of a stripped static program start and end.

A start is, in this order of evidence:

1. where .eh_frame says that one starts, if the program has it; then nothing inside that function is one,
2. the entry point,
3. the target of a BL,
4. what an ADRP points to with an ADD to the same register, at most eight instructions after it, if it is
   after an instruction that does not go on or after padding,
5. what an aligned word of eight bytes in a loaded segment points to, if it is after a RET or padding,
6. an instruction that functions begin with (PACIASP, BTI c, or STP X29, X30 with writeback on SP) after one
   that does not go on, after a call, or after padding,
7. the target of a B that leaves its function, if it is after an instruction that does not go on or padding,
8. what follows the end of a function, padding left out.

A function ends after an instruction that does not go on (RET, B, BRK, UDF) and that no branch of the
function passes over, or where the next one starts. BR is not such an instruction: after it are the cases of
a switch. Where .eh_frame has an end, that one counts. The last two find new functions, so they are repeated
until there is nothing new.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kvrm.binary.program import Program, Run
from kvrm.isa.execution import Words

NOP, PACIASP, BTI_C = 0xD503201F, 0xD503233F, 0xD503245F
POINTER_REACH = 8
"""Instructions after an ADRP in which its ADD is looked for."""

Flags = npt.NDArray[np.bool_]
Offsets = npt.NDArray[np.int64]


class Evidence(Enum):
    """Why an address is taken for the start of a function."""

    ENTRY = "entry"
    FRAME = "frame"
    CALL = "call"
    POINTER = "pointer"
    PROLOGUE = "prologue"
    JUMP = "jump"
    GAP = "gap"


@dataclass(frozen=True, slots=True)
class Function:
    """A function that was found: where it starts, the address after it, its words, and the evidence."""

    start: int
    end: int
    words: Words
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class _Code:
    """A run, and what its words do; targets are word offsets in the run, -1 for none in it.

    `framed` are words that a function of .eh_frame has after its first one.
    """

    run: Run
    target: Offsets
    call: Flags
    plain_jump: Flags
    last: Flags
    returns: Flags
    padding: Flags
    prologue: Flags
    framed: Flags

    def after(self, flags: Flags) -> Flags:
        """Whether the word before has a flag; the first word has."""
        return np.concatenate([[True], flags])[: len(flags)]


def find_functions(program: Program) -> list[Function]:
    """The functions of a program, by address. Symbols are not looked at."""
    found = []
    codes = [_looked_at(run, program.frames) for run in program.runs]
    for code in codes:
        starts = _certain(program, code, codes)
        known = {a - code.run.start >> 2: b - code.run.start >> 2 for a, b in program.frames.items()}
        ends = _grown(code, starts, known)
        for at in sorted(starts):
            first, end = code.run.start + 4 * at, code.run.start + 4 * ends[at]
            found.append(Function(first, end, code.run.words[at : ends[at]], starts[at]))
    return sorted(found, key=lambda f: f.start)


def _looked_at(run: Run, frames: dict[int, int]) -> _Code:
    w = run.words
    call, plain = w >> np.uint32(26) == 0b100101, w >> np.uint32(26) == 0b000101
    conditional = (w & np.uint32(0xFF000010)) == 0x54000000
    compare, test = w & np.uint32(0x7E000000) == 0x34000000, w & np.uint32(0x7E000000) == 0x36000000
    distance = np.select(
        [call | plain, conditional | compare, test],
        [_signed(w, 0, 26), _signed(w, 5, 19), _signed(w, 5, 14)],
        0,
    )
    target = np.where(call | plain | conditional | compare | test, np.arange(len(w)) + distance, -1)
    target[(target < 0) | (target >= len(w))] = -1
    returns = w & np.uint32(0xFFFFFC1F) == 0xD65F0000
    returns |= (w == 0xD65F0BFF) | (w == 0xD65F0FFF)
    stops = (w & np.uint32(0xFFE0001F) == 0xD4200000) | (w >> np.uint32(16) == 0)
    frame = w & np.uint32(0xFFC07FFF) == 0xA9807BFD
    return _Code(
        run=run,
        target=target.astype(np.int64),
        call=call,
        plain_jump=plain,
        last=returns | plain | stops,
        returns=returns,
        padding=(w == NOP) | (w == 0),
        prologue=(w == PACIASP) | (w == BTI_C) | frame,
        framed=_framed(run, frames),
    )


def _framed(run: Run, frames: dict[int, int]) -> Flags:
    inside = np.zeros(len(run.words), np.bool_)
    for start, end in frames.items():
        if run.start <= start < run.end:
            inside[(start - run.start) // 4 + 1 : (end - run.start) // 4] = True
    return inside


def _signed(w: Words, low: int, width: int) -> Offsets:
    raw = (w >> np.uint32(low)).astype(np.int64) & (1 << width) - 1
    return np.where(raw >> width - 1, raw - (1 << width), raw)


def _certain(program: Program, code: _Code, codes: list[_Code]) -> dict[int, Evidence]:
    """Starts by the evidence that does not depend on where functions end: word offset to why."""
    found: dict[int, Evidence] = {}
    size = len(code.run.words)
    after_end = code.after(code.last | code.padding)
    after_return = code.after(code.returns | code.padding)
    after_call = code.after(code.last | code.padding | code.call)

    def add(addresses: list[int], why: Evidence, where: Flags | None = None) -> None:
        for address in addresses:
            at = address - code.run.start >> 2
            if address % 4 == 0 and 0 <= at < size and (where is None or where[at]) and not code.framed[at]:
                found.setdefault(at, why)

    for start in program.frames:
        if code.run.start <= start < code.run.end and start % 4 == 0:
            found[start - code.run.start >> 2] = Evidence.FRAME
    add([program.entry], Evidence.ENTRY)
    for other in codes:
        add(_called(other), Evidence.CALL)
    for other in codes:
        add(_pointers(other.run), Evidence.POINTER, after_end)
    add(_data_pointers(program, code.run), Evidence.POINTER, after_return & ~code.padding)
    add((code.run.start + 4 * np.flatnonzero(code.prologue)).tolist(), Evidence.PROLOGUE, after_call)
    return found


def _called(code: _Code) -> list[int]:
    """Where BLs go, also to another run."""
    at = np.flatnonzero(code.call)
    targets = code.run.start + 4 * (at + _signed(code.run.words[at], 0, 26))
    return [int(target) for target in np.unique(targets)]


def _pointers(run: Run) -> list[int]:
    """What pairs of ADRP and ADD form."""
    w = run.words
    high = (_signed(w, 5, 19) << 2) + (w >> np.uint32(29) & np.uint32(3)).astype(np.int64)
    page = (run.start + 4 * np.arange(len(w)) & -4096) + (high << 12)
    adrp = w & np.uint32(0x9F000000) == 0x90000000
    add = w & np.uint32(0xFFC00000) == 0x91000000
    low = (w >> np.uint32(10)).astype(np.int64) & 4095
    found: set[int] = set()
    for k in range(1, min(POINTER_REACH, len(w) - 1) + 1):
        same = w[:-k] & np.uint32(31) == w[k:] >> np.uint32(5) & np.uint32(31)
        at = np.flatnonzero(adrp[:-k] & add[k:] & same)
        found.update((page[at] + low[at + k]).tolist())
    return sorted(found)


def _data_pointers(program: Program, run: Run) -> list[int]:
    """Words of loaded segments that are addresses in the run."""
    found: set[int] = set()
    for s in program.segments:
        skip = -s.vaddr % 8
        count = max(s.filesz - skip, 0) // 8
        words = (
            np.frombuffer(program.data, "<u8", count, s.offset + skip) if count else np.zeros(0, np.uint64)
        )
        found.update(words[(words >= run.start) & (words < run.end)].tolist())
    return sorted(found)


def _grown(code: _Code, starts: dict[int, Evidence], known: dict[int, int]) -> dict[int, int]:
    """Adds starts by jumps and gaps to `starts`; gives the end of each function."""
    after_end = code.after(code.last | code.padding)
    while True:
        ends: dict[int, int] = {}
        new: dict[int, Evidence] = {}
        order = [*sorted(starts), len(code.run.words)]
        for at, limit in pairwise(order):
            ends[at] = min(known[at], limit) if at in known else _end(code, at, limit)
            for target in _leaving(code, at, ends[at], limit):
                if after_end[target] and not code.framed[target]:
                    new.setdefault(target, Evidence.JUMP)
            rest = np.flatnonzero(~code.padding[ends[at] : limit])
            if len(rest):
                new.setdefault(ends[at] + int(rest[0]), Evidence.GAP)
        new = {at: why for at, why in new.items() if at not in starts}
        if not new:
            return ends
        starts |= new


def _end(code: _Code, at: int, limit: int) -> int:
    """After the last instruction of the function at `at`."""
    furthest, last, target = at, code.last, code.target
    for place in range(at, limit):
        if not code.call[place] and place < target[place] < limit:
            furthest = max(furthest, int(target[place]))
        if last[place] and furthest <= place:
            return place + 1
    return limit


def _leaving(code: _Code, at: int, end: int, limit: int) -> list[int]:
    """Where the Bs of a function go that leave it."""
    targets = code.target[at:end][code.plain_jump[at:end]]
    outside = targets[(targets >= 0) & ((targets < at) | (targets >= limit))]
    return [int(target) for target in np.unique(outside)]
