"""The command line: its commands are in `kvrm.cli.commands`."""

from __future__ import annotations

import atexit
import gc
import logging
import sys
import traceback
from typing import Any

from kvrm.cli.exits import Exit
from kvrm.cli.standard import closed_streams
from kvrm.errors import missing_part

RARELY = 100_000
"""Objects that are made between two searches for garbage, instead of 700."""


def main() -> None:
    """Run the command line on `sys.argv` and exit; what goes wrong is one line on stderr and an exit code."""
    closed_streams()  # before any other file is opened, which would get the number
    # A start makes many objects that stay. Python would look for garbage among them a hundred times, and
    # again at its end: a fifth of the time of a short run.
    gc.set_threshold(RARELY)
    atexit.register(gc.freeze)

    import typer

    from kvrm.cli.commands import app_for

    _report_progress()
    # typer exports this class' subclasses only.
    usage_error: Any = typer.BadParameter.__base__
    try:
        code = app_for(sys.argv[1:])(prog_name="kvrm", standalone_mode=False)
        sys.stdout.flush()
    except usage_error as error:
        if message := error.format_message():  # empty where the help was printed instead
            _complain(f"{message} (see kvrm --help)")
        code = Exit.USAGE
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    except BrokenPipeError:
        code = Exit.BROKEN_PIPE
        sys.stdout = None  # nothing to flush it into
    except Exception as error:
        told = missing_part(error) or error
        code = _code(told)
        _complain(_text(told))
    sys.exit(code)


def _report_progress() -> None:
    """What takes a moment, such as compiling on a first start, says so on stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("kvrm: %(message)s"))
    logger = logging.getLogger("kvrm")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def _code(error: Exception) -> Exit:
    """Whether the user can do something about an error, or it is one of ours."""
    import kvrm

    if isinstance(error, kvrm.HostError) or not isinstance(error, kvrm.KvrmError | OSError):
        return Exit.HOST
    return Exit.USAGE


def _text(error: Exception) -> str:
    import kvrm

    if isinstance(error, kvrm.KvrmError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename is not None else str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {error}"
    return f"{what} ({place.filename}:{place.lineno}); this is a fault of KVRM, please report it"


def _complain(message: str) -> None:
    print("kvrm:", " ".join(message.split()), file=sys.stderr)
