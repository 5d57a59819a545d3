"""A Linux process as the guest sees it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kvrm.arguments import encoded
from kvrm.isa.features import hwcaps
from kvrm.lane.state import State
from kvrm.linux import abi
from kvrm.linux.calls.prctl import Controls
from kvrm.linux.calls.seccomp import refused
from kvrm.linux.elf import parse
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.files.directory import Directory
from kvrm.linux.files.locks import Ranges
from kvrm.linux.files.open_file import Descriptor, OpenFile
from kvrm.linux.files.paths import Credentials
from kvrm.linux.files.streams import BytesInput
from kvrm.linux.layout import BILLION, TIMESPEC, U64, FileId
from kvrm.linux.lent import Answering, Lent
from kvrm.linux.loader import Identity, Loaded, load, require_room
from kvrm.linux.mapped import Mapped, follow_sizes
from kvrm.linux.names import name_of as call_name
from kvrm.linux.outcome import Finish, Outcome
from kvrm.linux.resource_limits import initial_limit
from kvrm.linux.setup import Program, find_interpreter
from kvrm.linux.signals import Signals
from kvrm.linux.syscall_table import TABLE, Syscall
from kvrm.linux.task import Task
from kvrm.linux.timers import Timers
from kvrm.linux.trace import shown_call, shown_result
from kvrm.linux.world import Kernel
from kvrm.memory import GuestFault, Image, Memory
from kvrm.observe.switches import trace_switch

if TYPE_CHECKING:
    from kvrm.linux.snapshot import Snapshot
    from kvrm.linux.storing import StoredProcess

Text = str | bytes


class Process:
    """One guest process: a memory, descriptors, what signals do, and the door to the system calls.

    `task` is the one that runs and makes calls; `kernel` is the world that the process lives in.
    """

    SAVED: Final = (
        "umask",
        "personality",
        "limits",
        "locked",
        "heap_start",
        "heap_end",
        "locks_future",
        "argv",
        "envp",
        "program_path",
        "loaded",
        "credentials",
        "refused",
        "controls",
        "barriers",
    )
    LINKED: Final = ("timers", "signals")

    def __init__(
        self,
        kernel: Kernel,
        task: Task,
        memory: Memory,
        program: Program,
        argv: list[bytes],
        envp: list[bytes],
        cwd: Directory,
        credentials: Credentials,
    ) -> None:
        self.kernel = kernel
        self.task = task
        self.memory = memory
        self.pid: Final = task.tid
        self.program: Final = program
        self.program_path: bytes = program.path
        """Absolute path of the program, as /proc/self/exe shows it."""
        self.argv, self.envp = argv, envp
        self.cwd = cwd
        self.credentials = credentials
        self.umask = 0o022
        self.personality: int = 0
        self.limits: dict[int, tuple[int, int]] = {}
        self.locked: dict[FileId, Ranges] = {}
        self.heap_start = self.heap_end = 0
        self.locks_future = False
        self.controls: Controls = Controls()
        self.barriers = 0
        self.mapped: dict[Image, Mapped] = {}
        self.signals = Signals()
        self.timers = Timers()
        self.refused: tuple[str, ...] = ()
        self.descriptors = {
            number: Descriptor(stream) for number, stream in enumerate(kernel.streams) if stream is not None
        }
        topics, start = trace_switch()
        self._trace_from = start if "sys" in topics else None
        self.loaded: Loaded = Loaded(0, 0, 0, b"")
        self.lent = Lent(task.state.words)

    # Running

    def lend(self, make: Callable[[int, int], Answering]) -> None:
        """From now on, have native code answer some calls, as `Lent` does, unless they are to be printed."""
        if self._trace_from is None:
            self.lent = Lent(self.task.state.words, make)

    def start(self) -> None:
        """Load the program, and set pc and sp to its first instruction and stack."""
        executable = parse(self.program.data, os.fsdecode(self.program.name))
        interpreter = find_interpreter(self, executable)
        user, group = self.credentials.uid, self.credentials.gid
        identity = Identity(user, group, *hwcaps(self.kernel.features), self.kernel.random_bytes(16))
        self.loaded = load(
            self.memory, executable, interpreter, self.argv, self.envp, self.program.path, identity
        )
        self.heap_start = self.heap_end = self.loaded.heap
        self.task.state.pc, self.task.state.sp = self.loaded.entry, self.loaded.sp

    def twin(self, memory: Memory, state: State) -> Process:
        """A process of the same program in other memory, for a snapshot to be restored to before it runs."""
        other = copy(self)
        other.kernel, other.task, other.memory = self.kernel.twin(), self.task.twin(state), memory
        other.lent = Lent(state.words)
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
        self.task.state.sp = sp

    def arguments(self, args: Sequence[Text]) -> list[bytes]:
        """What argv is with these arguments. UsageError or ProgramError if the program cannot have them."""
        argv = [self.program.name, *(encoded("args", text) for text in args)]
        require_room(argv, self.envp, self.program_path)
        return argv

    def syscall(self, retired: int) -> Outcome | None:
        """Do the system call that x8 and x0 to x5 ask for, after `retired` instructions; its result is in x0.

        Returns why the run ends, or None if it goes on. KeyboardInterrupt and OutOfMemory pass through.
        """
        if (over := self.expire(retired)) is not None:
            return over
        words = self.task.state.words
        self.kernel.files.now = self.kernel.realtime
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
        self.kernel.retired = retired
        self.lent.end(self)
        try:
            self.timers.expire(self)
        except Finish as finish:
            return finish.outcome
        return None

    def _call(self, call: Syscall | None, number: int, words: Any) -> int:
        if self.task.seccomp and (result := refused(self, number, words)) is not None:
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

    @property
    def pending_signals(self) -> int:
        """The mask of the signals that wait for the process or its task."""
        return self.task.pending.mask | self.signals.shared.mask

    # Time

    @property
    def cpu_time(self) -> int:
        """Nanoseconds that its instructions took."""
        return self.kernel.retired

    def timespec(self, pointer: int) -> int:
        """The struct timespec at a guest address, in nanoseconds; EINVAL if it is none."""
        seconds, ns = TIMESPEC.unpack(self.memory.read(pointer, TIMESPEC.size))
        if seconds < 0 or not 0 <= ns < BILLION:
            raise Failure(Errno.EINVAL)
        return int(seconds * BILLION + ns)

    # Files

    def captured(self, number: int) -> bytes:
        """What went to standard output (1) or error (2) and was not given a stream; else b""."""
        return bytes(self.kernel.stdout if number == 1 else self.kernel.stderr)

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

    def open(self, file: OpenFile, cloexec: bool = False) -> int:
        """Give an open file the lowest free descriptor."""
        fd = self.free_descriptor()
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
        self.kernel.watches.closed(self, file)
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
