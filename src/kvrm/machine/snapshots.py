"""Snapshots of a machine, and which machine each belongs to."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

from kvrm.arguments import shown
from kvrm.errors import KvrmError, UsageError
from kvrm.machine.result import Result
from kvrm.memory import Snapshot
from kvrm.memory.stored import Contents, Reader, Writer


@dataclass(frozen=True, slots=True)
class Made:
    """What of a machine's making its snapshots cannot bring along: they fit only machines made alike.

    `program` is a digest of the program's file, None for a bare machine; `streams` are those of the host that
    the guest uses, by name. The engine, the target and the number of lanes are not here, because all have the
    same state.
    """

    program: str | None
    features: frozenset[str]
    fp_flags: bool
    root: Path | None
    rw: Path | None
    streams: tuple[tuple[str, Any], ...]

    def __reduce__(self) -> tuple[Any, ...]:
        # in order: that of a set of strings differs from process to process, and pickles are to be the same
        return _made, (self.program, sorted(self.features), self.fp_flags, self.root, self.rw, self.streams)

    def stored(self) -> Made:
        """The same for a pickle: streams are named by their files. Raises UsageError if they have none."""
        from kvrm.linux.files.streams import stream_file

        files = tuple((name, stream_file(name, stream)) for name, stream in self.streams)
        return replace(self, streams=files)


def _made(program: str | None, features: list[str], *rest: Any) -> Made:
    return Made(program, frozenset(features), *rest)


@dataclass(frozen=True, slots=True)
class MachineSnapshot:
    """Everything about a machine at one moment; an opaque value for `Machine.restore`.

    It can be pickled, and restored in another process and on another target. Load only what comes from where
    you trust: loading a pickle can run any code.

    `ended` is the last result of a program that has ended, None of one that can go on.
    """

    made: Made
    state: tuple[bytes, int]
    memory: Snapshot
    process: Any
    retired: int
    ended: Result | None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.process is None:
            process = None
        else:
            from kvrm.linux.storing import stored

            process = stored(self.process)
        # the time that the last run took is of the host, and equal machines have equal pickles
        ended = self.ended and replace(self.ended, seconds=0.0)
        body = BytesIO()
        writer = Writer(body)
        writer.dump((self.made.stored(), self.state, self.memory, process, self.retired, ended))
        contents, data = tuple(writer.contents), body.getvalue()
        return _unpickled, (_header(), _digest(data, contents), data, contents)


def _header() -> str:
    """What a pickle begins with: another version may have changed what it holds."""
    from kvrm import __version__

    return f"a snapshot of KVRM {__version__}"


def _digest(data: bytes, contents: tuple[Contents, ...]) -> bytes:
    found = blake2b(data, digest_size=16)
    for part in contents:
        found.update(part.digest)
    return found.digest()


def _unpickled(header: str, digest: bytes, data: bytes, contents: tuple[Contents, ...]) -> MachineSnapshot:
    if header != _header():
        raise UsageError(f"the pickle has {shown(header)}, and this would be {_header()}; take a new one")
    if digest != _digest(data, contents):
        raise UsageError("the pickle of the snapshot is damaged; its bytes are not those that were written")
    return MachineSnapshot(*Reader(BytesIO(data), contents).load())


def require_belongs(snapshot: MachineSnapshot, made: Made) -> None:
    """Raise UsageError unless a machine made like this can go back to a snapshot."""
    if not isinstance(snapshot, MachineSnapshot):
        raise UsageError(f"restore takes what Machine.snapshot() gave, not {shown(snapshot)}")
    if (snapshot.made.program is None) != (made.program is None):
        kinds = ("a program", "a bare machine")
        there, here = kinds if made.program is None else reversed(kinds)
        raise UsageError(f"the snapshot is of {there}, and this machine is {here}")
    before = snapshot.made
    if before.streams != made.streams:
        # streams are the same objects, or, after a pickle, of the same files
        with suppress(KvrmError):
            before, made = before.stored(), made.stored()
    other = [f.name for f in fields(Made) if getattr(before, f.name) != getattr(made, f.name)]
    if other:
        what = " and ".join(other)
        raise UsageError(f"the snapshot is of a machine with other {what}; it fits machines made alike")
