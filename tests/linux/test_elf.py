"""ELF files: sound ones load as Linux would load them, all others give one clear line."""

from __future__ import annotations

import random
import struct
import time
from pathlib import Path

import pytest

from kvrm.errors import ProgramError
from kvrm.lane.state import State
from kvrm.linux.boot import boot
from kvrm.linux.loader import ARGUMENT_LIMIT, MMAP_TOP, PIE_BASE, STACK_BASE, STACK_TOP
from kvrm.memory import PAGE, Memory, Prot
from linux_tools import (
    DYN,
    EXEC,
    INTERP,
    PHDR,
    RET,
    STACK,
    Elf,
    Guest,
    R,
    Segment,
    W,
    X,
)

SLOWEST = 2.0
"""Seconds that no file may take, on a busy machine; sound ones take milliseconds."""

BAD = {
    "empty": (b"", "empty"),
    "script": (b"#!/bin/sh\n", "a script"),
    "text": (b"hello", "not an ELF file"),
    "header only in part": (b"\x7fELF\2\1\1".ljust(40, b"\0"), "truncated"),
    "32-bit": (Elf(ident=b"\x7fELF\1\1\1").data(), "32-bit and little-endian"),
    "big-endian": (Elf(ident=b"\x7fELF\2\2\1").data(), "64-bit and big-endian"),
    "no class": (Elf(ident=b"\x7fELF\0\0\0").data(), "of an unknown class"),
    "x86-64": (Elf(machine=62).data(), "for x86-64, not for AArch64"),
    "unknown machine": (Elf(machine=999).data(), "for machine 999"),
    "object file": (Elf(kind=1).data(), "an object file"),
    "core dump": (Elf(kind=4).data(), "a core dump"),
    "unknown type": (Elf(kind=77).data(), "ELF type 77"),
    "header size": (Elf(phentsize=32).data(), "program headers of 32 bytes"),
    "no headers": (Elf(phnum=0).data(), "0 program headers"),
    "too many headers": (Elf(phnum=0xFFFF).data(), "65535 program headers"),
    "headers beyond the end": (Elf(phoff=0xFFFF_FFFF_FFFF_FFF0).data(), "truncated"),
    "headers past the file": (Elf(phnum=200).data(), "truncated"),
    "nothing to load": (Elf([Segment(kind=4)]).data(), "no segment to load"),
    "file smaller": (Elf([Segment(filesz=0x2000)]).data(), "truncated"),
    "offset overflow": (Elf([Segment(offset=-0x1000)]).data(), "truncated"),
    "memory smaller than file": (Elf([Segment(memsz=0x10)]).data(), "0x1000 bytes in the file but 0x10"),
    "huge": (Elf([Segment(memsz=1 << 62)]).data(), "39-bit address space"),
    "wraps": (Elf([Segment(vaddr=(1 << 64) - 0x1000)]).data(), "39-bit address space"),
    "in the stack": (
        Elf([Segment(vaddr=STACK_BASE, memsz=0x1000)], entry=STACK_BASE).data(),
        "below the stack",
    ),
    "first page": (Elf([Segment(vaddr=0)], entry=0x800).data(), "first page"),
    "alignment": (Elf([Segment(align=3)]).data(), "power of two"),
    "huge alignment": (Elf([Segment(align=1 << 63)]).data(), "power of two"),
    "not congruent": (Elf([Segment(vaddr=0x400010, filesz=0xF00)]).data(), "not the same offset in a page"),
    "overlap": (Elf([Segment(), Segment(vaddr=0x400000, flags=R | W)]).data(), "overlap"),
    "overlap by size": (Elf([Segment(memsz=0x3000), Segment(vaddr=0x402000)]).data(), "overlap"),
    "entry outside": (Elf(entry=0x500000).data(), "entry point 0x500000"),
    "entry not executable": (Elf([Segment(flags=R | W)]).data(), "entry point"),
    "entry not aligned": (Elf(entry=0x400802).data(), "entry point"),
    "interpreter name": (Elf([Segment(), Segment(kind=INTERP, offset=0x900, filesz=4)]).data(), "damaged"),
    "interpreter with bytes that do not print": (
        Elf(
            [Segment(), Segment(kind=INTERP, offset=0x900, filesz=9)], patches={0x900: b"/\xff\n\x1b\0ab\n\0"}
        ).data(),
        r"the dynamic linker /\udcff\n\x1b)",
    ),
    "interpreter name too long": (
        Elf([Segment(), Segment(kind=INTERP, offset=0, filesz=4097)], size=0x2000).data(),
        "damaged",
    ),
    "interpreter beyond": (Elf([Segment(), Segment(kind=INTERP, offset=1 << 60)]).data(), "damaged"),
}


def _start(data: bytes, **options: object) -> tuple[Memory, State]:
    memory, state = Memory(), State()
    boot(memory, state, program=data, **options).start()  # type: ignore[arg-type]
    return memory, state


