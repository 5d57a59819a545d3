"""One line where what KVRM lacks may be why a program ended badly."""

from __future__ import annotations

import pytest

import kvrm
from linux_tools import Elf
from translating import assemble, needs_assembler

pytestmark = needs_assembler

REFUSED = "mov x8, #1000\n svc #0\n"
EXIT = "mov x0, #{code}\n mov x8, #93\n svc #0\n"
HANDLER = """
    sub sp, sp, #64
    adr x9, 1f
    stp x9, xzr, [sp]
    stp xzr, xzr, [sp, #16]
    mov x0, #{signal}
    mov x1, sp
    mov x2, #0
    mov x3, #8
    mov x8, #134
    svc #0
1:  {fault}
"""


def run(text: str) -> kvrm.Result:
    return kvrm.Machine(Elf(patches={0x800: assemble(text)}).data()).run(max_instructions=1000)


def test_a_refused_call_before_a_bad_end() -> None:
    for text in (
        REFUSED * 2 + EXIT.format(code=3),
        REFUSED + "udf #1",
        REFUSED + "mov x1, #8\n ldr x0, [x1]",
    ):
        hint = run(text).hint
        assert "ENOSYS" in hint and hint.count("syscall_1000") == 1 and "\n" not in hint


def test_no_line_without_need() -> None:
    assert run(REFUSED + EXIT.format(code=0)).hint == ""
    assert run(EXIT.format(code=3)).hint == ""
    rseq = "mov x0, #0\n mov x8, #293\n svc #0\n"
    assert run(rseq + EXIT.format(code=3)).hint == ""


def test_a_snapshot_remembers_what_was_refused() -> None:
    m = kvrm.Machine(Elf(patches={0x800: assemble(REFUSED + EXIT.format(code=3))}).data())
    m.run(max_instructions=2)
    snapshot = m.snapshot()
    assert "syscall_1000" in m.run().hint
    m.restore(snapshot)
    assert "syscall_1000" in m.run().hint


@pytest.mark.parametrize(
    ("signal", "name", "fault"),
    [(11, "SIGSEGV", "mov x1, #8\n ldr x0, [x1]"), (4, "SIGILL", "udf #1"), (5, "SIGTRAP", "brk #1")],
)
def test_a_fault_with_a_handler(signal: int, name: str, fault: str) -> None:
    result = run(HANDLER.format(signal=signal, fault=fault))
    assert result.signal == signal
    assert f"handler for {name}" in result.hint
    assert run(HANDLER.format(signal=10, fault=fault)).hint == ""
