"""One line for each system call, much as strace writes them (KVRM_TRACE=sys)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kvrm.linux.errno import name_of
from kvrm.linux.names import name_of as call_name
from kvrm.memory import GuestFault

if TYPE_CHECKING:
    from kvrm.linux.process import Process
    from kvrm.linux.syscall_table import Syscall

_STRING_LIMIT: Final = 200
_LOWEST_ERROR: Final = -4095


def shown_call(process: Process, call: Syscall | None, number: int, words: Any) -> str:
    """`openat(-100, "notes.txt", 0x0, 0)`, before the call is done; `words` are the registers."""
    if call is None:
        return f"{call_name(number)}({', '.join(f'{value:#x}' for value in words[:6])})"
    values = zip(call.kinds, call.decode(words), strict=True)
    return f"{call.name}({', '.join(_shown(process, kind, value) for kind, value in values)})"


def shown_result(result: int) -> str:
    """`3`, or `-1 ENOENT`."""
    if _LOWEST_ERROR <= result < 0:
        return f"-1 {name_of(-result)}"
    return str(result) if result < 1 << 20 else f"{result:#x}"


def _shown(process: Process, kind: str, value: int) -> str:
    match kind:
        case "i" | "u" | "l" | "n":
            return str(value)
        case "o":
            return f"{value:#o}"
        case "s":
            return _string(process, value)
        case _:
            return f"{value:#x}"


def _string(process: Process, pointer: int) -> str:
    try:
        text = process.memory.read_cstring(pointer, _STRING_LIMIT)
    except GuestFault:
        return f"{pointer:#x}"
    shown = text.decode("latin-1").encode("unicode_escape").decode().replace('"', '\\"')
    return f'"{shown}"' + ("..." if len(text) == _STRING_LIMIT else "")
