"""The exceptions of KVRM. Guest events are never exceptions: they are stop reasons of a `Result`.

KvrmError
├── ProgramError   a file that is not a program this machine can run
├── UsageError     an argument that makes no sense
│   └── OutOfRange   a number of something that there is not; an IndexError too
├── OutOfMemory    what was to be written does not fit into `memory_limit`
└── HostError      the host could not do its part; tells pc, word, disassembly and what to do
"""

from __future__ import annotations

INSTALL_NETWORKS = "pip install 'kvrm[networks]'"


class KvrmError(Exception):
    """Base of all; the message is one printable line, whatever names and bytes of a file it quotes."""

    def __init__(self, message: str) -> None:
        super().__init__("".join(c if c.isprintable() else ascii(c)[1:-1] for c in message))


class ProgramError(KvrmError):
    """Not a program that this machine can run."""


class UsageError(KvrmError, ValueError):
    """An argument that makes no sense."""


class OutOfRange(UsageError, IndexError):
    """The number of something that there is not, as x[31]."""


class OutOfMemory(KvrmError):
    """The machine needs one more page than its memory limit allows, or than the host can give."""


class HostError(KvrmError):
    """The host failed while it ran a guest."""

    def __init__(
        self, problem: str, *, pc: int, word: int | None, disassembly: str | None, advice: str
    ) -> None:
        at = f"pc {pc:#x}" + (f": {word:08x} {disassembly or '(unknown)'}" if word is not None else "")
        super().__init__(f"{problem} at {at}; {advice}")
        self.pc, self.word, self.disassembly, self.advice = pc, word, disassembly, advice


def missing_part(error: Exception) -> UsageError | None:
    """What to install if an import failed for want of the networks, an optional part; None if it did not."""
    missing = isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("kvrm.neural")
    return UsageError(f"KVRM's networks are not installed: {INSTALL_NETWORKS}") if missing else None
