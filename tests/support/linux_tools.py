"""A Linux process without an engine, and ELF files made to order."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvrm.lane.state import State
from kvrm.linux import Outcome
from kvrm.linux.boot import boot
from kvrm.linux.syscall_table import TABLE
from kvrm.memory import Memory, Prot

NUMBERS = {row.name: number for number, row in TABLE.items()}
AT_FDCWD = -100
SCRATCH = 0x1000_0000
SCRATCH_SIZE = 1 << 20
BUFFER = SCRATCH + SCRATCH_SIZE // 2
NOWHERE = 0x2000_0000
U64 = (1 << 64) - 1
RDONLY, WRONLY, RDWR, CREAT, EXCL, TRUNC, APPEND = 0, 1, 2, 0o100, 0o200, 0o1000, 0o2000
DIRECTORY, NOFOLLOW, PATH, TMPFILE = 0o40000, 0o100000, 0o10000000, 0o20040000
NOFOLLOW_STAT, REMOVEDIR = 0x100, 0x200
RET = bytes.fromhex("c0035fd6")

EXEC, DYN = 2, 3
LOAD, INTERP, PHDR, STACK = 1, 3, 6, 0x6474E551
R, W, X = 4, 2, 1


@dataclass
class Segment:
    """A program header; `align` and `memsz` default to a page and to the size in the file."""

    kind: int = LOAD
    flags: int = R | X
    offset: int = 0
    vaddr: int = 0x400000
    filesz: int = 0x1000
    memsz: int | None = None
    align: int = 0x1000

    def packed(self) -> bytes:
        memsz = self.filesz if self.memsz is None else self.memsz
        fields = (self.offset, self.vaddr, self.vaddr, self.filesz, memsz, self.align)
        return struct.pack("<IIQQQQQQ", self.kind, self.flags, *(value & U64 for value in fields))


@dataclass
class Elf:
    """An executable whose headers say what one wants; `body` follows them up to `size` bytes."""

    segments: list[Segment] = field(default_factory=lambda: [Segment()])
    kind: int = EXEC
    entry: int = 0x400800
    size: int = 0x1000
    ident: bytes = b"\x7fELF\2\1\1"
    machine: int = 183
    phoff: int = 64
    phentsize: int = 56
    phnum: int | None = None
    patches: dict[int, bytes] = field(default_factory=dict)

    def data(self) -> bytes:
        phnum = len(self.segments) if self.phnum is None else self.phnum
        header = self.ident.ljust(16, b"\0") + struct.pack(
            "<HHIQQQIHHHHHH",
            *(self.kind, self.machine, 1, self.entry, self.phoff, 0, 0, 64, self.phentsize, phnum, 64, 0, 0),
        )
        data = bytearray((header + b"".join(s.packed() for s in self.segments)).ljust(self.size, b"\xaa"))
        for offset, patch in self.patches.items():
            data[offset : offset + len(patch)] = patch
        return bytes(data)


class Guest:
    """A started process whose system calls a test makes by name.

    Strings and bytes given as arguments are put into guest memory (with a zero byte after them), and results
    are signed. `BUFFER` has half a MiB of room.
    """

    def __init__(self, cwd: Path, **options: Any) -> None:
        self.memory = Memory()
        self.state = State()
        options.setdefault("program", Elf().data())
        self.process = boot(self.memory, self.state, cwd=cwd, **options)
        self.process.start()
        self.memory.map(SCRATCH, SCRATCH_SIZE, Prot.R | Prot.W)
        self.retired = 0

    def buffer_is_there(self) -> bool:
        """Whether the guest left the memory alone that tests use."""
        mapped = (SCRATCH, SCRATCH + SCRATCH_SIZE, Prot.R | Prot.W)
        return any((region.start, region.end, region.prot) == mapped for region in self.memory.regions())

    def attempt(self, name: str | int, *arguments: int | str | bytes) -> Outcome | None:
        """Make a call; why it ends the run, if it does."""
        place = SCRATCH
        self.state.x[8] = NUMBERS[name] if isinstance(name, str) else name
        for index, argument in enumerate(arguments):
            if not isinstance(argument, int):
                text = argument.encode() if isinstance(argument, str) else argument
                self.memory.write(place, text + b"\0")
                argument, place = place, place + len(text) + 1
            self.state.x[index] = argument & U64
        return self.process.syscall(self.retired)

    def call(self, name: str | int, *arguments: int | str | bytes) -> int:
        """Make a call that returns; its result, negative for an error."""
        outcome = self.attempt(name, *arguments)
        assert outcome is None, outcome
        result = self.state.x[0]
        return result - (1 << 64) if result >> 63 else result

    def bytes(self, length: int, address: int = BUFFER) -> bytes:
        """What is in guest memory."""
        return self.memory.read(address, length)

    def unpack(self, layout: str, address: int = BUFFER) -> tuple[Any, ...]:
        """A structure in guest memory."""
        return struct.unpack(layout, self.memory.read(address, struct.calcsize(layout)))

    def open(self, path: str | bytes, flags: int = 0, mode: int = 0o666) -> int:
        """openat from the current directory."""
        return self.call("openat", AT_FDCWD, path, flags, mode)

    def contents(self, path: str | bytes) -> bytes | int:
        """The bytes of a file (at most half a MiB), or the error of opening it."""
        fd = self.open(path)
        if fd < 0:
            return fd
        length = self.call("read", fd, BUFFER, SCRATCH_SIZE // 2)
        self.call("close", fd)
        return self.bytes(length) if length >= 0 else length

    def put(self, path: str | bytes, data: bytes, flags: int = 0o1101) -> int:
        """Write a file (default: O_WRONLY | O_CREAT | O_TRUNC); bytes written, or the error."""
        fd = self.open(path, flags)
        if fd < 0:
            return fd
        self.memory.write(BUFFER, data)
        written = self.call("write", fd, BUFFER, len(data))
        self.call("close", fd)
        return written

    def names(self, path: str | bytes = ".") -> list[bytes] | int:
        """The entries of a directory, or the error of opening it."""
        fd = self.open(path, 0o40000)
        if fd < 0:
            return fd
        found = []
        while (length := self.call("getdents64", fd, BUFFER, 512)) > 0:
            records = self.bytes(length)
            while records:
                size, _ = struct.unpack_from("<HB", records, 16)
                found.append(records[19:size].split(b"\0")[0])
                records = records[size:]
        self.call("close", fd)
        return found if length == 0 else length

    def stat(self, path: str | bytes, flags: int = 0) -> tuple[Any, ...] | int:
        """(dev, ino, mode, nlink, uid, gid, rdev, size, blksize, blocks, mtime), or the error."""
        result = self.call("newfstatat", AT_FDCWD, path, BUFFER, flags)
        if result < 0:
            return result
        fields = self.unpack("<QQIIIIQQqiiqQQQQQQ")
        return (*fields[:7], fields[8], fields[9], fields[11], fields[14])


def make_tree(directory: Path) -> Path:
    """A current directory for a guest, next to a secret that it must not see."""
    (directory / "secret").write_text("secret")
    here = directory / "here"
    (here / "sub/deep").mkdir(parents=True)
    (here / "file").write_bytes(b"contents")
    (here / "sub/inner").write_bytes(b"inner")
    (here / "link").symlink_to("file")
    (here / "dirlink").symlink_to("sub")
    (here / "up").symlink_to("../secret")
    (here / "absolute").symlink_to(directory / "secret")
    (here / "within").symlink_to(here / "sub/inner")
    (here / "loop").symlink_to("loop")
    os.mkfifo(here / "fifo")
    return here


def state_of(directory: Path) -> list[tuple[object, ...]]:
    """All that can be seen of a tree, but times of access."""
    found = []
    for top, directories, files in os.walk(directory):
        for name in directories + files:
            st = os.lstat(os.path.join(top, name))
            times = (st.st_mtime_ns, st.st_ctime_ns)
            found.append((top, name, st.st_ino, st.st_mode, st.st_nlink, st.st_size, *times))
    return sorted(found)
