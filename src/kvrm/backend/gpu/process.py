"""The process of lanes on the device: what the kernel must know of it, its streams, the way to the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kvrm.backend.gpu.abi import Word
from kvrm.backend.gpu.driver import Buffer, Device
from kvrm.backend.gpu.files import KnownFiles, numbered
from kvrm.backend.gpu.layout import (
    ACTIONS,
    CWD,
    DESCRIPTORS,
    FLAGS,
    KINDS,
    LIMITS,
    LINK,
    NAME,
    OPEN_FILES,
    PROCESS_WORDS,
    RANDOM,
    RANDOM_MOST,
    RECORD,
    STAT_BYTES,
    STATS,
    TARGET,
    UTSNAME,
    Fixed,
    Stream,
)
from kvrm.backend.gpu.memory import CHUNK
from kvrm.errors import HostError
from kvrm.linux import abi, layout
from kvrm.linux.abi import NSIG
from kvrm.linux.calls.process import UNAME
from kvrm.linux.errno import Failure
from kvrm.linux.files.nodes import Symlink
from kvrm.linux.files.open_file import OpenFile
from kvrm.linux.files.paths import resolve
from kvrm.linux.files.streams import BytesInput, Capture
from kvrm.linux.lane import LaneProcess
from kvrm.linux.layout import SIGACTION, U64
from kvrm.linux.loader import MMAP_TOP, STACK_TOP
from kvrm.linux.mapped import file_room
from kvrm.linux.process import Process
from kvrm.linux.signals import Action
from kvrm.linux.snapshot import Snapshot
from kvrm.linux.syscall_table import TABLE
from kvrm.machine.lanes_inputs import Words
from kvrm.machine.lanes_job import Job
from kvrm.machine.state import State
from kvrm.memory import PAGE, VA_BITS, Mark, Memory

if TYPE_CHECKING:
    from kvrm.backend.gpu.leaving import Leaver

RECORDS = 64
"""Calls that a lane's log has room for."""
AHEAD = 4
"""Chunks that heap and mappings may grow into."""
OUTPUT_MOST, OUTPUT_LEAST = 1 << 20, 1 << 12
"""Bytes of a stream that a lane can write before it goes to the CPU."""
OUTPUT_PART = 0.05
"""The part of the free device memory that these may take."""
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


def chunks_ahead(memory: Memory, process: Snapshot) -> list[int]:
    """The chunks that lanes may map pages in, besides those where something is mapped."""
    heap, low = process.fields["heap_end"] // PAGE // CHUNK, (lowest_mapping(memory)[0] - 1) // PAGE // CHUNK
    last = (1 << VA_BITS) // PAGE // CHUNK - 1
    return [k for k in (*range(heap, heap + AHEAD), *range(low, low - AHEAD, -1)) if 0 < k < last]


