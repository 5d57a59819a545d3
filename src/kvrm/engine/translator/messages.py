"""Processes that help.

Each gets pickles on its standard input, after their lengths in 8 bytes, and answers on its standard output in
the same way. When its input ends, so does the process.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO

from kvrm.staging import native

if TYPE_CHECKING:
    import subprocess

ENDED = (EOFError, OSError, pickle.UnpicklingError)
"""What `read` and `write` raise once the other process is gone, in the middle of a message perhaps."""


def start(serve: Callable[[], None]) -> subprocess.Popen[bytes]:
    """A process that runs a function of a module. Raises OSError."""
    import subprocess  # not for starts that need no process

    command = [sys.executable, "-c", f"from {serve.__module__} import {serve.__name__} as f; f()"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A reader of our standard error waits for its end: a process that outlives us must not hold it.
        stderr=None if native.dumps() else subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


def ends() -> tuple[BinaryIO, BinaryIO]:
    """Where such a process finds what it is asked, and writes its answers."""
    answers = os.fdopen(os.dup(1), "wb")
    # Whatever else is printed must not get between the answers.
    os.dup2(2, 1)
    return sys.stdin.buffer, answers


def write(file: BinaryIO | Any, message: Any) -> None:
    """Send a message. Raises one of `ENDED`."""
    data = pickle.dumps(message)
    file.write(len(data).to_bytes(8, "little") + data)
    file.flush()


def read(file: BinaryIO | Any) -> Any:
    """The next message. Raises one of `ENDED` after the last."""
    size = file.read(8)
    if len(size) < 8:
        raise EOFError
    return pickle.loads(file.read(int.from_bytes(size, "little")))


def until_the_end() -> contextlib.suppress:
    """Around a loop that reads messages, or writes them."""
    return contextlib.suppress(*ENDED)
