"""What a world starts with: a kernel, and one process of one task in it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from kvrm.arguments import encoded
from kvrm.isa.features import CORTEX_A76
from kvrm.lane.state import State
from kvrm.linux.files.paths import Credentials
from kvrm.linux.files.streams import input_stream, output_stream
from kvrm.linux.process import Process, Text
from kvrm.linux.setup import find_program, make_files
from kvrm.linux.task import Task
from kvrm.linux.world import Kernel
from kvrm.memory import Memory
from kvrm.streams import Closed

PID: Final = 1000
OVERLAY_LIMIT: Final = 256 << 20


def boot(
    memory: Memory,
    state: State,
    *,
    program: Text | Path,
    args: Sequence[Text] = (),
    env: Mapping[str, str] | Mapping[bytes, bytes] | None = None,
    stdin: bytes | BinaryIO | Closed | None = None,
    stdout: BinaryIO | Closed | None = None,
    stderr: BinaryIO | Closed | None = None,
    root: Path | str | None = None,
    rw: Path | str | None = None,
    cwd: Path | str | None = None,
    seed: int = 0,
    features: frozenset[str] = CORTEX_A76,
    overlay_limit: int = OVERLAY_LIMIT,
) -> Process:
    """A world of its own with one process, which `Process.start` loads.

    `program` is a path, or the bytes of an ELF file. `args` follow argv[0], which is the path as given. `env`
    None is an empty environment. `stdin` None is empty, bytes are its content, a binary stream is used as it
    is (by its descriptor, unbuffered, if it has one). `stdout` and `stderr` None are captured in the
    kernel's bytearrays of these names. The guest sees files below `root` (if given) at `/`, and the directory
    `cwd` (the host's current one if None) at its own path; its changes stay in memory, at most
    `overlay_limit` bytes, except below `rw`. `seed` decides all random bytes, `features` are those of the
    processor (`kvrm.isa.features`). The same arguments and files give the same run.

    Raises ProgramError if the program cannot be read, UsageError if a directory cannot be used.
    """
    executable = find_program(program)
    owner = Credentials(os.getuid(), os.getgid(), frozenset(os.getgroups()))
    argv = [executable.name, *(encoded("args", text) for text in args)]
    envp = [encoded("env", key) + b"=" + encoded("env", value) for key, value in (env or {}).items()]
    files, here = make_files(executable, owner, PID, root, rw, cwd, overlay_limit)
    streams = input_stream(stdin), output_stream(stdout, 1), output_stream(stderr, 2)
    task = Task(state, PID, executable.name.rsplit(b"/", 1)[-1][:15])
    return Process(Kernel(files, streams, features, seed), task, memory, executable, argv, envp, here, owner)
