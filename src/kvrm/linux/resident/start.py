"""The process that lanes begin with, as staged system calls know it, and the way back to one in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt

from kvrm.lane.state import State
from kvrm.linux import abi, layout
from kvrm.linux.abi import NSIG
from kvrm.linux.calls.advice import HARMLESS, NOTED
from kvrm.linux.calls.mappings import HEAP, SHARED_MEMORY
from kvrm.linux.delivery import set_action
from kvrm.linux.errno import Failure
from kvrm.linux.files.nodes import Symlink
from kvrm.linux.files.open_file import OpenFile
from kvrm.linux.files.paths import resolve
from kvrm.linux.files.streams import BytesInput, Capture
from kvrm.linux.lane import LaneProcess
from kvrm.linux.layout import SIGACTION, U64
from kvrm.linux.loader import MMAP_TOP
from kvrm.linux.mapped import file_room
from kvrm.linux.page_ranges import readable
from kvrm.linux.process import Process
from kvrm.linux.resident.known import KnownFiles, Store, numbered
from kvrm.linux.resident.layout import (
    ACTIONS,
    ADVICE,
    ADVICES,
    AREA_BYTES,
    AREA_WORDS,
    DESCRIPTORS,
    FLAGS,
    KINDS,
    LINK,
    MARKS,
    OPEN_FILES,
    OTHER_ADVICE,
    PROCESS_WORDS,
    RANDOM,
    RANDOM_MOST,
    STAT_BYTES,
    STATS,
    TARGET,
    UNMARKS,
    Area,
    Fixed,
    Stream,
    What,
    Word,
)
from kvrm.linux.resident.of_process import ARRAYS, FIXED, WORDS, set_word, word_of
from kvrm.linux.signals import Action
from kvrm.linux.snapshot import Snapshot
from kvrm.machine.lanes_inputs import Words
from kvrm.memory import Mark, Memory

MOST_AREAS = 28
"""Areas that a lane has room for."""
ROOM = 1 << 30
"""A hole of that many bytes is what mappings grow into."""


def lowest_mapping(memory: Memory) -> tuple[int, int]:
    """Where mappings begin, and the bytes of the holes between them."""
    at, holes = MMAP_TOP, 0
    for region in reversed([r for r in memory.regions() if r.start < MMAP_TOP]):
        gap = max(0, at - region.end)
        if gap >= ROOM:
            break
        at, holes = region.start, holes + gap
    return at, holes


@dataclass(frozen=True, slots=True)
class End:
    """What staged calls have left of a lane: its own words, areas and actions, and its output.

    `input` is the address at which its standard input began; `stdin` and `args` are what it was given of its
    own, or None.
    """

    words: Words
    areas: bytes
    actions: bytes
    stdout: bytes
    stderr: bytes
    input: int
    stdin: bytes | None
    args: Sequence[str | bytes] | None


class Start:
    """The process that lanes begin with, at `snapshot`; `memory` is at the same moment.

    `block` are the words that are the same for all lanes (`Fixed`), but for addresses of buffers, which the
    target adds. `words` are those that each lane begins with; its areas take `areas_bytes`.
    """

    def __init__(self, store: Store, origin: Process, memory: Memory, snapshot: Snapshot) -> None:
        self._snapshot, self._memory = snapshot, memory
        self._process = LaneProcess(origin, memory, State(), snapshot)
        self.files = KnownFiles(store, self.process)
        process = self.process()
        self.block = _block(process, snapshot)
        self.block[Fixed.MOST_AREAS], self.areas_bytes = MOST_AREAS, MOST_AREAS * AREA_BYTES
        self.block[Fixed.FILES], self.block[Fixed.ASKED] = self.files.table.address, self.files.asked.address
        self.input = _rest_of_input(process)
        lowest, holes = lowest_mapping(memory)
        self.words: dict[int, int] = {
            **dict.fromkeys((Word.STDOUT, Word.STDERR, Word.RANDOM, Word.HAS_CODE), 0),
            **dict.fromkeys((Word.OWN_ACTIONS, Word.AREAS), 0),
            **self.files.inherited(process),
            **{word: word_of(process, word) for word in WORDS},
            Word.LOWEST: lowest,
            Word.HOLES: holes,
            Word.FILE_ROOM: file_room(process),
        }

    def process(self) -> Process:
        """The process as lanes begin with it."""
        self._process.begin(self._snapshot, None)
        return self._process.current()

    def with_arguments(self, args: Sequence[str | bytes]) -> Process:
        """The same with other arguments, which are written to its memory."""
        self._process.begin(self._snapshot, None)
        self._process.set_arguments(args)
        return self._process.current()

    def leave(self, end: End) -> tuple[Snapshot, bytes | None, bool]:
        """What a `LaneProcess` needs to go on with a lane; `memory` is then mapped as the lane has it."""
        self._process.begin(self._snapshot, end.stdin)
        if end.args is not None:
            self._process.set_arguments(end.args)
        words = end.words
        begun = {**self.words, Word.INPUT: end.input}
        if any(words[word] != value for word, value in begun.items()):
            process = self._process.current()
            self._put_areas(process, np.frombuffer(end.areas, np.uint64).reshape(-1, AREA_WORDS))
            self._put_streams(process, end)
            for word in WORDS:
                set_word(process, word, int(words[word]))
            for number, action in enumerate(SIGACTION.iter_unpack(end.actions), 1):
                if int(words[Word.OWN_ACTIONS]) >> number - 1 & 1:
                    set_action(process, number, Action(*action))
            if words[Word.RANDOM]:
                process.kernel.random.getrandbits(32 * int(words[Word.RANDOM]))
        return self._process.saved()

    def _put_areas(self, process: Process, areas: Words) -> None:
        memory = process.memory
        for area in areas.tolist():
            start, end, what = area[: Area.FILE]
            prot, size = readable(process, what & abi.PROT_RWX), end - start
            marks, unmarks = Mark(what >> MARKS & (1 << UNMARKS - MARKS) - 1), Mark(what >> UNMARKS)
            if what & What.HOLE:
                memory.unmap(start, size)
            elif area[Area.FILE]:
                self.files.map_again(process, area, prot, marks)
            elif what & What.NEW:
                name = HEAP if what & What.HEAP else SHARED_MEMORY if marks & Mark.SHARED else ""
                memory.map(start, size, prot, name=name, marks=marks)
            else:
                if what & What.PROT:
                    memory.protect(start, size, prot)
                memory.mark(start, size, marks, unmarks)

    def _put_streams(self, process: Process, end: End) -> None:
        source = _input_of(process)
        if source is not None:
            source.read(process, int(end.words[Word.INPUT]) - end.input)
        process.kernel.stdout += end.stdout
        process.kernel.stderr += end.stderr
        self.files.put_back(process, self.words, end.words)


def _block(process: Process, snapshot: Snapshot) -> npt.NDArray[np.uint64]:
    """The words that are the same for all lanes, but for addresses."""
    block = np.zeros(PROCESS_WORDS, np.uint64)
    raw = block.view(np.uint8)

    def put(word: int, data: bytes) -> None:
        raw[8 * word : 8 * word + len(data)] = np.frombuffer(data, np.uint8)

    for word, value in FIXED.items():
        block[word] = value(process) & U64
    for word, data in ARRAYS.items():
        put(word, data(process))
    link = _target_of_link(process)
    block[Fixed.LINK_BYTES] = len(link)
    block[Fixed.LIMITED] = _is_limited(process)
    put(TARGET, link)
    put(ACTIONS, b"".join(process.signals.action(signal).packed() for signal in range(1, NSIG + 1)))
    block[ADVICE : ADVICE + ADVICES] = OTHER_ADVICE & U64
    for advice in HARMLESS:
        marks, unmarks = NOTED[advice]
        block[ADVICE + advice] = marks | unmarks << 32
    put(RANDOM, _random_words(snapshot))
    block[Fixed.BEYOND] = any(fd >= DESCRIPTORS for fd in process.descriptors)
    block[KINDS : KINDS + OPEN_FILES] = Stream.NONE
    for file, number in numbered(process).items():
        kind = Stream.OTHER if process.locked else _kind(file)
        block[KINDS + number], block[FLAGS + number] = kind, file.flags
        if kind is not Stream.OTHER:
            put(STATS + (kind - Stream.INPUT) * STAT_BYTES // 8, layout.stat(file.stat()))
    return block


def _is_limited(process: Process) -> bool:
    """Whether calls on memory depend on more than what pages are mapped, and whether they can be written."""
    bounds = (process.limit(resource)[0] for resource in (abi.RLIMIT_AS, abi.RLIMIT_DATA))
    shared = any(region.backing and region.marks & Mark.SHARED for region in process.memory.regions())
    read_implies_exec = process.personality & abi.READ_IMPLIES_EXEC
    return any(bound != abi.RLIM_INFINITY for bound in bounds) or bool(
        shared or process.locks_future or read_implies_exec or process.kernel.ipc.attached
    )


def _kind(file: OpenFile) -> Stream:
    if isinstance(file, BytesInput):
        return Stream.INPUT
    if isinstance(file, Capture):
        return Stream.STDOUT if file.number == 1 else Stream.STDERR
    return Stream.OTHER


def _random_words(snapshot: Snapshot) -> bytes:
    """The next 32-bit words of the generator, from which `Random.randbytes` takes its bytes."""
    random = Random()
    random.setstate(snapshot.random)
    return random.getrandbits(32 * RANDOM_MOST).to_bytes(4 * RANDOM_MOST, "little")


def _target_of_link(process: Process) -> bytes:
    """Where LINK leads; nothing if it is none."""
    try:
        node = resolve(process, process.cwd, LINK, follow=False).existing()
        return node.text(process) if isinstance(node, Symlink) else b""
    except (Failure, OSError):
        return b""


def _input_of(process: Process) -> BytesInput | None:
    files = (descriptor.file for descriptor in process.descriptors.values())
    return next((file for file in files if isinstance(file, BytesInput)), None)


def _rest_of_input(process: Process) -> bytes:
    source = _input_of(process)
    if source is None:
        return b""
    data = source.read(process, source.available() or 0)
    source.unread(data, 0)
    return data
