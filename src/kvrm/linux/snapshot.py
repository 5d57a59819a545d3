"""Snapshots of a process: files, descriptors, clock, signals, random numbers and captured output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kvrm.linux.files.content import Budget
from kvrm.linux.files.copying import FileCopies, NodeCopies
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.filesystem import FileSystem
from kvrm.linux.mapped import Mapped
from kvrm.memory import Image

if TYPE_CHECKING:
    from kvrm.linux.files.open_file import Descriptor
    from kvrm.linux.process import Process

_FIELDS: Final = (
    "retired skipped umask personality limits heap_start heap_end robust_list locks_future name argv envp "
    "program_path loaded credentials refused controls scheduling memory_policy barriers seccomp".split()
)

_LINKED: Final = ("timers", "signals", "ipc", "mqueues", "sockets", "watches")
"""What is copied together with the open files."""


@dataclass(frozen=True, slots=True)
class _View:
    """What a process sees of files, and what refers to open files or is referred to by them."""

    files: FileSystem
    cwd: Directory
    descriptors: Mapping[int, Descriptor]
    mapped: Mapping[Image, Mapped]
    linked: Mapping[str, Any]

    def copy(self) -> _View:
        """An independent copy; open host files are shared, they have no state of their own."""
        open_files = dict.fromkeys(descriptor.file for descriptor in self.descriptors.values())
        open_files |= dict.fromkeys(part.file for part in self.mapped.values())
        roots = [self.files.root, self.cwd, *(node for file in open_files for node in file.nodes)]
        budget = self.files.budget
        nodes = NodeCopies(roots, Budget(budget.limit, budget.used))
        copies = FileCopies(nodes)
        descriptors = {
            number: replace(descriptor, file=copies.of(descriptor.file))
            for number, descriptor in self.descriptors.items()
        }
        mapped = {image: replace(part, file=copies.of(part.file)) for image, part in self.mapped.items()}
        linked = {name: copies.of(thing) for name, thing in self.linked.items()}
        return _View(self.files.copy(nodes), nodes.directory(self.cwd), descriptors, mapped, linked)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A process at one moment, all but memory and registers. Opaque, and never changed."""

    fields: dict[str, Any]
    view: _View
    random: tuple[Any, ...]
    stdout: bytes
    stderr: bytes
    due: int | None
    """As `Process.due`."""


def take(process: Process, last: bool = False) -> Snapshot:
    """The state of `process`; `last`: it is put back before it is used again, so its files need no copy."""
    fields = {name: getattr(process, name) for name in _FIELDS}
    fields["limits"], fields["locked"] = process.limits.copy(), process.locked.copy()
    linked = {name: getattr(process, name) for name in _LINKED}
    view = _View(process.files, process.cwd, process.descriptors, process.mapped, linked)
    return Snapshot(
        fields=fields,
        view=view if last else view.copy(),
        random=process.random.getstate(),
        stdout=bytes(process.stdout),
        stderr=bytes(process.stderr),
        due=process.due,
    )


def put_back(process: Process, snapshot: Snapshot, last: bool = False) -> None:
    """Set the state of `process`; `last`: the snapshot is not used again, so its files need no copy."""
    for name, value in snapshot.fields.items():
        setattr(process, name, value)
    process.limits, process.locked = snapshot.fields["limits"].copy(), snapshot.fields["locked"].copy()
    view = snapshot.view if last else snapshot.view.copy()
    process.files, process.cwd, process.descriptors = view.files, view.cwd, dict(view.descriptors)
    process.mapped = dict(view.mapped)
    for name, thing in view.linked.items():
        setattr(process, name, thing)
    process.random.setstate(snapshot.random)
    process.stdout[:] = snapshot.stdout
    process.stderr[:] = snapshot.stderr
