"""The Machine: one lane, from a program or from raw bytes, driven from Python."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from kvrm.debug.switches import trace_switch
from kvrm.engine.exits import ExitKind
from kvrm.errors import HostError, KvrmError, UsageError
from kvrm.isa.context import System
from kvrm.isa.features import feature_set, identification
from kvrm.machine.result import Fault, Result, Stop
from kvrm.machine.state import State
from kvrm.machine.views import MemoryView
from kvrm.memory import PAGE, AlignmentFault, GuestFault, Memory, OutOfMemory, Prot, Snapshot

if TYPE_CHECKING:
    from kvrm.debug.profile import Profile
    from kvrm.engine.account import Account

ENGINES = {
    "tiered": "kvrm.engine.translator.engine:Translator",
    "interpreter": "kvrm.engine.interpreter.engine:Interpreter",
    "translator": "kvrm.engine.translator.forced:ForcedTranslator",
    "reference": "kvrm.engine.reference:ReferenceEngine",
    "stress": "kvrm.engine.stress:Stress",
}
"""Name to class; the first is the default. An engine's modules are imported when a machine asks for it."""
UNLIMITED = 1 << 62
SIGILL, SIGTRAP, SIGBUS, SIGSEGV = 4, 5, 7, 11


class Engine(Protocol):
    """What the Machine needs of an engine."""

    retired: int
    account: Account

    def run(self, budget: int, breakpoints: set[int] = ...) -> Any:
        """Run at most `budget` instructions and say why it came back (`kvrm.engine.exits.Exit`)."""

    def invalidate(self, start: int, end: int) -> None:
        """Forget code derived from these addresses."""


@dataclass(frozen=True, slots=True)
class MachineSnapshot:
    """Everything about a machine at one moment; an opaque value for `Machine.restore`."""

    state: tuple[bytes, int]
    memory: Snapshot
    process: Any
    retired: int


