"""The Machine: one lane, from a program or from raw bytes, driven from Python."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from kvrm import arguments
from kvrm.errors import UsageError
from kvrm.isa.features import identification
from kvrm.lane.state import State
from kvrm.lane.stops import ENDED
from kvrm.machine.breakpoints import Breakpoints
from kvrm.machine.engines import (
    ANSWERS,
    REPLACEMENTS,
    EngineKind,
    check_policies,
    checked_features,
    checked_observers,
    default_engine,
    make_engine,
    named,
    target_name,
)
from kvrm.machine.lane import Lane
from kvrm.machine.policies import make_policies
from kvrm.machine.registers import Registers
from kvrm.machine.result import Progress, Result
from kvrm.machine.runner import Runner, Solo
from kvrm.machine.snapshots import MachineSnapshot, Made, require_belongs
from kvrm.machine.stops import Fields, hint
from kvrm.machine.views import MemoryView
from kvrm.memory import Memory, untagged
from kvrm.memory.addresses import code_address, span
from kvrm.streams import Closed

if TYPE_CHECKING:
    from kvrm.machine.lanes import Lanes
    from kvrm.observe.profile import Profile


class Machine(Registers):
    """One AArch64 machine.

    With `program` (a path or the bytes of a static ELF file) it is a Linux process: `args` are the arguments
    after the program's name, `env` its environment (empty by default), `stdin` bytes or a file (None: empty),
    `stdout` and `stderr` files (None: captured in the result); each may be `kvrm.CLOSED`. The guest sees its
    own program, the directory `root` if given, and the current directory, read-only; its writes stay in
    memory, except below `rw`.

    Without a program it is bare: `write_memory`, set registers and pc, `run`; SVC stops it.

    `features` decides what the machine has: "armv8.0", "cortex-a76" (the default), "all", or names such as
    "FEAT_LSE" (`kvrm.isa.features`). `engine` is one of `ENGINES` (default: KVRM_ENGINE, else "tiered").
    `memory_limit` bounds private guest memory in bytes; `seed` is what the guest's random numbers come from.
    `fp_flags` has floating-point exceptions added to FPSR, at a price (docs/design/floating-point.md).
    `policies` says what answers which question, `{"loops": "rule"}` by name or as a function
    (docs/networks/index.md); `observers` are told what the machine does (docs/design/extending.md). Raises
    ProgramError and UsageError.

    With `lanes` it stands for that many machines which start alike and are run together (docs/use/lanes.md):
    `lanes` has what differs between them, and `run` and `wait` give a `LaneResults`. `args` may then be a
    list of lists, and `stdin` a list of bytes or an array, one for each lane (`Texts`).
    """

    def __init__(
        self,
        program: str | os.PathLike[str] | bytes | None = None,
        *,
        args: Sequence[str | bytes] | Sequence[Sequence[str | bytes]] = (),
        env: Mapping[str, str] | None = None,
        stdin: Any = None,
        stdout: BinaryIO | Closed | None = None,
        stderr: BinaryIO | Closed | None = None,
        engine: str | None = None,
        root: str | os.PathLike[str] | None = None,
        rw: str | os.PathLike[str] | None = None,
        features: str | Iterable[str] | None = None,
        memory_limit: int = 4 << 30,
        seed: int = 0,
        fp_flags: bool = False,
        lanes: int | None = None,
        target: str | None = None,
        policies: Mapping[str, Any] | None = None,
        observers: Iterable[Any] = (),
    ) -> None:
        if not isinstance(program, bytes):
            program = arguments.path("program", program, "a path, or bytes")
        args = arguments.sequence("args", args, "strings")
        args_of_lanes = stdin_of_lanes = None
        if args and isinstance(args[0], list | tuple):
            args, args_of_lanes = (), args
        if _is_per_lane(stdin):
            stdin, stdin_of_lanes = None, stdin
        if lanes is None and (args_of_lanes or stdin_of_lanes is not None):
            raise UsageError("a list for each lane is only for machines with lanes=")
        if program is None:
            _refuse_for_bare(args=args, env=env, stdin=stdin, stdout=stdout, stderr=stderr, root=root, rw=rw)
        self.state = State()
        self.state.fp_tracking = arguments.flag("fp_flags", fp_flags)
        memory = Memory(memory_limit)
        self.memory = MemoryView(memory)
        chosen = arguments.mapping("policies", {} if policies is None else policies, "names or functions")
        self.policies = make_policies(chosen)
        self.target = target_name(target)
        self.observers = checked_observers(observers, lanes, self.target)
        self.engine = default_engine(engine, self.policies, self.observers)
        check_policies(self.policies, self.target)
        self.features = checked_features(features)
        for register, value in identification(self.features).items():
            self.state.set_system(register, value)
        process: Any = None
        self._over: Result | None = None
        root, rw = arguments.path("root", root), arguments.path("rw", rw)
        places = {"stdin": stdin, "stdout": stdout, "stderr": stderr, "rw": rw}
        inside = bytes | bytearray | memoryview | Closed | None
        self.outside = [name for name, place in places.items() if not isinstance(place, inside)]
        streams = tuple((name, places[name]) for name in self.outside if name != "rw")
        self._seconds = 0.0
        seed = arguments.integer("seed", seed)
        if program is not None:
            from kvrm.linux.boot import boot

            process = boot(
                memory,
                self.state,
                program=program,
                args=cast("Sequence[str | bytes]", args),
                env={} if env is None else arguments.mapping("env", env, "strings"),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                root=root,
                rw=rw,
                seed=seed,
                features=self.features,
            )
            process.start()
            process.lend(lambda *words: named(ANSWERS)(self.state, memory, *words))
        digest = None if process is None else process.program.digest
        self._made = Made(digest, self.features, self.state.fp_tracking, root, rw, streams)
        kind = EngineKind(self.engine, self.features, self.policies, program is not None, self.observers)
        runs = make_engine(kind, self.state, memory, self.target if lanes is None else "cpu")
        self._solo = Solo(self._run, lambda: self.retired)
        self.lane = Lane(self.state, memory, process, runs, self._solo)
        if "patterns" in self.policies:
            self.lane.replacements = named(REPLACEMENTS)(self, program)
        self._lanes: Lanes | None = None
        if lanes is not None:
            from kvrm.machine.lanes import Lanes

            self._lanes = Lanes(self, lanes)
            self._lanes.args, self._lanes.stdin = args_of_lanes, stdin_of_lanes

    @property
    def engine_kind(self) -> EngineKind:
        """What the engines of its lanes are made by."""
        program = self.lane.process is not None
        return EngineKind(self.engine, self.features, self.policies, program, self.observers)

    # -- where it runs, and stops --------------------------------------------------------------------------
    @property
    def pc(self) -> int:
        """Program counter."""
        return self.state.pc

    @pc.setter
    def pc(self, value: int) -> None:
        self.set_pc(value)

    def set_pc(self, address: int) -> None:
        """Continue at `address` (modulo 2^64, without its tag) in the next run, even of an ended program.

        A run that begins where no instruction can be stops with a fault.
        """
        self.state.pc = untagged(arguments.integer("pc", address))
        self._over = None

    @property
    def breakpoints(self) -> Breakpoints:
        """Where a run stops: a set of addresses; what no instruction can be at is a UsageError."""
        return self.lane.breakpoints

    @breakpoints.setter
    def breakpoints(self, addresses: Iterable[int]) -> None:
        if addresses is not self.lane.breakpoints:
            self.lane.breakpoints = Breakpoints(addresses)

    @property
    def replacements(self) -> Any:
        """The functions whose calls a patterns policy has answered (docs/networks/patterns.md); else None."""
        return self.lane.replacements

    # -- memory ----------------------------------------------------------------------------------------------
    def write_memory(self, address: int, data: bytes, prot: str = "rwx") -> None:
        """Put bytes into guest memory. Pages that are not mapped are mapped with `prot`, letters of "rwx".

        Raises UsageError, or OutOfMemory if that takes more than `memory_limit`.
        """
        self.memory.write(address, data, prot)

    def read_memory(self, address: int, length: int) -> bytes:
        """Guest bytes; the same as `memory[address : address + length]`."""
        start, stop = span("address", address, length)
        return self.memory[start:stop]

    def disassemble(self, address: int | None = None, count: int = 1) -> list[str]:
        """Assembly text of `count` instructions at `address` (default: pc)."""
        from kvrm.isa.a64 import disassemble

        at = code_address("address", self.pc if address is None else address)
        lines = []
        for pc in range(at, at + 4 * arguments.integer("count", count, 0), 4):
            word = int.from_bytes(self.memory[pc : pc + 4], "little")
            lines.append(disassemble(word, pc) or f".word {word:#010x}")
        return lines

    # -- running ---------------------------------------------------------------------------------------------
    @property
    def retired(self) -> int:
        """Instructions retired since the machine was made or restored to."""
        return self.lane.retired

    @property
    def profile(self) -> Profile:
        """Where instructions and seconds of all runs so far went, without those of lanes."""
        from kvrm.observe.profile import make_profile

        return make_profile(self.lane.engine.account, self._seconds, self.lane.memory.peek, self.features)

    def run(
        self,
        max_instructions: int | None = None,
        *,
        max_batches: int | None = None,
        instructions_per_batch: int | None = None,
    ) -> Result | Any:
        """Run until something stops it, at most `max_instructions` retired instructions.

        A breakpoint at the starting pc is passed over. Running a program that has ended gives its last result
        again, until `set_pc` or `restore`. With `instructions_per_batch` or `max_batches`, the run is a row
        of batches: lanes take turns after each, and `max_batches` of them are the budget. A machine with
        lanes gives a `LaneResults`.
        """
        options = {"max_batches": max_batches, "instructions_per_batch": instructions_per_batch}
        return self._runner.run(max_instructions, **options)

    def step(self, count: int = 1) -> Result | Any:
        """Run exactly `count` instructions: `run` with that budget, and ended by the same events before.

        A breakpoint at the starting pc is passed over.
        """
        return self.run(max_instructions=arguments.integer("count", count, 0))

    def start(
        self,
        max_instructions: int | None = None,
        *,
        max_batches: int | None = None,
        instructions_per_batch: int | None = None,
    ) -> None:
        """Begin in the background what `run` does. Until `wait`, leave the machine's state alone."""
        options = {"max_batches": max_batches, "instructions_per_batch": instructions_per_batch}
        self._runner.start(max_instructions, **options)

    def poll(self) -> Progress:
        """How far the run is that is going on, or how far the last one came. Never waits."""
        return self._runner.poll()

    def wait(self, timeout: float | None = None) -> Result | Any:
        """The result of what `start` began; TimeoutError after `timeout` seconds."""
        return self._runner.wait(timeout)

    def is_running(self) -> bool:
        """Whether a run is going on."""
        return self._runner.is_running()

    def cancel(self) -> None:
        """Ask the run that is going on to stop soon; `wait` gives what there is, and another run goes on."""
        self._runner.cancel()

    @property
    def _runner(self) -> Runner[Any]:
        return self._solo if self._lanes is None else self._lanes

    def _run(self, budget: int) -> Result:
        if self._over is not None:
            return self._over
        began, before = time.perf_counter(), self.retired
        try:
            outcome = self.lane.run_to(before + budget)
        finally:
            seconds = time.perf_counter() - began
            self._seconds += seconds
            self.lane.settle()
        result = self._result(outcome, self.retired - before, seconds)
        if self.lane.process is not None and result.stop in ENDED:
            self._over = result
        return result

    def _result(self, outcome: Fields, retired: int, seconds: float) -> Result:
        if self.lane.process is not None:
            streams = {"stdout": self.lane.process.captured(1), "stderr": self.lane.process.captured(2)}
            outcome = outcome | streams | {"hint": hint(self.lane.process, outcome)}
        return Result(retired=retired, seconds=seconds, pc=self.pc, **outcome)

    # -- snapshots -------------------------------------------------------------------------------------------
    def snapshot(self) -> MachineSnapshot:
        """Remember everything: registers, memory, files, counts, and whether the program has ended."""
        self._solo.require_idle()
        process = None if self.lane.process is None else self.lane.process.snapshot()
        memory = self.lane.memory.snapshot()
        return MachineSnapshot(self._made, self.state.save(), memory, process, self.retired, self._over)

    def restore(self, snapshot: MachineSnapshot) -> None:
        """Back to a snapshot of this machine or one made alike, at a cost proportional to the pages written.

        Raises UsageError, with nothing changed, for any other, for one with more private memory than
        `memory_limit` allows, and for one from a pickle whose files of the host are not here.
        """
        self._solo.require_idle()
        require_belongs(snapshot, self._made)
        self.lane.memory.require_fits(snapshot.memory)
        if self.lane.process is not None:
            self.lane.process.restore(snapshot.process)
        self.state.load(snapshot.state)
        self.lane.memory.restore(snapshot.memory)
        self.lane.engine.retired = snapshot.retired
        self._over = snapshot.ended

    # -- lanes -----------------------------------------------------------------------------------------------
    @property
    def lanes(self) -> Lanes:
        """The lanes of a machine that was made with `lanes`: what differs between them. Raises UsageError."""
        if self._lanes is None:
            raise UsageError("this machine is one lane; Machine(..., lanes=N) or fork(N) makes more")
        return self._lanes

    def fork(self, lanes: int, threads: int | None = None) -> Lanes:
        """`n` lanes that go on from here, run by `threads` threads (default: one for each core).

        They share nothing that one of them could change, and this machine stays as it is.
        """
        self._solo.require_idle()
        from kvrm.machine.lanes import Lanes

        return Lanes(self, lanes, threads, self.snapshot())

    def __repr__(self) -> str:
        return f"<kvrm.Machine {self.engine} pc={self.pc:#x} retired={self.retired}>"


def _is_per_lane(stdin: Any) -> bool:
    """Whether it is a text for each lane. What is not is found out without numpy, which such a text needs."""
    if isinstance(stdin, bytes | Closed | None) or hasattr(stdin, "read"):
        return False
    from kvrm.machine.texts import is_per_lane

    return is_per_lane(stdin)


def _refuse_for_bare(**given: Any) -> None:
    """Raise UsageError for arguments that only a program has a use for."""
    for name, value in given.items():
        if value is not None and not (name == "args" and not value):
            raise UsageError(f"{name} is for programs; a bare machine has registers and memory")
