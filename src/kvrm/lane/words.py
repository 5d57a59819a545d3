"""The words of a lane: what its state is made of, in order, and where each part lies.

Offsets are bytes. On the CPU the state is one block that Python and native code share; a GPU has the same
words, those of a group's lanes side by side. Snapshots have what is architectural.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Part(NamedTuple):
    """One row of the table: `elements` of `size` bytes from `offset` on."""

    name: str
    offset: int
    elements: int
    size: int
    what: str

    @property
    def end(self) -> int:
        """The offset after it."""
        return self.offset + self.elements * self.size


TABLE: Final[list[Part]] = []
"""All parts, in order of their offsets, without gaps."""
STATE_BYTES: Final = 4096


def _part(name: str, what: str, count: int = 1, size: int = 8) -> int:
    """The offset of the next part."""
    TABLE.append(Part(name, TABLE[-1].end if TABLE else 0, count, size, what))
    return TABLE[-1].offset


def _slot(name: str, what: str, count: int = 1) -> int:
    """The number of the next general register."""
    return _part(name, what, count) // 8


X = _slot("x", "x0 to x30", 31)
ZERO = _slot("zero", "what register 31 reads as where it is no SP")
SP = _slot("sp", "the stack pointer")
DISCARD = _slot("discard", "where writes to register 31 go that are not to SP")
V_OFFSET = _part("v", "v0 to v31", 32, 16)
FLAGS_OFFSET = _part("nzcv", "N, Z, C, V, a byte each; four bytes are not used", 8, 1)
SYSTEM_OFFSET = _part("system", "system registers and the exclusive monitor (`kvrm.isa.context.System`)", 16)

EXIT_OFFSET = REASON = _part("reason", "why native code returned (`kvrm.lane.stops.Reason`)")
"""What is before is architectural, but for what was discarded: snapshots have it."""
IP = _part("ip", "the predecoded slot to continue at, or 0 where pc says it")
PC = _part("pc", "the guest address to continue at, where ip is 0")
ADDRESS = _part(
    "address", "of a refused access or a write to code; the immediate of SVC and BRK; an exit code"
)
KIND = _part("kind", "of a refused access (`kvrm.memory.AccessKind`)")
WORD = _part("word", "the instruction for which there is no handler")
REMAINING = _part("remaining", "instructions that are left of the budget")
HORIZON = _part("horizon", "the retired count at which remaining would be 0")

TABLE_OFFSET = PAGE_TABLE = _part("page_table", "the guest's page table; on a GPU, pages left to the lane")
"""What is from here on is of the CPU; of it a GPU has the first word, for its own use."""
CODE_TABLE = _part("code_table", "predecoded pages")
BUCKETS = _part("buckets", "a decode table: classes by their bits")
CANDIDATES = _part("candidates", "a decode table: definitions of a class")
DECODERS = _part("decoders", "a decode table: functions that predecode")
REGION = _part("region", "the translated region that last found the budget too small, or 0")
ANSWER = _part("answer", "a function that may answer the SVC for which native code leaves (it gives 0), or 0")
ANSWER_TABLE = _part("answer_table", "what that function is given (`kvrm.linux.lent`)")
OBSERVED = _part("observed", "of a staged observer (`kvrm.observe.observer`)")

REGISTERS: Final[dict[str, int]] = {
    **{f"x{number}": 8 * (X + number) for number in range(31)},
    "sp": 8 * SP,
    "pc": PC,
    "nzcv": FLAGS_OFFSET,
    **{f"v{number}": V_OFFSET + 16 * number for number in range(32)},
}
"""The offsets of the registers that lanes may differ in; all but pc, which is always kept, can be kept."""


def words_of(register: str) -> int:
    """How many 64-bit words it has."""
    return 2 if register[0] == "v" else 1