class Machine:
    """One AArch64 machine.

    With `program` (a path or the bytes of a static ELF file) it is a Linux process: `args` are the arguments
    after the program's name, `env` its environment (empty by default), `stdin` bytes or a file (None: empty),
    `stdout` and `stderr` files (None: captured in the result). The guest sees its own program, the directory
    `root` if given, and the current directory, read-only; its writes stay in memory, except below `rw`.

    Without a program it is bare: `write_memory`, set registers and pc, `run`; SVC stops it.

    `features` decides what the machine has: "armv8.0", "cortex-a76" (the default), "all", or names such as
    "FEAT_LSE" (`kvrm.isa.features`). `engine` is one of `ENGINES` (default: KVRM_ENGINE, else "tiered").
    `memory_limit` bounds private guest memory in bytes; `seed` is what the guest's random numbers come from.
    `fp_flags` has floating-point exceptions added to FPSR, at a price (docs/floating-point.md). Raises
    ProgramError and UsageError.
    """

    def __init__(
        self,
        program: str | os.PathLike[str] | bytes | None = None,
        *,
        args: Sequence[str | bytes] = (),
        env: Mapping[str, str] | None = None,
        stdin: bytes | BinaryIO | None = None,
        stdout: BinaryIO | None = None,
        stderr: BinaryIO | None = None,
        engine: str | None = None,
        root: str | os.PathLike[str] | None = None,
        rw: str | os.PathLike[str] | None = None,
        features: str | Iterable[str] | None = None,
        memory_limit: int = 4 << 30,
        seed: int = 0,
        fp_flags: bool = False,
    ) -> None:
        self.state = State()
        self.state.fp_tracking = fp_flags
        self.breakpoints: set[int] = set()
        self._memory = Memory(memory_limit)
        self.memory = MemoryView(self._memory)
        self.engine = _engine_name(engine)
        self.features = _feature_set(features)
        for register, value in identification(self.features).items():
            self.state.set_system(register, value)
        self._process = None
        self._over: Result | None = None
        self._seconds = 0.0
        if program is not None:
            from kvrm.linux import Process

            self._process = Process(
                self._memory,
                self.state,
                program=program if isinstance(program, bytes) else Path(program),
                args=args,
                env=env or {},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                root=None if root is None else Path(root),
                rw=None if rw is None else Path(rw),
                seed=seed,
                features=self.features,
            )
            self._process.start()
        self._engine = _make_engine(self, self._memory, program is not None)
        self._memory.on_remap = self._engine.invalidate

    # -- registers -------------------------------------------------------------------------------------------
    @property
    def x(self) -> Any:
        """x[0] to x[30], 64-bit ints, assignable."""
        return self.state.x

    @property
    def v(self) -> Any:
        """v[0] to v[31], 128-bit ints, assignable."""
        return self.state.v

    @property
    def sp(self) -> int:
        """Stack pointer."""
        return self.state.sp

    @sp.setter
    def sp(self, value: int) -> None:
        self.state.sp = value

    @property
    def pc(self) -> int:
        """Program counter."""
        return self.state.pc

    @pc.setter
    def pc(self, value: int) -> None:
        self.set_pc(value)

    def set_pc(self, address: int) -> None:
        """Continue at `address` in the next run."""
        self.state.pc = address & (1 << 64) - 1
        self._over = None

    @property
    def nzcv(self) -> int:
        """N, Z, C, V as four bits, N highest."""
        return self.state.nzcv

    @nzcv.setter
    def nzcv(self, value: int) -> None:
        self.state.nzcv = value

    @property
    def fpcr(self) -> int:
        """Floating-point control register."""
        return self.state.fpcr

    @fpcr.setter
    def fpcr(self, value: int) -> None:
        self.state.fpcr = value

    @property
    def fpsr(self) -> int:
        """Floating-point status register."""
        return self.state.system(System.FPSR)

    @fpsr.setter
    def fpsr(self, value: int) -> None:
        self.state.set_system(System.FPSR, value)

    # -- memory ----------------------------------------------------------------------------------------------
    def write_memory(self, address: int, data: bytes, prot: str = "rwx") -> None:
        """Put bytes into guest memory. Pages that are not mapped are mapped with `prot`, letters of "rwx"."""
        if address < 0 or address + len(data) > 1 << 39:
            raise UsageError(f"guest addresses have 39 bits; {address:#x} + {len(data):#x} does not fit")
        if set(prot) - set("rwx"):
            raise UsageError(f"{prot!r} has letters other than r, w and x")
        wanted = sum((Prot[c.upper()] for c in set(prot)), Prot(0))
        start, end = address & -PAGE, (address + len(data) + PAGE - 1) & -PAGE
        at = start
        for region in [*self._memory.regions(), None]:
            low, high = (end, end) if region is None else (region.start, region.end)
            if at < min(low, end):
                self._memory.map(at, min(low, end) - at, wanted)
            at = max(at, high)
        self._memory.poke(address, data)

    def read_memory(self, address: int, length: int) -> bytes:
        """Guest bytes; the same as `memory[address : address + length]`."""
        return self.memory[address : address + length]

    def disassemble(self, address: int | None = None, count: int = 1) -> list[str]:
        """Assembly text of `count` instructions at `address` (default: pc)."""
        from kvrm.isa.a64 import disassemble

        at = self.pc if address is None else address
        lines = []
        for pc in range(at, at + 4 * count, 4):
            word = int.from_bytes(self.memory[pc : pc + 4], "little")
            lines.append(disassemble(word, pc) or f".word {word:#010x}")
        return lines

    # -- running ---------------------------------------------------------------------------------------------
    @property
    def retired(self) -> int:
        """Instructions retired since the machine was made or restored to."""
        count: int = self._engine.retired
        return count

    @property
    def profile(self) -> Profile:
        """Where instructions and seconds of all runs so far went (docs/translator.md)."""
        from kvrm.debug.profile import make_profile

        return make_profile(self._engine.account, self._seconds, self._memory.peek, self.features)

    def run(self, max_instructions: int | None = None) -> Result:
        """Run until something stops it, at most `max_instructions` retired instructions.

        A breakpoint at the starting pc is passed over. Running a program that has ended gives its last result
        again.
        """
        if max_instructions is not None and max_instructions < 0:
            raise UsageError("max_instructions is negative")
        if self._over is not None:
            return self._over
        began, before = time.perf_counter(), self.retired
        end = before + (UNLIMITED if max_instructions is None else max_instructions)
        try:
            outcome = self._run_to(end)
        finally:
            seconds = time.perf_counter() - began
            self._seconds += seconds
        result = self._result(outcome, self.retired - before, seconds)
        if self._process is not None and result.stop in (Stop.EXIT, Stop.SIGNAL):
            self._over = result
        return result

    def _run_to(self, end: int) -> dict[str, Any]:
        """Run to a retired count, serving system calls; the fields of the Result that tell why it stopped."""
        engine, process, system_call = self._engine, self._process, ExitKind.SVC
        words, calls = self.state.words, engine.account.calls
        retired = engine.retired
        while True:
            try:
                left = engine.run(end - retired, self.breakpoints)
                if left.kind is not system_call or process is None:
                    return self._explain(left)
                retired = engine.retired
                call, began = calls[words[8] & 0xFFFFFFFF], time.perf_counter()
                over = process.syscall(retired)
                call.seconds += time.perf_counter() - began
                call.count += 1
            except OutOfMemory:
                return {"stop": Stop.OUT_OF_MEMORY, "message": "the guest used up its memory limit"}
            except (KvrmError, KeyboardInterrupt, GuestFault):
                raise
            except Exception as error:
                raise self._host_error(error) from error
            if over is not None:
                return _explain_end(over)
            if retired >= end:
                return {"stop": Stop.BUDGET, "message": "the instruction budget is used up"}
            if self.state.pc in self.breakpoints:
                return {"stop": Stop.BREAKPOINT, "message": f"breakpoint at {self.pc:#x}"}

    def _explain(self, left: Any) -> dict[str, Any]:
        if left.kind is ExitKind.BUDGET:
            return {"stop": Stop.BUDGET, "message": "the instruction budget is used up"}
        pc = self.pc
        if left.kind is ExitKind.BREAKPOINT:
            return {"stop": Stop.BREAKPOINT, "message": f"breakpoint at {pc:#x}"}
        if left.kind is ExitKind.SVC:
            return {"stop": Stop.SYSCALL, "message": f"svc #{left.value} before {pc:#x}"}
        word = self._word()
        if left.kind is ExitKind.BRK:
            return {
                "stop": Stop.BRK,
                "signal": SIGTRAP,
                "word": word,
                "message": f"brk #{left.value:#x} at {pc:#x}",
            }
        if left.kind is ExitKind.FAULT:
            f = left.fault
            fault = Fault(f.address, f.kind, f.mapped)
            signal = SIGBUS if isinstance(f, AlignmentFault) else SIGSEGV
            why = "not allowed" if f.mapped else "nothing is mapped there"
            if isinstance(f, AlignmentFault):
                why = "not aligned"
            message = f"{f.kind.name.lower()} of {f.address:#x} at pc {pc:#x}: {why}"
            return {"stop": Stop.FAULT, "signal": signal, "word": word, "fault": fault, "message": message}
        text = "" if word is None else f"{word:08x}"
        return {
            "stop": Stop.UNDEFINED,
            "signal": SIGILL,
            "word": word,
            "message": f"undefined instruction {text} ({self._text(word)}) at pc {pc:#x}",
        }

    def _word(self) -> int | None:
        try:
            return int.from_bytes(self._memory.peek(self.pc, 4), "little")
        except GuestFault:
            return None

    def _text(self, word: int | None) -> str:
        from kvrm.isa.a64 import disassemble

        return (disassemble(word, self.pc) if word is not None else None) or "unknown"

    def _result(self, outcome: dict[str, Any], retired: int, seconds: float) -> Result:
        if self._process is not None:
            outcome |= {"stdout": self._process.captured(1), "stderr": self._process.captured(2)}
        return Result(retired=retired, seconds=seconds, pc=self.pc, **outcome)

    def _host_error(self, error: Exception) -> HostError:
        word = self._word()
        return HostError(
            f"{type(error).__name__}: {error}",
            pc=self.pc,
            word=word,
            disassembly=self._text(word),
            advice="this is a fault of KVRM, please report it with the program and this line",
        )

    # -- snapshots -------------------------------------------------------------------------------------------
    def snapshot(self) -> MachineSnapshot:
        """Remember everything: registers, memory, files, counts."""
        process = None if self._process is None else self._process.snapshot()
        return MachineSnapshot(self.state.save(), self._memory.snapshot(), process, self.retired)

    def restore(self, snapshot: MachineSnapshot) -> None:
        """Back to a snapshot, at a cost proportional to the pages written since."""
        self.state.load(snapshot.state)
        self._memory.restore(snapshot.memory)
        if self._process is not None:
            self._process.restore(snapshot.process)
        self._engine.retired = snapshot.retired
        self._over = None

    def __repr__(self) -> str:
        return f"<kvrm.Machine {self.engine} pc={self.pc:#x} retired={self.retired}>"


