"""From an ELF executable to an address space that is ready to run (as fs/binfmt_elf.c of Linux does).

The layout is fixed, so that every run of a program has the same addresses:

    0x0000400000  a program with fixed addresses, then its heap (brk)
    0x5500000000  a position-independent program, then its heap
    0x7f........  mappings (mmap), downwards from 0x7ff8000000
    0x7ffffff000  end of the stack, 8 MiB unless the program sets another limit
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kvrm.errors import ProgramError
from kvrm.linux import abi
from kvrm.linux.elf import Executable, Segment
from kvrm.memory import PAGE, VA_END, Image, Mark, Memory, OutOfMemory, Prot, page_up

PIE_BASE: Final = 0x55_0000_0000
STACK_TOP: Final = VA_END - PAGE
STACK_SIZE: Final = 8 << 20
STACK_BASE: Final = STACK_TOP - STACK_SIZE
STACK_GAP: Final = 1 << 20
"""Bytes below the stack that stay free, so that one that overflows faults."""
MMAP_TOP: Final = VA_END - (128 << 20)
"""Mappings end here: a stack that may grow (RLIMIT_STACK) has the room above it, as in Linux."""
MMAP_LOW: Final = 1 << 16
ARGUMENT_LIMIT: Final = STACK_SIZE // 4
_U64: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Identity:
    """What the auxiliary vector says that is not in the program."""

    uid: int
    gid: int
    hwcap: int
    hwcap2: int
    random: bytes


@dataclass(frozen=True, slots=True)
class Stack:
    """What the initial stack of a program (found at `path`, mapped at `bias`) says besides its arguments."""

    program: Executable
    bias: int
    path: bytes
    identity: Identity

    def strings(self, argv: Sequence[bytes], envp: Sequence[bytes]) -> tuple[int, int, int]:
        """The addresses of the arguments, of the environment, and where that ends."""
        arguments, environment, path = (_room(texts) for texts in (argv, envp, [self.path]))
        start = STACK_TOP - 8 - arguments - environment - path
        return start, start + arguments, start + arguments + environment

    @property
    def spans(self) -> tuple[int, int, int, int]:
        """Where code starts and ends, and data: the last segment with contents that begins."""
        loads = self.program.segments
        code = [load for load in loads if load.prot & Prot.X] or loads
        data = max(loads, key=lambda load: load.vaddr)
        start, end = min(load.vaddr for load in code), max(load.vaddr + load.filesz for load in code)
        data_end = max(load.vaddr + load.filesz for load in loads)
        return start + self.bias, end + self.bias, data.vaddr + self.bias, data_end + self.bias

    def build(self, memory: Memory, argv: Sequence[bytes], envp: Sequence[bytes]) -> tuple[int, bytes]:
        """Map a stack, whatever is there, and fill it; stack pointer and auxiliary vector.

        Raises ProgramError if the arguments are too long.
        """
        require_room(argv, envp, self.path)
        prot = Prot.R | Prot.W | (Prot.X if self.program.executable_stack else Prot.NONE)
        memory.map(STACK_BASE, STACK_SIZE, prot, name="[stack]", marks=Mark.GROWSDOWN)
        return _build_stack(memory, self, argv, envp)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A program in memory: its first instruction, stack pointer, start of the heap, auxiliary vector."""

    entry: int
    sp: int
    heap: int
    auxv: bytes
    stack: Stack | None = None


def load(
    memory: Memory,
    program: Executable,
    interpreter: Executable | None,
    argv: Sequence[bytes],
    envp: Sequence[bytes],
    path: bytes,
    identity: Identity,
) -> Loaded:
    """Map `program` (found at `path`), its interpreter if it has one, and the stack.

    Raises ProgramError if they do not fit.
    """
    try:
        bias = _map_image(memory, program, path)
        start = program
        if interpreter is not None:
            assert program.interpreter is not None
            _map_image(memory, interpreter, program.interpreter)
            start = interpreter
        stack = Stack(program, bias, path, identity)
        sp, auxv = stack.build(memory, argv, envp)
    except OutOfMemory as error:
        raise ProgramError(f"{_text(path)}: does not fit in the machine's memory: {error}") from None
    entry = start.entry + (bias if start is program else 0)
    return Loaded(entry, sp, page_up(program.end + bias), auxv, stack)


