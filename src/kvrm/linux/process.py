"""A Linux process as the guest sees it: memory, files, clock, signals, and the door to the system calls."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from kvrm.arguments import encoded
from kvrm.isa.features import CORTEX_A76, hwcaps
from kvrm.linux import abi
from kvrm.linux.calls.numa import NO_POLICY
from kvrm.linux.calls.prctl import Controls
from kvrm.linux.calls.sched import Scheduling
from kvrm.linux.calls.seccomp import Seccomp, refused
from kvrm.linux.clock import EPOCH, LATEST
from kvrm.linux.elf import parse
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.locks import Ranges
from kvrm.linux.files.mqueue import QueueNames
from kvrm.linux.files.nodes import Node
from kvrm.linux.files.open_file import Descriptor, OpenFile
from kvrm.linux.files.paths import Credentials
from kvrm.linux.files.socket_names import BoundSockets
from kvrm.linux.files.streams import BytesInput, input_stream, output_stream
from kvrm.linux.files.watches import Watches
from kvrm.linux.layout import BILLION, TIMESPEC, U64, FileId
from kvrm.linux.lent import Answering, Lent
from kvrm.linux.loader import Identity, Loaded, load, require_room
from kvrm.linux.mapped import Mapped, follow_sizes
from kvrm.linux.names import name_of as call_name
from kvrm.linux.outcome import Finish, Outcome
from kvrm.linux.resource_limits import initial_limit
from kvrm.linux.setup import find_interpreter, find_program, make_files
from kvrm.linux.signals import Signals
from kvrm.linux.syscall_table import TABLE, Syscall
from kvrm.linux.sysv import Ipc
from kvrm.linux.timers import Timers
from kvrm.linux.trace import shown_call, shown_result
from kvrm.linux.user_state import State
from kvrm.memory import GuestFault, Image, Memory
from kvrm.observe.switches import trace_switch
from kvrm.streams import Closed

if TYPE_CHECKING:
    from kvrm.linux.snapshot import Snapshot
    from kvrm.linux.storing import StoredProcess

PID: Final = 1000
OVERLAY_LIMIT: Final = 256 << 20

Text = str | bytes


class Process:
    """One guest process.

    `program` is a path, or the bytes of an ELF file. `args` follow argv[0], which is the path as given. `env`
    None is an empty environment. `stdin` None is empty, bytes are its content, a binary stream is used as it
    is (by its descriptor, unbuffered, if it has one). `stdout` and `stderr` None are captured in the
    bytearrays of these names. The guest sees files below `root` (if given) at `/`, and the directory `cwd`
    (the host's current one if None) at its own path; its changes stay in memory, at most `overlay_limit`
    bytes, except below `rw`. `seed` decides all random bytes, `features` are those of
    the processor (`kvrm.isa.features`).

    Time is virtual: one nanosecond for each instruction retired, and sleeping skips it. The same arguments
    and files give the same run.

    Raises ProgramError if the program cannot be loaded, UsageError if a directory cannot be used.
    """

    def __init__(
        self,
        memory: Memory,
        state: State,
        *,
        program: Text | Path,
        args: Sequence[Text] = (),
        env: Mapping[str, str] | Mapping[bytes, bytes] | None = None,
        stdin: bytes | BinaryIO | Closed | None = None,
        stdout: BinaryIO | Closed | None = None,
        stderr: BinaryIO | Closed | None = None,
        root: Path | str | None = None,
        rw: Path | str | None = None,
        cwd: Path | str | None = None,
        seed: int = 0,
        features: frozenset[str] = CORTEX_A76,
        overlay_limit: int = OVERLAY_LIMIT,
    ) -> None:
        self.memory = memory
        self.state = state
        self.retired = 0
        self.skipped = 0
        self.pid = PID
        self.umask = 0o022
        self.personality: int = 0
        self.limits: dict[int, tuple[int, int]] = {}
        self.locked: dict[FileId, Ranges] = {}
        self.heap_start = self.heap_end = 0
        self.robust_list = 0
        self.locks_future = False
        self.controls: Controls = Controls()
        self.scheduling: Scheduling = Scheduling()
        self.seccomp: Seccomp = Seccomp()
        self.memory_policy, self.barriers = NO_POLICY, 0
        self.mapped: dict[Image, Mapped] = {}
        self.random = Random(seed)
        self.signals = Signals()
        self.timers, self.ipc, self.mqueues = Timers(), Ipc(), QueueNames()
        self.sockets, self.watches = BoundSockets(), Watches()
        self.refused: tuple[str, ...] = ()
        self.credentials = Credentials(os.getuid(), os.getgid(), frozenset(os.getgroups()))
        self.stdout, self.stderr = bytearray(), bytearray()
        self._program = find_program(program)
        self.argv: list[bytes] = [self._program.name, *(encoded("args", text) for text in args)]
        self.envp: list[bytes] = [
            encoded("env", key) + b"=" + encoded("env", value) for key, value in (env or {}).items()
        ]
        self.name: bytes = self._program.name.rsplit(b"/", 1)[-1][:15]
        self.program_path: bytes = self._program.path
        """Absolute path of the program, as /proc/self/exe shows it."""
        self.files, self.cwd = make_files(self, self._program, root, rw, cwd, overlay_limit)
        self.shown: Final = self.files.shown
        self.streams: Final = [input_stream(stdin), output_stream(stdout, 1), output_stream(stderr, 2)]
        """Standard input, output and error as they were given; None: closed."""
        self.descriptors = {
            number: Descriptor(stream) for number, stream in enumerate(self.streams) if stream is not None
        }
        self.features = features
        topics, start = trace_switch()
        self._trace_from = start if "sys" in topics else None
        self.loaded: Loaded = Loaded(0, 0, 0, b"")
        self.lent = Lent(state.words)

    # Running

    def lend(self, make: Callable[[int, int], Answering]) -> None:
        """From now on, have native code answer some calls, as `Lent` does, unless they are to be printed."""
        if self._trace_from is None:
            self.lent = Lent(self.state.words, make)

    def start(self) -> None:
        """Load the program, and set pc and sp to its first instruction and stack."""
        executable = parse(self._program.data, os.fsdecode(self._program.name))
        interpreter = find_interpreter(self, executable)
        user, group = self.credentials.uid, self.credentials.gid
        identity = Identity(user, group, *hwcaps(self.features), self.random_bytes(16))
        self.loaded = load(
            self.memory, executable, interpreter, self.argv, self.envp, self._program.path, identity
        )
        self.heap_start = self.heap_end = self.loaded.heap
        self.state.pc, self.state.sp = self.loaded.entry, self.loaded.sp

    def twin(self, memory: Memory, state: State) -> Process:
        """A process of the same program in other memory, for a snapshot to be restored to before it runs."""
        other = copy(self)
        other.memory, other.state, other.lent = memory, state, Lent(state.words)
        other.stdout, other.stderr, other.random = bytearray(), bytearray(), Random()
        return other

    def refill(self, data: bytes) -> None:
        """Replace what standard input still holds, if it is from bytes."""
        for descriptor in self.descriptors.values():
            if isinstance(descriptor.file, BytesInput):
                descriptor.file.refill(data)

    def set_arguments(self, args: Sequence[Text]) -> None:
        """Other arguments for a program that has not run yet; errors are those of `arguments`."""
        assert self.loaded.stack is not None
        self.argv = self.arguments(args)
        sp, auxv = self.loaded.stack.build(self.memory, self.argv, self.envp)
        self.loaded = replace(self.loaded, sp=sp, auxv=auxv)
        self.state.sp = sp

    def arguments(self, args: Sequence[Text]) -> list[bytes]:
        """What argv is with these arguments. UsageError or ProgramError if the program cannot have them."""
        argv = [self._program.name, *(encoded("args", text) for text in args)]
        require_room(argv, self.envp, self.program_path)
        return argv

    def syscall(self, retired: int) -> Outcome | None:
        """Do the system call that x8 and x0 to x5 ask for, after `retired` instructions; its result is in x0.

        Returns why the run ends, or None if it goes on. KeyboardInterrupt and OutOfMemory pass through.
        """
        if (over := self.expire(retired)) is not None:
            return over
        words = self.state.words
        self.files.now = self.realtime
        number = words[8] & 0xFFFFFFFF
        call = TABLE.get(number)
        traced = self._trace_from is not None and retired >= self._trace_from
        line = shown_call(self, call, number, words) if traced else ""
        try:
            result = self._call(call, number, words)
        except Finish as finish:
            if traced:
                sys.stderr.write(f"{line} = ?\n")
            return finish.outcome
        if self.mapped:
            follow_sizes(self)
        if traced:
            sys.stderr.write(f"{line} = {shown_result(result)}\n")
        words[0] = result & U64
        over = self.expire(retired)
        self.lent.begin(self)
        return over

    @property
    def due(self) -> int | None:
        """The count of retired instructions at which a timer expires and `expire` must be called, if any."""
        return self.timers.due(self)

    def expire(self, retired: int) -> Outcome | None:
        """Let timers expire that are due after `retired` instructions; why the run ends, if it does."""
        self.retired = retired
        self.lent.end(self)
        try:
            self.timers.expire(self)
        except Finish as finish:
            return finish.outcome
        return None

    def _call(self, call: Syscall | None, number: int, words: Any) -> int:
        if self.seccomp and (result := refused(self, number, words)) is not None:
            return result
        if call is None:
            return self._refuse(call_name(number))
        try:
            return call.handler(self, *call.decode(words))
        except Failure as failure:
            return self._refuse(call.name) if failure.errno == Errno.ENOSYS else -failure.errno
        except GuestFault:
            return -Errno.EFAULT
        except OSError as error:
            return -(error.errno or Errno.EIO)
        except MemoryError:
            return -Errno.ENOMEM

    def _refuse(self, name: str) -> int:
        """ENOSYS, noted with the call's name to tell why the program ended."""
        if name not in self.refused and name not in _DISPENSABLE:
            self.refused += (name,)
        return -Errno.ENOSYS

    @property
    def strings(self) -> tuple[int, int, int]:
        """The addresses of the arguments, of the environment, and where that ends."""
        stack = self.loaded.stack
        return (0, 0, 0) if stack is None else stack.strings(self.argv, self.envp)

    # Time

    @property
    def uptime(self) -> int:
        """CLOCK_MONOTONIC, in nanoseconds."""
        return self.retired + self.skipped

    @property
    def realtime(self) -> int:
        """CLOCK_REALTIME, in nanoseconds."""
        return EPOCH * BILLION + self.retired + self.skipped

    def skip_to(self, time: int) -> None:
        """Let time pass without an instruction, up to a time of the monotonic clock or `LATEST`."""
        self.skipped = max(self.skipped, min(time, LATEST) - self.retired)

    def timespec(self, pointer: int) -> int:
        """The struct timespec at a guest address, in nanoseconds; EINVAL if it is none."""
        seconds, ns = TIMESPEC.unpack(self.memory.read(pointer, TIMESPEC.size))
        if seconds < 0 or not 0 <= ns < BILLION:
            raise Failure(Errno.EINVAL)
        return int(seconds * BILLION + ns)

    def random_bytes(self, size: int) -> bytes:
        """The next `size` bytes of the seeded generator."""
        return self.random.randbytes(size)

    # Files

    def captured(self, number: int) -> bytes:
        """What went to standard output (1) or error (2) and was not given a stream; else b""."""
        return bytes(self.stdout if number == 1 else self.stderr)

    @cached_property
    def program_digest(self) -> str:
        """What tells the program's file from others."""
        return blake2b(self._program.data, digest_size=16).hexdigest()

    @property
    def program_node(self) -> Node:
        """The program's own file."""
        return self._program.node

    def file(self, fd: int) -> OpenFile:
        """The open file of a descriptor; EBADF if there is none, or if it only names a file (O_PATH)."""
        file = self.any_file(fd)
        if file.flags & abi.O_PATH:
            raise Failure(Errno.EBADF)
        return file

    def any_file(self, fd: int) -> OpenFile:
        """The open file of a descriptor, even one that only names a file (O_PATH); EBADF if there is none."""
        descriptor = self.descriptors.get(fd)
        if descriptor is None:
            raise Failure(Errno.EBADF)
        return descriptor.file

    def base(self, fd: int, path: bytes) -> Directory:
        """The directory that `path` starts from, if it is relative; `fd` may be AT_FDCWD."""
        if not path:
            raise Failure(Errno.ENOENT)
        if fd == abi.AT_FDCWD or path.startswith(b"/"):
            return self.cwd
        node = self.any_file(fd).node
        if not isinstance(node, Directory):
            raise Failure(Errno.ENOTDIR)
        return node

    def path(self, pointer: int) -> bytes:
        """The path at a guest address."""
        path = self.memory.read_cstring(pointer, abi.PATH_MAX)
        if len(path) >= abi.PATH_MAX:
            raise Failure(Errno.ENAMETOOLONG)
        return path

    def limit(self, resource: int) -> tuple[int, int]:
        """Soft and hard resource limit."""
        return self.limits.get(resource) or initial_limit(resource)

    def open(self, file: OpenFile, cloexec: bool = False, lowest: int = 0) -> int:
        """Give an open file the lowest free descriptor."""
        fd = self.free_descriptor(lowest)
        self.descriptors[fd] = Descriptor(file, cloexec)
        return fd

    def free_descriptor(self, lowest: int = 0) -> int:
        """The lowest descriptor from `lowest` on that is free; EMFILE if the limit allows none."""
        fd = lowest
        while fd in self.descriptors:
            fd += 1
        if fd >= self.limit(abi.RLIMIT_NOFILE)[0]:
            raise Failure(Errno.EMFILE)
        return fd

    def close(self, fd: int) -> None:
        """Free a descriptor, and its open file if that was the last."""
        file = self.any_file(fd)
        del self.descriptors[fd]
        self.unlock(file)
        self.let_go(file)

    @property
    def open_files(self) -> Iterable[OpenFile]:
        """Those that descriptors refer to, once each."""
        return dict.fromkeys(descriptor.file for descriptor in self.descriptors.values())

    def let_go(self, file: OpenFile) -> None:
        """Close an open file, unless a descriptor or a message still refers to it."""
        if file.sent or any(other.file is file for other in self.descriptors.values()):
            return
        self.watches.closed(self, file)
        file.closed(self)
        if file.queue is not None:
            file.queue.release(file)

    def unlock(self, file: OpenFile) -> None:
        """Give up the process's locks of a file, as any close of it does."""
        if self.locked and not file.flags & abi.O_PATH:
            self.locked.pop(file.stat().identity, None)

    # Snapshots

    def snapshot(self) -> Snapshot:
        """Everything but memory and registers, to return to; what the host was told already stays told."""
        from kvrm.linux.snapshot import take

        return take(self)

    def restore(self, snapshot: Snapshot | StoredProcess) -> None:
        """Return to a snapshot, any number of times.

        Raises UsageError, with nothing changed, for one from a pickle whose files are not there.
        """
        from kvrm.linux.snapshot import put_back
        from kvrm.linux.storing import StoredProcess, revived

        put_back(self, revived(snapshot, self) if isinstance(snapshot, StoredProcess) else snapshot)


_DISPENSABLE: Final = frozenset(["rseq"])
"""Calls that C libraries make in every program and do without: no program ended badly for one of them."""