def _engine_name(engine: str | None) -> str:
    name = engine or os.environ.get("KVRM_ENGINE") or next(iter(ENGINES))
    if name not in ENGINES:
        raise UsageError(f"no engine {name!r}; there are {', '.join(ENGINES)}")
    return name


def _feature_set(features: str | Iterable[str] | None) -> frozenset[str]:
    try:
        return feature_set(features)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _make_engine(machine: Machine, memory: Memory, program: bool) -> Any:
    state, features = machine.state, machine.features
    topics, start = trace_switch()
    module, _, name = ENGINES[machine.engine].partition(":")
    engine: Any = getattr(importlib.import_module(module), name)(state, memory, features)
    if program:
        engine.prepare()
    if topics - {"sys"}:
        from kvrm.debug.trace import Tracer

        return Tracer(engine, state, memory, topics, start)
    return engine


def _explain_end(over: Any) -> dict[str, Any]:
    """What a process says when it ends, as fields of a Result."""
    from kvrm.linux import Exited, Killed

    if isinstance(over, Exited):
        return {"stop": Stop.EXIT, "exit_code": over.code, "message": f"exit code {over.code}"}
    if isinstance(over, Killed):
        return {"stop": Stop.SIGNAL, "signal": over.signal, "message": f"ended by signal {over.signal}"}
    return {"stop": Stop.SYSCALL, "message": over.reason}
