"""What staged system calls know about files: answers to the questions that some lanes have asked.

An answer is made of the files as lanes begin with them, and holds for all of them for as long as they run
staged calls. Where it would depend on what a lane has done (`/proc/self/fd`), or where a path does not lead
to a regular file of moderate size, the answer is that Python must do the call. So it is with all files while
the process `is_told` of what is done with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np

from kvrm.errors import UsageError
from kvrm.linux import abi, layout
from kvrm.linux.errno import Failure
from kvrm.linux.files.devices import DeviceFile, seeded
from kvrm.linux.files.open_file import Descriptor, OpenFile
from kvrm.linux.files.opening import check_flags, open_path
from kvrm.linux.files.paths import resolve
from kvrm.linux.files.regular import GuestFile
from kvrm.linux.mapped import Mapped
from kvrm.linux.process import Process
from kvrm.linux.resident.layout import (
    ANSWER_WORDS,
    ANSWERS,
    DESCRIPTORS,
    LEAVE,
    NAME_WORDS,
    QUESTION_WORDS,
    QUESTIONS,
    STAT_BYTES,
    Answer,
    Area,
    Ask,
    Stream,
    Word,
)
from kvrm.machine.lanes_inputs import Words
from kvrm.memory import Image, Mark, Prot, page_up

MOST = 64 << 20
"""Bytes that all contents together may have."""
PART = 0.5
"""The part of the store's free memory that more of them may take."""


class Room(Protocol):
    """Memory that staged code reads and writes."""

    @property
    def address(self) -> int:
        """Where that code finds it."""

    @property
    def size(self) -> int:
        """Bytes."""

    def write(self, data: Any, offset: int = 0) -> None:
        """Copy an array or bytes there."""

    def read(self, out: Any, offset: int = 0) -> Any:
        """Fill an array from there, and return it."""


class Store(Protocol):
    """Gives rooms: a GPU, or the host's memory."""

    @property
    def free_bytes(self) -> int:
        """How much there is."""

    def allocate(self, size: int, zero: bool = False) -> Room:
        """A new room."""

    def upload(self, data: Any) -> Room:
        """A new room with these bytes, or those of an array."""


Question = tuple[int, bytes]
"""The first word, an `Ask` and flags << 32, and the path."""


@dataclass(frozen=True, slots=True)
class Known:
    """An answer: what the call returns if it fails, else status and contents."""

    result: int = 0
    status: bytes = bytes(STAT_BYTES)
    content: bytes = b""
    kind: Stream = Stream.FILE


FOR_THE_CPU = Known(LEAVE)
_LOW = 0xFFFFFFFF


class _Unseen(dict[int, Descriptor]):
    """Descriptors that lanes may have changed: no answer can depend on them."""

    def get(self, *_: Any) -> NoReturn:
        """There is no telling."""
        raise LookupError


def numbered(process: Process) -> dict[OpenFile, int]:
    """The open files of the descriptors that are known here, numbered from 1."""
    found = dict.fromkeys(d.file for fd, d in sorted(process.descriptors.items()) if fd < DESCRIPTORS)
    return {file: number for number, file in enumerate(found, 1)}


def is_told(process: Process) -> bool:
    """Whether it watches files (inotify), or has locks, which any close of the file gives up."""
    return bool(process.kernel.watches or process.locked)


