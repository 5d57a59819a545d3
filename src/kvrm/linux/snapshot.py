"""Snapshots of a process: files, descriptors, clock, signals, random numbers and captured output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kvrm.linux.files.content import Budget
from kvrm.linux.files.copying import FileCopies, NodeCopies
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.filesystem import FileSystem
from kvrm.linux.mapped import Mapped
from kvrm.memory import Image

if TYPE_CHECKING:
    from kvrm.linux.files.open_file import Descriptor
    from kvrm.linux.process import Process
    from kvrm.linux.task import Task
    from kvrm.linux.world import Kernel


@dataclass(frozen=True, slots=True)
class _View:
    """What a process sees of files, and what refers to open files or is referred to by them."""

    files: FileSystem
    cwd: Directory
    descriptors: Mapping[int, Descriptor]
    mapped: Mapping[Image, Mapped]
    linked: Sequence[Mapping[str, Any]]
    """What is copied together with the open files, of each of `_parts`."""

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
        linked = [{name: copies.of(thing) for name, thing in part.items()} for part in self.linked]
        return _View(self.files.copy(nodes), nodes.directory(self.cwd), descriptors, mapped, linked)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A process at one moment, all but memory and registers. Opaque, and never changed."""

    kernel: Mapping[str, Any]
    process: Mapping[str, Any]
    task: Mapping[str, Any]
    view: _View
    random: tuple[Any, ...]
    stdout: bytes
    stderr: bytes
    due: int | None
    """As `Process.due`."""


def take(process: Process, last: bool = False) -> Snapshot:
    """The state of `process`; `last`: it is put back before it is used again, so its files need no copy."""
    parts = _parts(process)
    kernel, own, task = ({name: _parted(getattr(part, name)) for name in part.SAVED} for part in parts)
    linked = [{name: getattr(part, name) for name in part.LINKED} for part in parts]
    view = _View(process.kernel.files, process.cwd, process.descriptors, process.mapped, linked)
    return Snapshot(
        kernel=kernel,
        process=own,
        task=task,
        view=view if last else view.copy(),
        random=process.kernel.random.getstate(),
        stdout=bytes(process.kernel.stdout),
        stderr=bytes(process.kernel.stderr),
        due=process.due,
    )


def put_back(process: Process, snapshot: Snapshot, last: bool = False) -> None:
    """Set the state of `process`; `last`: the snapshot is not used again, so its files need no copy."""
    kernel = process.kernel
    view = snapshot.view if last else snapshot.view.copy()
    saved = snapshot.kernel, snapshot.process, snapshot.task
    for part, fields, linked in zip(_parts(process), saved, view.linked, strict=True):
        for name, value in fields.items():
            setattr(part, name, _parted(value))
        for name, thing in linked.items():
            setattr(part, name, thing)
    kernel.files, process.cwd, process.descriptors = view.files, view.cwd, dict(view.descriptors)
    process.mapped = dict(view.mapped)
    kernel.random.setstate(snapshot.random)
    kernel.stdout[:] = snapshot.stdout
    kernel.stderr[:] = snapshot.stderr


def _parts(process: Process) -> tuple[Kernel, Process, Task]:
    """What a snapshot is of: the values in `SAVED`, and in `LINKED` what refers to open files or waits."""
    return process.kernel, process, process.task


def _parted(value: Any) -> Any:
    return value.copy() if isinstance(value, dict) else value
