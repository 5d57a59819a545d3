"""KVRM runs unmodified AArch64 Linux programs as machines, driven from Python.

>>> import kvrm
>>> m = kvrm.Machine()
>>> m.write_memory(0x1000, bytes.fromhex("20008052000080d2"), prot="rx")
>>> m.set_pc(0x1000)
>>> m.run(max_instructions=1).retired
1
>>> m.x[0]
1
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvrm.errors import HostError, KvrmError, OutOfMemory, OutOfRange, ProgramError, UsageError
from kvrm.lane.stops import STOPS, Stop
from kvrm.machine.machine import Machine
from kvrm.machine.result import Fault, Progress, Result
from kvrm.memory import Memory, Prot
from kvrm.streams import CLOSED

if TYPE_CHECKING:
    from kvrm.machine.texts import Texts

__version__ = "0.1.0"
__all__ = [
    "CLOSED",
    "STOPS",
    "Fault",
    "HostError",
    "KvrmError",
    "Machine",
    "Memory",
    "OutOfMemory",
    "OutOfRange",
    "ProgramError",
    "Progress",
    "Prot",
    "Result",
    "Stop",
    "Texts",
    "UsageError",
]


def __getattr__(name: str) -> Any:
    """`Texts`, imported when it is asked for: it needs numpy, which one machine does not."""
    if name == "Texts":
        from kvrm.machine.texts import Texts

        return Texts
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