class KnownFiles:
    """The questions and answers of lanes that begin as the process that `start` returns."""

    def __init__(self, store: Store, start: Callable[[], Process]) -> None:
        self._store, self._start = store, start
        self.table = store.allocate(8 * ANSWER_WORDS * ANSWERS, zero=True)
        self.asked = store.allocate(8 * (1 + QUESTION_WORDS * QUESTIONS), zero=True)
        self._answers: dict[Question, Known] = {}
        self._contents: list[Room] = []
        self._images: dict[tuple[int, ...], Image] = {}

    @property
    def size(self) -> int:
        """Bytes of the store's memory."""
        return sum(buffer.size for buffer in (self.table, self.asked, *self._contents))

    def inherited(self, process: Process) -> dict[int, int]:
        """The words of lanes for the descriptors and open files that they begin with."""
        words = dict.fromkeys(range(Word.DESCRIPTOR, Word.INPUT), 0)
        numbers = numbered(process)
        for fd, descriptor in process.descriptors.items():
            file, question = descriptor.file, (Ask.INHERITED, b"%d" % fd)
            if fd >= DESCRIPTORS:
                continue
            number = numbers[file]
            words[Word.DESCRIPTOR + fd] = number | descriptor.cloexec << 32
            if is_told(process) or not isinstance(file, GuestFile) or words[Word.OPENED + number]:
                continue
            known = _known(process, question, self._room)
            if known != FOR_THE_CPU:
                self._add({question: known})
                words[Word.OPENED + number] = len(self._answers) | file.flags << 32
                words[Word.OFFSET + number] = file.offset
        return words

    def answer(self) -> bool:
        """Answer what lanes have asked; whether they have."""
        count = int(self.asked.read(np.zeros(1, np.uint64))[0])
        if not count:
            return False
        rows = self.asked.read(np.empty((min(count, QUESTIONS), QUESTION_WORDS), np.uint64), 8)
        self.asked.write(np.zeros(1, np.uint64))
        questions = dict.fromkeys((int(row[0]), row[1:].tobytes().rstrip(b"\0")) for row in rows)
        self._add(self._look([*questions][: ANSWERS - 1 - len(self._answers)], self._room))
        return True

    def look_again(self) -> None:
        """Before lanes begin again: the host's files may have changed."""
        self._images.clear()
        if not self._answers:
            return
        answers = self._look(self._answers, MOST)
        if answers != self._answers:
            self._answers, self._contents = {}, []
            self._add(answers)

    def put_back(self, process: Process, before: dict[int, int], words: Words) -> None:
        """Give a process the descriptors that a lane has; the files that it began with are in it."""
        files = {number: file for file, number in numbered(process).items()}
        referred = words[Word.DESCRIPTOR : Word.OPENED].tolist()
        begun = [process.descriptors.pop(fd) for fd in range(DESCRIPTORS) if fd in process.descriptors]
        for number in {word & _LOW for word in referred} - {0}:
            word = int(words[Word.OPENED + number])
            if word != before[Word.OPENED + number]:
                files[number] = self._opened(process, word)
            if word:
                files[number].seek(int(words[Word.OFFSET + number]), abi.SEEK_SET)
        for fd, word in enumerate(referred):
            if word:
                process.descriptors[fd] = Descriptor(files[word & _LOW], bool(word >> 32))
        for descriptor in begun:
            process.let_go(descriptor.file)

    def map_again(self, process: Process, area: list[int], prot: Prot, marks: Mark) -> None:
        """Map an area of a file as a lane has it (words of an `Area`).

        Lanes that do the same share the host's copy of the file, as there may be many of them.
        """
        word, base, length, offset = key = tuple(area[Area.FILE :])
        mapped = Mapped(self._opened(process, word), offset, length, read_only=True)
        if key not in self._images:
            self._images[key] = mapped.image(process)
        image, start = self._images[key], area[Area.START]
        process.mapped[image] = mapped
        process.memory.map(start, area[Area.END] - start, prot, image, start - base, image.name, marks)

    def _opened(self, process: Process, word: int) -> OpenFile:
        """The file of a lane's word; `process` is as lanes begin, or has the word of none that it had."""
        ask, name = [*self._answers][(word & _LOW) - 1]
        if ask == Ask.INHERITED:
            return process.file(int(name))
        try:
            return open_path(process, process.cwd, name, word >> 32, 0)
        except (Failure, OSError):
            raise UsageError(f"{name.decode(errors='replace')}: changed while lanes were running") from None

    @property
    def _room(self) -> int:
        left = MOST - sum(len(known.content) for known in self._answers.values())
        return min(left, int(self._store.free_bytes * PART))

    def _look(self, questions: Iterable[Question], room: int) -> dict[Question, Known]:
        process, found = self._start(), {}
        for question in questions:
            found[question] = _known(process, question, room)
            room -= len(found[question].content)
        return found

    def _add(self, answers: dict[Question, Known]) -> None:
        for question, known in answers.items():
            self._answers[question] = known
            # whole pages, so that lanes can map them
            whole = known.content.ljust(page_up(len(known.content)), b"\0")
            self._contents.append(self._store.upload(whole))
            row = np.zeros(ANSWER_WORDS, np.uint64)
            row[Answer.RESULT] = known.result & layout.U64
            row[Answer.KIND] = known.kind
            row[Answer.CONTENT], row[Answer.SIZE] = self._contents[-1].address, len(known.content)
            ask, name = question
            row[Answer.STATUS : Answer.QUESTION] = np.frombuffer(known.status, np.uint64)
            row[Answer.QUESTION] = ask
            row[Answer.QUESTION + 1 :] = np.frombuffer(name.ljust(8 * NAME_WORDS, b"\0"), np.uint64)
            self.table.write(row, len(self._answers) * row.nbytes)
        self.table.write(np.array([len(self._answers)], np.uint64), 8 * Answer.QUESTION)


def _known(process: Process, question: Question, room: int) -> Known:
    """The answer to a question, with at most `room` bytes of contents."""
    (ask, name), blind = question, copy(process)
    ask, flags = ask & _LOW, ask >> 32
    blind.descriptors = _Unseen()
    try:
        match ask:
            case Ask.INHERITED:
                return _content(process, process.file(int(name)), room)
            case Ask.OPEN if is_told(process):
                return FOR_THE_CPU
            case Ask.OPEN:
                check_flags(flags)
                return _content(blind, open_path(blind, blind.cwd, name, flags, 0), room)
            case _:
                node = resolve(blind, blind.cwd, name, follow=ask == Ask.STATUS).existing()
                return Known(status=layout.stat(node.stat()))
    except Failure as failure:
        return Known(-failure.errno)
    except (LookupError, OSError):
        return FOR_THE_CPU


def _content(process: Process, file: OpenFile, room: int) -> Known:
    if isinstance(file, DeviceFile) and file.device.read is seeded and not file.writable:
        return Known(0, layout.stat(file.stat()), kind=Stream.RANDOM)
    if not isinstance(file, GuestFile) or file.writable:
        return FOR_THE_CPU
    status = file.stat()
    if status.size > room:
        return FOR_THE_CPU
    content = file.pread(process, status.size, 0)
    return Known(0, layout.stat(status), content) if len(content) == status.size else FOR_THE_CPU