def require_room(argv: Sequence[bytes], envp: Sequence[bytes], path: bytes) -> None:
    """ProgramError unless these fit on the stack."""
    if sum(len(text) + 9 for text in (*argv, *envp, path)) > ARGUMENT_LIMIT:
        raise ProgramError(f"{_text(path)}: argument list too long (the limit is {ARGUMENT_LIMIT} bytes)")


def load_bias(program: Executable) -> int:
    """What is added to the addresses in a file to get those in memory."""
    if not program.position_independent:
        return 0
    return (PIE_BASE & -program.align or program.align) - program.start


def _map_image(memory: Memory, program: Executable, path: bytes) -> int:
    """Map all segments; returns what to add to the addresses in the file."""
    bias = load_bias(program)
    if program.end + bias > MMAP_TOP:
        raise ProgramError(f"{_text(path)}: the program does not fit below the stack at {MMAP_TOP:#x}")
    image = Image(program.data, _text(path))
    for segment in program.segments:
        _map_segment(memory, segment, bias, image)
    return bias


def _map_segment(memory: Memory, segment: Segment, bias: int, image: Image) -> None:
    start = (segment.vaddr + bias) & -PAGE
    file_end = segment.vaddr + bias + segment.filesz
    zero_start, end = page_up(file_end), page_up(segment.end + bias)
    if segment.filesz:
        offset = segment.offset & -PAGE
        memory.map(start, zero_start - start, segment.prot, image, offset, image.name)
        start = zero_start
        if segment.memsz > segment.filesz and zero_start > file_end:
            memory.poke(file_end, bytes(zero_start - file_end))
    if end > start:
        memory.map(start, end - start, segment.prot)


def _build_stack(
    memory: Memory, stack: Stack, argv: Sequence[bytes], envp: Sequence[bytes]
) -> tuple[int, bytes]:
    """Strings, auxiliary vector, environment and arguments, from the top of the stack down."""
    program, bias, identity = stack.program, stack.bias, stack.identity
    strings: list[bytes] = [text + b"\0" for text in (*argv, *envp, stack.path)]
    addresses = []
    at = block_start = stack.strings(argv, envp)[0]
    for text in strings:
        addresses.append(at)
        at += len(text)
    memory.poke(block_start, b"".join(strings))

    platform = (block_start & -16) - 16
    memory.poke(platform, b"aarch64\0")
    random = platform - 16
    memory.poke(random, identity.random)

    auxv = [
        (abi.AT_HWCAP, identity.hwcap),
        (abi.AT_PAGESZ, PAGE),
        (abi.AT_CLKTCK, abi.CLOCK_TICKS),
        (abi.AT_PHDR, program.phdr + bias if program.phdr else 0),
        (abi.AT_PHENT, 56),
        (abi.AT_PHNUM, program.phnum),
        (abi.AT_BASE, 0),
        (abi.AT_FLAGS, 0),
        (abi.AT_ENTRY, program.entry + bias),
        (abi.AT_UID, identity.uid),
        (abi.AT_EUID, identity.uid),
        (abi.AT_GID, identity.gid),
        (abi.AT_EGID, identity.gid),
        (abi.AT_SECURE, 0),
        (abi.AT_RANDOM, random),
        (abi.AT_HWCAP2, identity.hwcap2),
        (abi.AT_EXECFN, addresses[-1]),
        (abi.AT_PLATFORM, platform),
        (abi.AT_NULL, 0),
    ]
    vector = [value & _U64 for pair in auxv for value in pair]
    arguments, environment = addresses[: len(argv)], addresses[len(argv) : -1]
    words = [len(argv), *arguments, 0, *environment, 0, *vector]
    sp = (random - 8 * len(words)) & -16
    memory.poke(sp, struct.pack(f"<{len(words)}Q", *words))
    return sp, struct.pack(f"<{len(vector)}Q", *vector)


def _room(texts: Sequence[bytes]) -> int:
    return sum(len(text) + 1 for text in texts)


def _text(path: bytes) -> str:
    return path.decode(errors="surrogateescape")
