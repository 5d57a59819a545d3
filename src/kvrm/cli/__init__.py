"""The command line: `kvrm run`, `kvrm demo`, `kvrm where`, `kvrm disasm`."""

from __future__ import annotations

import sys
from typing import Any

from kvrm.cli.exits import Exit


def main() -> None:
    """Run the command line on `sys.argv` and exit; what goes wrong is one line on stderr and an exit code."""
    import typer

    from kvrm.cli.commands import app

    # typer exports this class' subclasses only.
    usage_error: Any = typer.BadParameter.__base__
    try:
        code = app(prog_name="kvrm", standalone_mode=False)
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
        if (known := _known(error)) is None:
            raise
        _complain(_text(error))
        code = known
    sys.exit(code)


def _known(error: Exception) -> Exit | None:
    """The exit code of an error that the user can do something about; None for one of ours."""
    import kvrm

    if isinstance(error, kvrm.HostError):
        return Exit.HOST
    if isinstance(error, kvrm.KvrmError | OSError):
        return Exit.USAGE
    return None


def _text(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _complain(message: str) -> None:
    print("kvrm:", " ".join(message.split()), file=sys.stderr)
