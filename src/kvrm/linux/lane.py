"""A worker's process: the same program for one lane after another."""

from __future__ import annotations

from collections.abc import Sequence

from kvrm.lane.state import State
from kvrm.linux.outcome import Outcome
from kvrm.linux.process import Process, Text
from kvrm.linux.snapshot import Snapshot, put_back, take
from kvrm.memory import Memory


class LaneProcess:
    """What a machine needs of a `Process`, for lanes that begin at one snapshot.

    Many lanes make no system call; files, descriptors and the rest are put back only for those that do.
    """

    def __init__(self, origin: Process, memory: Memory, state: State, snapshot: Snapshot) -> None:
        self._process = origin.twin(memory, state)
        self._snapshot: Snapshot | None = None
        self._stdin: bytes | None = None
        self._alone = False
        self.begin(snapshot, None)

    def begin(self, snapshot: Snapshot, stdin: bytes | None, alone: bool = False) -> None:
        """The next lane begins here; `stdin`, unless None, replaces what standard input still held.

        `alone`: no other lane begins here, so this one can have the snapshot's files themselves.
        """
        self._snapshot, self._stdin, self._alone = snapshot, stdin, alone

    def current(self) -> Process:
        """The process as the lane has it."""
        if self._snapshot is not None:
            put_back(self._process, self._snapshot, last=self._alone)
            self._snapshot, stdin = None, self._stdin
            if stdin is not None:
                self._process.refill(stdin)
        return self._process

    def set_arguments(self, args: Sequence[Text]) -> None:
        """Other arguments for the lane, which has not run yet."""
        self.current().set_arguments(args)

    def syscall(self, retired: int) -> Outcome | None:
        """As `Process.syscall`."""
        return self.current().syscall(retired)

    @property
    def due(self) -> int | None:
        """As `Process.due`."""
        return self._process.due if self._snapshot is None else self._snapshot.due

    def expire(self, retired: int) -> Outcome | None:
        """As `Process.expire`."""
        return self.current().expire(retired)

    def captured(self, number: int) -> bytes:
        """As `Process.captured`."""
        if self._snapshot is not None:
            return self._snapshot.stdout if number == 1 else self._snapshot.stderr
        return self._process.captured(number)

    def saved(self) -> tuple[Snapshot, bytes | None, bool]:
        """What `begin` needs for the lane to go on from here, which it must before anything else is done."""
        if self._snapshot is None:
            self._snapshot, self._stdin, self._alone = take(self._process, last=True), None, True
        return self._snapshot, self._stdin, self._alone
