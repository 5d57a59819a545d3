"""What a process starts with: its program, the files that it may see, its interpreter."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvrm.errors import ProgramError, UsageError
from kvrm.linux.clock import EPOCH
from kvrm.linux.elf import Executable, parse
from kvrm.linux.errno import Failure
from kvrm.linux.files.content import Budget, Content
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.etc import add_etc
from kvrm.linux.files.file import File
from kvrm.linux.files.filesystem import FileSystem
from kvrm.linux.files.host import HostTree, Location
from kvrm.linux.files.paths import Credentials, resolve
from kvrm.linux.files.synthetic import add_devices, add_kernel
from kvrm.linux.layout import BILLION, Stat

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_INTERPRETER_LIMIT: Final = 64 << 20


@dataclass(frozen=True)
class Program:
    """An executable: argv[0], absolute path, contents and node; `known_as` are the paths that show it."""

    name: bytes
    path: bytes
    data: bytes
    node: File
    known_as: tuple[bytes, ...]

    @cached_property
    def digest(self) -> str:
        """What tells the program's file from others."""
        return blake2b(self.data, digest_size=16).hexdigest()


def find_program(program: str | bytes | Path) -> Program:
    """Read a program from a path, or take its bytes. Raises ProgramError if there is no such regular file."""
    if isinstance(program, bytes):
        return _from_bytes(program)
    name = os.fspath(program)
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):
            raise ProgramError(f"{name}: not a regular file")
        real, absolute = os.path.realpath(name), os.path.abspath(name)
        data = Path(real).read_bytes()
        directory, base = os.path.split(real)
        node = File(None, Location(HostTree.at(directory), (os.fsencode(base),)))
    except OSError as error:
        raise ProgramError(f"{name}: {(error.strerror or str(error)).lower()}") from None
    except ValueError:
        raise ProgramError(f"{name!r}: not a file name") from None
    paths = (os.fsencode(real), os.fsencode(absolute))
    return Program(os.fsencode(name), paths[0], data, node, paths)


def _from_bytes(data: bytes) -> Program:
    content = Content(Budget(len(data) * 2 + 4096))
    content.write(data, 0, None)
    status = Stat(0, 1, stat.S_IFREG | 0o555, size=len(data), blocks=(len(data) + 511) // 512)
    return Program(b"program", b"/program", data, File(status, content=content), (b"/program",))


def make_files(
    program: Program,
    owner: Credentials,
    pid: int,
    root: Path | str | None,
    rw: Path | str | None,
    cwd: Path | str | None,
    limit: int,
) -> tuple[FileSystem, Directory]:
    """The name space of a new process, and its current directory.

    Raises UsageError if a directory cannot be used.
    """
    files = FileSystem(limit, owner.uid, owner.gid, EPOCH * BILLION)
    files.shown.program = program.node.where
    files.root.meta = Stat.of_host(os.stat("/"))
    here = _real_directory(cwd if cwd is not None else os.curdir)
    try:
        if root is not None:
            files.show_root(_real_directory(root))
        for path, host in _writable_paths(root, rw):
            files.show_directory(os.fsencode(path), host, writable=True)
        files.show_directory(os.fsencode(here), here, writable=False)
        for name in program.known_as:
            files.show_file(name, program.node)
        add_devices(files)
        add_kernel(files, pid)
        files.ensure_directory(b"tmp", 0o1777)
        if root is None:
            add_etc(files)
        return files, files.ancestor(os.fsencode(here))
    except OSError as error:
        raise UsageError(f"{error.filename or here}: {(error.strerror or str(error)).lower()}") from None


def _real_directory(path: Path | str) -> str:
    try:
        real = os.path.realpath(path)
        is_directory = os.path.isdir(real)
    except ValueError:
        real, is_directory = str(path), False
    if not is_directory:
        raise UsageError(f"{path}: not a directory")
    return real


def _writable_paths(root: Path | str | None, rw: Path | str | None) -> list[tuple[str, str]]:
    """Guest path and host path of the writable directory: below the root it has two names."""
    if rw is None:
        return []
    host = _real_directory(rw)
    names = [(host, host)]
    if root is not None:
        top = _real_directory(root)
        if os.path.commonpath([top, host]) == top:
            names.append(("/" + os.path.relpath(host, top), host))
    return names


def find_interpreter(process: Process, program: Executable) -> Executable | None:
    """The interpreter that a program asks for (PT_INTERP), if it is one with fixed addresses, as klibc's is.

    Raises ProgramError for the dynamic linker of other C libraries.
    """
    if program.interpreter is None:
        return None
    name = os.fsdecode(process.argv[0])
    asked = os.fsdecode(program.interpreter)
    refusal = f"{name}: dynamic programs are not supported yet (it asks for the dynamic linker {asked})"
    try:
        node = resolve(process, process.kernel.files.root, program.interpreter).node
        data = node.read(_INTERPRETER_LIMIT, 0) if isinstance(node, File) else b""
    except (Failure, OSError):
        data = b""
    if not data:
        raise ProgramError(refusal)
    interpreter = parse(data, asked)
    if interpreter.position_independent or interpreter.interpreter is not None:
        raise ProgramError(refusal)
    return interpreter
