"""Runs a static AArch64 program that uses only the system calls write and exit under Unicorn.

usage: unicorn_guest.py PROGRAM [ARGS...]
"""

from __future__ import annotations

import sys
from pathlib import Path

from elftools.elf.elffile import ELFFile
from unicorn import UC_ARCH_ARM64, UC_HOOK_INTR, UC_MODE_ARM, Uc
from unicorn.arm64_const import (
    UC_ARM64_REG_PC,
    UC_ARM64_REG_SP,
    UC_ARM64_REG_X0,
    UC_ARM64_REG_X1,
    UC_ARM64_REG_X2,
    UC_ARM64_REG_X8,
)

WRITE, EXIT, EXIT_GROUP = 64, 93, 94
STACK, STACK_SIZE = 0x7F_0000_0000, 1 << 20
PAGE = 4096


def load(uc: Uc, path: Path) -> int:
    """Map the program's segments; return the entry."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        pages = set()
        for segment in elf.iter_segments("PT_LOAD"):
            first = segment["p_vaddr"] // PAGE
            pages |= set(range(first, (segment["p_vaddr"] + segment["p_memsz"] - 1) // PAGE + 1))
        for page in sorted(pages):
            uc.mem_map(page * PAGE, PAGE)
        for segment in elf.iter_segments("PT_LOAD"):
            uc.mem_write(segment["p_vaddr"], segment.data())
        return int(elf["e_entry"])


def push_arguments(uc: Uc, arguments: list[str]) -> int:
    """Lay argc, argv, and empty envp and auxv out at the top of a new stack; return the stack pointer."""
    uc.mem_map(STACK, STACK_SIZE)
    at = STACK + STACK_SIZE
    pointers = []
    for argument in arguments:
        data = argument.encode() + b"\0"
        at -= len(data)
        uc.mem_write(at, data)
        pointers.append(at)
    words = [len(arguments), *pointers, 0, 0, 0, 0]
    at = (at - 8 * len(words)) & ~15
    uc.mem_write(at, b"".join(word.to_bytes(8, "little") for word in words))
    return at


def main(arguments: list[str]) -> int:
    uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    entry = load(uc, Path(arguments[0]))
    uc.reg_write(UC_ARM64_REG_SP, push_arguments(uc, arguments))
    code = 0

    def system_call(uc: Uc, number: int, _: object) -> None:
        nonlocal code
        call, x0, x1, x2 = (
            uc.reg_read(register)
            for register in (UC_ARM64_REG_X8, UC_ARM64_REG_X0, UC_ARM64_REG_X1, UC_ARM64_REG_X2)
        )
        if number == 2 and call == WRITE:
            sys.stdout.buffer.write(uc.mem_read(x1, x2))
            uc.reg_write(UC_ARM64_REG_X0, x2)
            return
        code = x0 & 0xFF if call in (EXIT, EXIT_GROUP) else 70
        uc.emu_stop()

    uc.hook_add(UC_HOOK_INTR, system_call)
    uc.reg_write(UC_ARM64_REG_PC, entry)
    uc.emu_start(entry, 0)
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