class DeviceProcess:
    """The process that lanes begin with, at `snapshot`; `memory` is at the same moment."""

    def __init__(
        self, gpu: Device, origin: Process, memory: Memory, snapshot: Snapshot, zeros: int, lanes: int
    ) -> None:
        self._gpu, self._snapshot, self._memory = gpu, snapshot, memory
        self._process = LaneProcess(origin, memory, State(), snapshot)
        self.files = KnownFiles(gpu, self._start)
        process = self._start()
        room = int(gpu.free_bytes * OUTPUT_PART / 2 / lanes) & -8
        self._room = max(OUTPUT_LEAST, min(room, OUTPUT_MOST))
        self._outputs = [gpu.allocate(self._room * lanes) for _ in range(2)]
        self._log = gpu.allocate(RECORDS * RECORD * lanes)
        block = _block(process, snapshot)
        block[Fixed.ZEROS], block[Fixed.LOG], block[Fixed.RECORDS] = zeros, self._log.address, RECORDS
        block[Fixed.OUTPUTS : Fixed.OUTPUTS + 2] = [buffer.address for buffer in self._outputs]
        block[Fixed.OUTPUT_BYTES] = self._room
        block[Fixed.FILES], block[Fixed.ASKED] = self.files.table.address, self.files.asked.address
        self.block = gpu.upload(block)
        self._rest = _rest_of_input(process)
        lowest, holes = lowest_mapping(memory)
        self.words: dict[int, int] = {
            **dict.fromkeys((Word.STDOUT, Word.STDERR, Word.RANDOM, Word.LOGGED, Word.HAS_CODE), 0),
            **self.files.inherited(process),
            Word.SKIPPED: process.skipped,
            Word.BLOCKED: process.signals.blocked,
            Word.HEAP_END: process.heap_end,
            Word.LOWEST: lowest,
            Word.HOLES: holes,
            Word.FILE_ROOM: file_room(process),
        }

    @property
    def size(self) -> int:
        """Bytes of device memory: outputs, logs, inputs and files."""
        return sum(buffer.size for buffer in (*self._outputs, self._log, self._input)) + self.files.size

    def _start(self) -> Process:
        """The process as lanes begin with it."""
        self._process.begin(self._snapshot, None)
        return self._process.current()

    def inputs(self, job: Job, lanes: int) -> Iterator[tuple[Word, Words]]:
        """The words that tell each lane where its input is."""
        texts = job.stdin
        if texts is None:
            self._lengths, starts = np.full(lanes, len(self._rest), np.uint64), np.zeros(lanes, np.uint64)
            self._input = self._gpu.upload(self._rest)
        else:
            self._lengths, starts = texts.lengths, texts.starts
            self._input = self._gpu.view(texts.data) if texts.on_device else self._gpu.upload(texts.data)
        self._given_there = texts is not None and texts.on_device
        self._starts = starts + np.uint64(self._input.address)
        yield Word.INPUT, self._starts
        yield Word.INPUT_END, self._starts + self._lengths

    def stacks(self, job: Job) -> tuple[Words, int, npt.NDArray[np.uint8]]:
        """With its own arguments, each lane's sp, and its stack from the lowest on. Raises OutOfMemory."""
        assert job.args is not None
        found = []
        for args in job.args:
            self._process.begin(self._snapshot, None)
            self._process.set_arguments(args)
            sp = self._process.current().state.sp
            found.append((sp, self._memory.peek(sp, STACK_TOP - sp)))
            self._memory.restore(job.snapshot.memory)
        lowest = min(sp for sp, _ in found)
        before = self._memory.peek(lowest, STACK_TOP - lowest)
        rows = np.tile(np.frombuffer(before, np.uint8), (len(found), 1))
        for row, (sp, data) in zip(rows, found, strict=True):
            row[sp - lowest :] = np.frombuffer(data, np.uint8)
        return np.array([sp for sp, _ in found], np.uint64), lowest, rows

    def outputs_at(self, stream: int) -> Words:
        """Device addresses of what lanes write to standard output (0) or error (1)."""
        return self._rows(self._outputs[stream], self._room)

    def parts(self, get: Callable[[int], Words]) -> list[tuple[Words, Words]]:
        """Device addresses and bytes of what each lane has there: its log, both outputs, its input.

        `get` gives the word at an offset of every lane's state. Inputs in the host's memory have no bytes.
        """
        outputs = ((self.outputs_at(stream), get(8 * (Word.STDOUT + stream))) for stream in range(2))
        log = self._rows(self._log, RECORDS * RECORD), get(8 * Word.LOGGED) * np.uint64(RECORD)
        given = self._lengths if self._given_there else np.zeros_like(self._lengths)
        return [log, *outputs, (self._starts, given)]

    def _rows(self, buffer: Buffer, size: int) -> Words:
        """Where each lane's part of a buffer begins."""
        return np.uint64(buffer.address) + np.uint64(size) * np.arange(len(self._starts), dtype=np.uint64)

    def replay(self, job: Job, left: Leaver, pc: int) -> tuple[Snapshot, bytes | None, bool]:
        """What a worker needs to go on with a lane; `memory` is then mapped as the lane has it."""
        stdin = None
        if job.stdin is not None:
            stdin = left.stdin if job.stdin.on_device else job.stdin[left.lane]
        self._process.begin(self._snapshot, stdin)
        if job.args is not None:
            self._process.set_arguments(job.args[left.lane])
        words = left.words
        same = all(words[word] == value for word, value in self._first(left.lane).items())
        if not same:
            process = self._process.current()
            self._repeat_calls(process, np.frombuffer(left.log, np.uint64).reshape(-1, RECORD // 8), pc)
            self._repeat_streams(process, left)
            process.skipped, process.signals.blocked = int(words[Word.SKIPPED]), int(words[Word.BLOCKED])
            if words[Word.RANDOM]:
                process.random.getrandbits(32 * int(words[Word.RANDOM]))
        return self._process.saved()

    def _first(self, lane: int) -> dict[int, int]:
        """The words that a lane begins with."""
        return {**self.words, Word.INPUT: int(self._starts[lane])}

    def _repeat_calls(self, process: Process, records: Words, pc: int) -> None:
        for nth, record in enumerate(records):
            call, expected = TABLE[int(record[0])], int(record[1])
            if call.name == "rt_sigaction":
                process.signals.set_action(int(record[2]), Action(*record[3:7].tolist()))
                continue
            if call.name == "mmap" and not int(record[5]) & abi.MAP_ANONYMOUS:
                result = self.files.map_again(process, nth, record[2:].tolist())
            else:
                result = call.handler(process, *call.decode(record[2:].tobytes())) & U64
            if result != expected:
                raise HostError(
                    f"{call.name} gave {expected:#x} on the device and {result:#x} on the CPU",
                    pc=pc,
                    word=None,
                    disassembly=None,
                    advice="this is a fault of KVRM, please report it with the program and this line",
                )

    def _repeat_streams(self, process: Process, left: Leaver) -> None:
        source = _input_of(process)
        if source is not None:
            source.read(process, int(left.words[Word.INPUT] - self._starts[left.lane]))
        process.stdout += left.stdout
        process.stderr += left.stderr
        self.files.put_back(process, self.words, left.words)


def _block(process: Process, snapshot: Snapshot) -> npt.NDArray[np.uint64]:
    """What `Param.PROCESS` points to, but for addresses of the device."""
    block = np.zeros(PROCESS_WORDS, np.uint64)
    raw = block.view(np.uint8)

    def put(word: int, data: bytes) -> None:
        raw[8 * word : 8 * word + len(data)] = np.frombuffer(data, np.uint8)

    who, link = process.credentials, _target_of_link(process)
    block[Fixed.PID], block[Fixed.UID], block[Fixed.GID] = process.pid, who.uid, who.gid
    block[Fixed.HEAP_START], block[Fixed.PENDING] = process.heap_start, process.signals.pending
    block[Fixed.LINK_BYTES] = len(link)
    block[Fixed.LIMITED] = _is_limited(process)
    put(TARGET, link)
    directory = process.cwd.path() + b"\0"
    if len(directory) <= PAGE and not process.cwd.dead:
        block[Fixed.CWD_BYTES] = len(directory)
        put(CWD, directory)
    put(NAME, process.name.ljust(16, b"\0"))
    actions = [process.signals.action(signal) for signal in range(1, NSIG + 1)]
    put(ACTIONS, b"".join(SIGACTION.pack(a.handler, a.flags, a.restorer, a.mask) for a in actions))
    put(UTSNAME, layout.utsname(UNAME))
    put(LIMITS, b"".join(layout.RLIMIT.pack(*process.limit(resource)) for resource in range(16)))
    put(RANDOM, _random_words(snapshot))
    room = process.limit(abi.RLIMIT_NOFILE)[0] - len(process.descriptors)
    block[Fixed.MAY_OPEN], block[Fixed.BEYOND] = room >= DESCRIPTORS, max(process.descriptors) >= DESCRIPTORS
    block[KINDS : KINDS + OPEN_FILES] = Stream.NONE
    for file, number in numbered(process).items():
        kind = _kind(file)
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
        shared or process.locks_future or read_implies_exec
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
