"""Whatever a caller gives to whatever can be called: it is taken, or a KvrmError of one line refuses it."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvrm
from patience import SECONDS
from places import GUESTS

HELLO = GUESTS / "hello"
LOOP = bytes.fromhex("00040091ffffff17")  # add x0, x0, #1; b .-4


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("nothing to see")


VALUES: list[Any] = [
    *(1.5, float("nan"), float("inf"), np.float64(2), -1, 1 << 70, -(1 << 70), 1 << 100_000),
    *("x", b"x", "\ud800", b"\0", None, True, np.bool_(True), ..., object(), Unprintable()),
    *([1], (1,), {}, [[1], [2, 3]], slice(0, 4), slice(1.5, "x"), np.array([1, 2]), np.array(1.5)),
    np.array([None, "x"], object),
]
ROWS = np.zeros((2, 4), np.uint8)
DATA = slice(0x2000, 0x2004)


class Things:
    """One of each kind of thing that has a public way in."""

    def __init__(self) -> None:
        self.machine = m = kvrm.Machine()
        m.write_memory(0x1000, LOOP, prot="rx")
        m.write_memory(0x2000, bytes(16), prot="rw")
        m.set_pc(0x1000)
        self.lanes, self.program = m.fork(2), kvrm.Machine(HELLO)
        self.of_program = self.program.fork(2)
        self.results, self.texts = m.fork(2).run(10), kvrm.Texts.of([b"a", b"b"])
        self.memory = kvrm.Memory()
        self.memory.map(0x1000, 0x1000, 7)


def item(of: Any, key: Any, value: Any) -> None:
    of[key] = value


def waited(m: kvrm.Machine, timeout: Any) -> None:
    m.start(5)
    try:
        with suppress(TimeoutError):
            m.wait(timeout)
    finally:
        m.wait()


WAYS: dict[str, Callable[[Things, Any], Any]] = {
    **{
        f"Machine.{name}": lambda t, v, name=name: setattr(t.machine, name, v)
        for name in ("sp", "pc", "nzcv", "fpcr", "fpsr", "breakpoints")
    },
    **{
        f"Lanes.{name}": lambda t, v, name=name: [
            setattr(lanes, name, value) for lanes in (t.lanes, t.of_program) for value in (v, [v, v])
        ]
        for name in ("keep", "threads", "stdin", "args", "breakpoints")
    },
    **{
        f"Breakpoints.{name}": lambda t, v, name=name: [
            getattr(points, name)(value)
            for points in (t.machine.breakpoints, t.lanes.breakpoints)
            for value in (v, [v])
        ]
        for name in ("add", "discard", "remove", "update", "symmetric_difference_update")
    },
    "x[v]": lambda t, v: t.machine.x[v],
    "v[v]": lambda t, v: t.machine.v[v],
    "x[0] = v": lambda t, v: item(t.machine.x, 0, v),
    "v[0] = v": lambda t, v: item(t.machine.v, 0, v),
    "x[v] = 0": lambda t, v: item(t.machine.x, v, 0),
    "v[v] = 0": lambda t, v: item(t.machine.v, v, 0),
    "read_memory(v, 4)": lambda t, v: t.machine.read_memory(v, 4),
    "read_memory(a, v)": lambda t, v: t.machine.read_memory(0x1000, v),
    "write_memory(v, b)": lambda t, v: t.machine.write_memory(v, b"x"),
    "write_memory(a, v)": lambda t, v: t.machine.write_memory(0x2000, v),
    "write_memory(prot=v)": lambda t, v: t.machine.write_memory(0x2000, b"x", prot=v),
    "memory[v]": lambda t, v: t.machine.memory[v],
    "memory[v:]": lambda t, v: t.machine.memory[v:0x2004],
    "memory[:v]": lambda t, v: t.machine.memory[0x2000:v],
    "memory[::v]": lambda t, v: t.machine.memory[0x2000:0x2004:v],
    "memory[v] = b": lambda t, v: item(t.machine.memory, v, b"x"),
    "memory[a] = v": lambda t, v: item(t.machine.memory, DATA, v),
    "disassemble(v)": lambda t, v: t.machine.disassemble(v),
    "disassemble(a, v)": lambda t, v: t.machine.disassemble(0x1000, v),
    "wait(v)": lambda t, v: waited(t.machine, v),
    "restore(v)": lambda t, v: [m.restore(v) for m in (t.machine, t.program)],
    "fork(2, v)": lambda t, v: t.machine.fork(2, v),
    "lanes.registers[v]": lambda t, v: t.lanes.registers[v],
    "lanes.registers[v] = l": lambda t, v: item(t.lanes.registers, v, [1, 2]),
    "lanes.registers[x0] = v": lambda t, v: item(t.lanes.registers, "x0", v),
    "lanes.registers[pc] = v": lambda t, v: item(t.lanes.registers, "pc", [v, v]),
    "lanes.registers[v0] = v": lambda t, v: item(t.lanes.registers, "v0", [[v, v], [v, v]]),
    "lanes.memory[v]": lambda t, v: t.lanes.memory[v],
    "lanes.memory[v] = r": lambda t, v: item(t.lanes.memory, v, ROWS),
    "lanes.memory[v:] = r": lambda t, v: item(t.lanes.memory, slice(v, 0x2004), ROWS),
    "lanes.memory[a] = v": lambda t, v: item(t.lanes.memory, DATA, v),
    "results.lane(v)": lambda t, v: t.results.lane(v),
    "results.registers[v]": lambda t, v: t.results.registers[v],
    "results.memory[v]": lambda t, v: t.results.memory[v],
    "results.memory[v:]": lambda t, v: t.results.memory[v:0x2004],
    "Texts(v)": lambda t, v: kvrm.Texts(v),
    "Texts(d, v)": lambda t, v: kvrm.Texts(np.zeros(4, np.uint8), v),
    "Texts.of(v)": lambda t, v: kvrm.Texts.of(v),
    "texts[v]": lambda t, v: t.texts[v],
    "texts[v:]": lambda t, v: t.texts[v:],
    "Machine(v)": lambda t, v: kvrm.Machine(v),
    **{
        f"Machine({name}=v)": lambda t, v, name=name: [
            kvrm.Machine(program, lanes=lanes, **{name: v})
            for program, lanes in ((None, None), (HELLO, None), (HELLO, 2))
        ]
        for name in (
            *("args", "env", "stdin", "stdout", "stderr", "root", "rw", "engine", "target", "features"),
            *("memory_limit", "seed", "fp_flags", "policies"),
        )
    },
    "args=[v]": lambda t, v: kvrm.Machine(HELLO, args=[v]),
    "args=[[v]]": lambda t, v: kvrm.Machine(HELLO, args=[[v], [v]], lanes=2),
    "env={A: v}": lambda t, v: kvrm.Machine(HELLO, env={"A": v}),
    "env={v: A}": lambda t, v: kvrm.Machine(HELLO, env={v: "A"}) if isinstance(v, Hashable) else None,
    "features=[v]": lambda t, v: kvrm.Machine(features=[v]),
    **{
        f"policies={{{name}: v}}": lambda t, v, name=name: kvrm.Machine(HELLO, policies={name: v})
        for name in ("dispatch", "memory", "patterns", "loops")
    },
    "Memory(v)": lambda t, v: kvrm.Memory(v),
    "Memory.map(v, n)": lambda t, v: t.memory.map(v, 0x1000, 7),
    "Memory.map(a, v)": lambda t, v: t.memory.map(0x1000, v, 7),
    "Memory.map(a, n, v)": lambda t, v: t.memory.map(0x1000, 0x1000, v),
    "Memory.map(offset=v)": lambda t, v: t.memory.map(0x1000, 0x1000, 7, None, v),
    "Memory.unmap(v, n)": lambda t, v: t.memory.unmap(v, 0x1000),
    "Memory.unmap(a, v)": lambda t, v: t.memory.unmap(0x1000, v),
    "Memory.protect(v, n)": lambda t, v: t.memory.protect(v, 0x1000, 7),
    "Memory.protect(a, v)": lambda t, v: t.memory.protect(0x1000, v, 7),
    "Memory.protect(a, n, v)": lambda t, v: t.memory.protect(0x1000, 0x1000, v),
    "Memory.restore(v)": lambda t, v: t.memory.restore(v),
}
COUNTS: dict[str, Callable[[Things, Any], Any]] = {
    **{
        f"run({name}=v)": lambda t, v, name=name: [m.run(**{name: v}) for m in (t.machine, t.lanes)]
        for name in ("max_instructions", "max_batches", "instructions_per_batch")
    },
    **{
        f"start({name}=v)": lambda t, v, name=name: [m.start(**{name: v}) for m in (t.machine, t.lanes)]
        for name in ("max_instructions", "max_batches", "instructions_per_batch")
    },
    "fork(v)": lambda t, v: t.machine.fork(v),
    "Machine(lanes=v)": lambda t, v: kvrm.Machine(lanes=v),
}
"""Those that would take a huge number at its word."""


@pytest.mark.parametrize("way", [*WAYS, *COUNTS])
def test_a_mistake_is_a_clear_line(way: str) -> None:
    call, refused = WAYS.get(way) or COUNTS[way], 0
    values = VALUES if way in WAYS else [v for v in VALUES if v is not None and type(v) is not int] + [-1]
    things = Things()
    for value in values:
        try:
            call(things, value)
        except kvrm.HostError as error:
            pytest.fail(f"{type(value).__name__}: {error}")
        except kvrm.KvrmError as error:
            refused += 1
            assert len(str(error)) < 400 and "\n" not in str(error)
    assert refused > len(values) // 3


class Stream(io.RawIOBase):
    """A stream that does what a test wants of it."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def read(self, size: int = -1) -> Any:
        return self.answer()

    def write(self, data: Any) -> Any:
        return self.answer()


