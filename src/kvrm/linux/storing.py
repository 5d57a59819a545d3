"""How a process is written down when a snapshot is pickled, and made again in another process of the host.

A process is a net of nodes, open files and what these share, as long a chain of them as a guest likes to
make. Each is written as a number where another refers to it, and its attributes follow one after the other,
so that no depth is too much. Bytes of files, and images of memory, are `shared` with the rest of the pickle.

What belongs to the host is written by what it is for, never by where it is: the directory `rw`, the current
directory, the program's file, standard output. It is made again from what the restoring machine was given
for that, so that no pickle opens anything that this machine's guest may not see.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from kvrm.errors import UsageError
from kvrm.linux.errno import Failure
from kvrm.linux.files.filesystem import Shown
from kvrm.linux.files.host import HostTree, Location
from kvrm.linux.files.nodes import Node
from kvrm.linux.files.open_file import OpenFile
from kvrm.linux.files.stored import attributes
from kvrm.linux.files.streams import HostStream
from kvrm.memory import Image
from kvrm.memory.stored import Contents

if TYPE_CHECKING:
    from kvrm.linux.process import Process
    from kvrm.linux.snapshot import Snapshot

_LARGE: Final = 256
"""From that many bytes on, bytes are worth a digest."""


@runtime_checkable
class _Linked(Protocol):
    def relink(self, copies: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class StoredProcess:
    """A process as a pickle has it, until it is restored to."""

    data: bytes
    shared: tuple[Any, ...]


def stored(snapshot: Snapshot | StoredProcess) -> StoredProcess:
    """What a pickle is to hold. Raises UsageError for what cannot be found again on the host."""
    if isinstance(snapshot, StoredProcess):
        return snapshot
    file = BytesIO()
    writer = _Writer(file, snapshot.view.files.shown)
    writer.dump(snapshot)
    for thing in writer.net:  # each may add to it
        writer.dump(thing.stored() if isinstance(thing, Node | OpenFile) else attributes(thing))
    return StoredProcess(file.getvalue(), tuple(writer.shared))


def revived(snapshot: StoredProcess, process: Process) -> Snapshot:
    """The snapshot, for `process`. Raises UsageError, with nothing changed, if the host lacks what it has."""
    reader = _Reader(snapshot, process.kernel.files.shown)
    made: Snapshot = reader.load()
    for thing in reader.net:  # each may add to it
        for name, value in reader.load().items():
            setattr(thing, name, value)
    try:
        for kind in Node, OpenFile:
            for thing in reader.net:
                if isinstance(thing, kind):
                    thing.revived(process)
    except (Failure, OSError) as error:
        raise UsageError(f"what the snapshot's guest has open is not here: {error}") from None
    for thing in reader.net:
        if isinstance(thing, HostStream):
            thing.move()
    return made


class _Writer(pickle.Pickler):
    def __init__(self, file: BytesIO, shown: Shown) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.net: list[Any] = []
        self.shared: dict[Any, int] = {}
        self._numbers: dict[int, int] = {}
        self._shown = shown
        self._trees = {id(tree): name for name, tree in shown.trees.items()}

    def persistent_id(self, thing: Any) -> tuple[Any, ...] | None:
        kind = type(thing)
        if kind is bytes:
            return ("bytes", self._share(Contents.of(thing))) if len(thing) >= _LARGE else None
        if kind is Image:
            return "image", self._share(thing)
        if kind is Shown:
            return "shown", self._shown.program is not None
        if kind is HostTree:
            return "tree", self._trees[id(thing)]
        if kind is Location and thing == self._shown.program:
            return ("program",)
        if isinstance(thing, Node | _Linked) and kind is not type:
            if id(thing) not in self._numbers:
                self._numbers[id(thing)] = len(self.net)
                self.net.append(thing)
            return "net", self._numbers[id(thing)], kind
        return None

    def _share(self, thing: Any) -> int:
        return self.shared.setdefault(thing, len(self.shared))


class _Reader(pickle.Unpickler):
    def __init__(self, snapshot: StoredProcess, shown: Shown) -> None:
        super().__init__(BytesIO(snapshot.data))
        self.net: list[Any] = []
        self._shared, self._shown = snapshot.shared, shown

    def persistent_load(self, what: tuple[Any, ...]) -> Any:
        match what:
            case "bytes", number:
                return self._shared[number].data
            case "image", number:
                return self._shared[number]
            case "shown", from_file if from_file == (self._shown.program is not None):
                return self._shown
            case "tree", name if name in self._shown.trees:
                return self._shown.trees[name]
            case ("program",):
                return self._shown.program
            case "net", number, kind:
                if number == len(self.net):
                    self.net.append(kind.__new__(kind))
                return self.net[number]
        raise UsageError("one of snapshot and machine has its program from a file, the other from bytes")