@pytest.mark.parametrize(("data", "reason"), BAD.values(), ids=BAD.keys())
def test_what_is_wrong_is_said_in_one_line(data: bytes, reason: str) -> None:
    began = time.process_time()
    with pytest.raises(ProgramError) as caught:
        _start(data)
    assert reason in str(caught.value)
    assert str(caught.value).startswith("program: ") or str(caught.value).startswith("/program: ")
    assert str(caught.value).isprintable()
    assert time.process_time() - began < SLOWEST


def test_dynamic_programs_are_refused() -> None:
    name = b"/lib/ld-linux-aarch64.so.1\0"
    segments = [Segment(), Segment(kind=INTERP, offset=0x900, filesz=len(name))]
    with pytest.raises(ProgramError, match=r"dynamic programs are not supported yet.*ld-linux-aarch64"):
        _start(Elf(segments, patches={0x900: name}).data())


@pytest.mark.parametrize("kind", [EXEC, DYN])
def test_an_interpreter_with_fixed_addresses_is_loaded_from_the_root(tmp_path: Path, kind: int) -> None:
    """As klibc's programs ask for; the position-independent linkers of other libraries come later."""
    name = b"/lib/interp.so\0"
    (tmp_path / "lib").mkdir()
    linker = Elf([Segment(vaddr=0x200000)], kind=kind, entry=0x200400)
    (tmp_path / "lib/interp.so").write_bytes(linker.data())
    segments = [Segment(), Segment(kind=INTERP, offset=0x900, filesz=len(name))]
    program = Elf(segments, patches={0x900: name}).data()
    if kind == DYN:
        with pytest.raises(ProgramError, match="dynamic programs are not supported yet"):
            _start(program, root=tmp_path)
        return
    memory, state = _start(program, root=tmp_path)
    assert state.pc == 0x200400
    assert {region.start for region in memory.regions()} >= {0x200000, 0x400000}
    assert _auxv(memory, state.sp)[9] == 0x400800


@pytest.mark.parametrize("path", ["nosuch", "."])
def test_a_program_must_be_a_regular_file(tmp_path: Path, path: str) -> None:
    with pytest.raises(ProgramError, match=r"no such file|not a regular file"):
        boot(Memory(), State(), program=tmp_path / path)


def test_segments_are_mapped_as_the_headers_say() -> None:
    text = Segment(filesz=0x1000)
    data = Segment(flags=R | W, offset=0x1000, vaddr=0x411000, filesz=0x500, memsz=0x3000)
    image = Elf([text, data], size=0x2000, patches={0x1000: b"data", 0x14FF: b"Z!"}).data()
    memory, state = _start(image)
    assert state.pc == 0x400800
    assert memory.read(0x400000, 4) == b"\x7fELF"
    assert memory.read(0x411000, 4) == b"data"
    assert memory.read(0x4114FF, 2) == b"Z\0"  # what follows in the file is not part of the segment
    assert memory.read(0x411500, 0x2B00) == bytes(0x2B00)
    prots = {region.start: region.prot for region in memory.regions()}
    assert prots[0x400000] == Prot.R | Prot.X
    assert prots[0x411000] == Prot.R | Prot.W
    assert prots[STACK_BASE] == Prot.R | Prot.W


@pytest.mark.parametrize(("vaddr", "align"), [(0, 0x1000), (0, 0x10000), (0x7000, 0x1000), (0, 1 << 30)])
def test_position_independent_programs_go_to_the_fixed_base(vaddr: int, align: int) -> None:
    segment = Segment(vaddr=vaddr, memsz=0x5000, align=align)
    memory, state = _start(Elf([segment], kind=DYN, entry=vaddr + 0x800, patches={0x800: RET}).data())
    base = PIE_BASE & -align
    assert state.pc == base + 0x800
    assert memory.read(state.pc, 4) == RET
    assert _auxv(memory, state.sp)[3] == base + 64


def test_a_giant_segment_costs_nothing() -> None:
    began = time.process_time()
    memory, _ = _start(Elf([Segment(memsz=1 << 36)]).data())
    assert memory.private_bytes < 64 * PAGE
    assert time.process_time() - began < SLOWEST


def test_the_stack_is_executable_only_if_asked_for() -> None:
    for flags, prot in ((R | W, Prot.R | Prot.W), (R | W | X, Prot.R | Prot.W | Prot.X)):
        memory, _ = _start(Elf([Segment(), Segment(kind=STACK, flags=flags, filesz=0)]).data())
        assert {region.start: region.prot for region in memory.regions()}[STACK_BASE] == prot


def _auxv(memory: Memory, sp: int) -> dict[int, int]:
    count = struct.unpack("<Q", memory.read(sp, 8))[0]
    at = sp + 8 * (count + 2)
    while memory.read(at, 8) != bytes(8):
        at += 8
    vector = {}
    while True:
        at += 8
        key, value = struct.unpack("<QQ", memory.read(at, 16))
        at += 8
        if not key:
            return vector
        vector[key] = value