def test_streams_that_do_not_work(tmp_path: Path) -> None:
    closed, closed_bytes = (tmp_path / "closed").open("wb"), io.BytesIO()
    closed.close()
    closed_bytes.close()
    for stream in (closed, closed_bytes, io.StringIO(), (tmp_path / "closed").open("rb")):
        with pytest.raises(kvrm.UsageError, match="stdout"):
            kvrm.Machine(HELLO, stdout=stream)  # type: ignore[arg-type]
    for stream in (closed, closed_bytes, io.StringIO(), (tmp_path / "closed").open("wb")):
        with pytest.raises(kvrm.UsageError, match="stdin"):
            kvrm.Machine(HELLO, stdin=stream)


@pytest.mark.parametrize("answer", [lambda: 1 // 0, lambda: "text", lambda: bytes(1 << 20), lambda: 5])
def test_streams_that_fail_while_the_guest_reads(answer: Callable[[], Any]) -> None:
    with pytest.raises(kvrm.UsageError, match="stdin"):
        kvrm.Machine(GUESTS / "expression", stdin=Stream(answer)).run()


def test_a_stream_that_fails_while_the_guest_writes() -> None:
    with pytest.raises(kvrm.UsageError, match=r"stdout raised ZeroDivisionError"):
        kvrm.Machine(HELLO, stdout=Stream(lambda: 1 // 0)).run()  # type: ignore[arg-type]


MORE_THAN_THERE_IS = """
import resource
import kvrm
m = kvrm.Machine()
m.lane.memory.map(0, 1 << 38, kvrm.Prot.R)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), -1))
for action in (lambda: m.read_memory(0, 1 << 38), kvrm.Machine):
    try:
        action()
    except kvrm.OutOfMemory as error:
        print(error)
"""


def survives(program: str) -> str:
    """What a program prints that must end as usual."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert not done.returncode, done.stderr
    return done.stdout


def test_more_memory_than_the_host_has() -> None:
    """A guest may map any amount; to read all of it at once needs as much. So does one more guest."""
    lines = survives(MORE_THAN_THERE_IS).splitlines()
    assert len(lines) == 2 and all(line.startswith("the host cannot provide") for line in lines)


SURVIVES = """
import kvrm
for engine in ("tiered", "interpreter", "translator", "reference"):
    for at in (0x1001, 0x1002, 0x1003, -4, 1 << 64, 4100.0, "4096"):
        m = kvrm.Machine(engine=engine)
        m.write_memory(0x1000, bytes.fromhex("00040091ffffff17"), prot="rx")
        m.set_pc(0x1000)
        m.run(4)
        lanes = m.fork(2)
        for points in (m.breakpoints, lanes.breakpoints):
            try:
                points.add(at)
                raise SystemExit(f"{at} was taken")
            except kvrm.UsageError:
                pass
        assert m.run(max_instructions=10).stop is kvrm.Stop.BUDGET
        assert lanes.run(max_instructions=10).stops == {kvrm.Stop.BUDGET: 2}
        m.start(max_instructions=10)
        assert m.wait().stop is kvrm.Stop.BUDGET
print("alive")
"""


def test_the_process_survives_breakpoints_between_instructions() -> None:
    assert survives(SURVIVES) == "alive\n"