def test_arguments_environment_and_auxiliary_vector(tmp_path: Path) -> None:
    segments = [Segment(kind=PHDR, offset=64, vaddr=0x400040, filesz=112), Segment()]
    guest = Guest(
        tmp_path, program=Elf(segments).data(), args=["one", b"\xff", ""], env={"A": "1", "B": "two"}, seed=7
    )
    memory, sp = guest.memory, guest.state.sp
    assert sp % 16 == 0
    assert STACK_BASE < sp < STACK_TOP
    (count,) = struct.unpack("<Q", memory.read(sp, 8))
    pointers = struct.unpack(f"<{count + 4}Q", memory.read(sp + 8, 8 * (count + 4)))
    assert [memory.read_cstring(p) for p in pointers[:count]] == [b"program", b"one", b"\xff", b""]
    assert pointers[count] == 0
    assert [memory.read_cstring(p) for p in pointers[count + 1 : count + 3]] == [b"A=1", b"B=two"]
    vector = _auxv(memory, sp)
    process = guest.process
    uid, gid = process.credentials.uid, process.credentials.gid
    expected = {3: 0x400040, 4: 56, 5: 2, 6: 4096, 7: 0, 8: 0, 9: 0x400800, 17: 100, 23: 0}
    expected |= {11: uid, 12: uid, 13: gid, 14: gid}
    assert {key: vector[key] for key in expected} == expected
    assert memory.read_cstring(vector[15]) == b"aarch64"
    assert memory.read_cstring(vector[31]) == b"/program"
    assert 33 not in vector  # no vDSO
    other = Guest(tmp_path, program=Elf(segments).data(), seed=8)
    same = Guest(tmp_path, program=Elf(segments).data(), seed=7)
    random_bytes = memory.read(vector[25], 16)
    assert random_bytes != other.memory.read(_auxv(other.memory, other.state.sp)[25], 16)
    assert random_bytes == same.memory.read(_auxv(same.memory, same.state.sp)[25], 16)


def test_features_of_the_processor_are_announced(tmp_path: Path) -> None:
    guest = Guest(tmp_path, features=frozenset({"FEAT_CRC32", "FEAT_BF16"}))
    vector = _auxv(guest.memory, guest.state.sp)
    assert (vector[16], vector[26]) == (1 << 0 | 1 << 1 | 1 << 7 | 1 << 11, 1 << 14)
    assert b"Features\t: fp asimd crc32 cpuid bf16\n" in guest.contents("/proc/cpuinfo")  # type: ignore[operator]


def test_too_many_arguments_are_refused() -> None:
    with pytest.raises(ProgramError, match="argument list too long"):
        _start(Elf().data(), args=["x" * ARGUMENT_LIMIT])


def test_a_program_that_exceeds_the_memory_limit_is_refused() -> None:
    process = boot(Memory(0), State(), program=Elf().data())
    with pytest.raises(ProgramError, match="does not fit"):
        process.start()


@pytest.mark.parametrize("seed", range(4))
def test_mutations_load_or_give_one_line(examples: Path, seed: int) -> None:
    """1,500 mutations each: cut, flipped, or with hostile numbers in the headers."""
    sound = (examples / "hello").read_bytes()
    generator = random.Random(seed)
    loaded = 0
    for _ in range(1500):
        data = _mutated(sound, generator)
        began = time.process_time()
        try:
            memory, state = _start(data)
        except ProgramError as error:
            assert "\n" not in str(error)
        else:
            loaded += 1
            assert memory.private_bytes < 1 << 20
            assert all(region.end <= 1 << 39 for region in memory.regions())
            assert state.pc < MMAP_TOP
            memory.close()
        assert time.process_time() - began < SLOWEST, f"seed {seed}"
    assert 0 < loaded < 1500


def _mutated(sound: bytes, generator: random.Random) -> bytes:
    data = bytearray(sound)
    match generator.randrange(3):
        case 0:
            return bytes(data[: generator.randrange(len(data))])
        case 1:
            for _ in range(generator.choice([1, 2, 8, 64])):
                bit = generator.randrange(8 * min(len(data), generator.choice([64, 300, len(data)])))
                data[bit // 8] ^= 1 << bit % 8
        case _:
            headers = 64 + 56 * min(data[56], 8)
            for _ in range(generator.choice([1, 1, 3])):
                size = generator.choice([2, 4, 8])
                at = generator.randrange(16, headers - size) & -size
                hostile = [0, 1, 0xFFF, 0x1000, 1 << 31, 1 << 38, 1 << 39, 1 << 62, 1 << 63, -1, -0x1000]
                value = generator.choice([*hostile, generator.getrandbits(64)]) & (1 << 8 * size) - 1
                data[at : at + size] = value.to_bytes(size, "little")
    return bytes(data)
