"""The Machine: running, stopping, looking inside, going back. Everything holds on both engines."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest

import kvrm
from kvrm.isa.context import System
from kvrm.memory import AccessKind

CODE, DATA = 0x1_0000, 0x2_0000

ADD_1 = 0x91000400  # add x0, x0, #1
SUB_1 = 0xD1000421  # sub x1, x1, #1
LOOP = 0xB5FFFFC1  # cbnz x1, .-8
SVC = 0xD4000001  # svc #0
BRK = 0xD4200140  # brk #10
LDR = 0xF9400041  # ldr x1, [x2]
STR = 0xF9000041  # str x1, [x2]
BR_X3 = 0xD61F0060  # br x3
B_SELF = 0x14000000  # b .
NOP = 0xD503201F
IC_IVAU_X2 = 0xD50B7522
MRS_CNTVCT_X0 = 0xD53BE040


@pytest.fixture(params=["interpreter", "reference"])
def engine(request):
    return request.param


def machine(engine, *words, **options):
    m = kvrm.Machine(engine=engine, **options)
    m.write_memory(CODE, struct.pack(f"<{len(words)}I", *words), prot="rwx")
    m.set_pc(CODE)
    return m


def test_runs_to_the_system_call(engine):
    m = machine(engine, ADD_1, SUB_1, LOOP, SVC)
    m.x[1] = 10
    r = m.run()
    assert (r.stop, r.retired, m.x[0], m.pc) == (kvrm.Stop.SYSCALL, 31, 10, CODE + 16)
    assert r.seconds > 0 and r.ips == r.retired / r.seconds


@pytest.mark.parametrize("budget", [0, 1, 2, 3, 4, 29, 30, 31])
def test_budget_is_exact(engine, budget):
    m = machine(engine, ADD_1, SUB_1, LOOP, SVC)
    m.x[1] = 10
    r = m.run(max_instructions=budget)
    assert r.retired == budget
    assert r.stop is (kvrm.Stop.BUDGET if budget < 31 else kvrm.Stop.SYSCALL)
    assert m.retired == budget
    rest = m.run(max_instructions=100)
    assert budget + rest.retired == 31 or budget == 31


def test_an_endless_loop_ends_with_the_budget(engine):
    m = machine(engine, B_SELF)
    assert m.run(max_instructions=12345).retired == 12345
    assert m.pc == CODE


def test_steps_are_exact_and_pass_over_the_breakpoint_where_they_begin(engine):
    m = machine(engine, ADD_1, SUB_1, LOOP, SVC)
    m.x[1] = 10
    m.breakpoints.update({CODE, CODE + 4})
    for retired in 1, 2:
        one = m.step()
        assert (one.stop, one.retired, m.pc) == (kvrm.Stop.BUDGET, 1, CODE + 4 * retired)
    assert (m.step(50).stop, m.pc, m.retired) == (kvrm.Stop.BREAKPOINT, CODE, 3)
    m.breakpoints.clear()
    assert (m.step(27).stop, m.step().stop, m.retired) == (kvrm.Stop.BUDGET, kvrm.Stop.SYSCALL, 31)
    for count in (-1, 1.5, None):
        with pytest.raises(kvrm.UsageError, match="count"):
            m.step(count)


def test_negative_budget():
    with pytest.raises(kvrm.UsageError):
        kvrm.Machine().run(max_instructions=-1)


def test_breakpoints(engine):
    m = machine(engine, ADD_1, SUB_1, LOOP, SVC)
    m.x[1] = 3
    m.breakpoints.add(CODE + 4)
    for iteration in range(1, 4):
        r = m.run()
        assert (r.stop, m.pc, m.x[0]) == (kvrm.Stop.BREAKPOINT, CODE + 4, iteration)
    m.breakpoints.clear()
    assert m.run().stop is kvrm.Stop.SYSCALL


def test_a_breakpoint_on_a_page_that_is_mapped_later(engine):
    m = machine(engine, 0x14000400)  # b .+4096
    m.breakpoints |= {CODE + 4096, 0x5A << 56 | CODE + 4100}
    assert m.breakpoints == {CODE + 4096, CODE + 4100}, "tags are no part of an address"
    r = m.run()
    assert (r.stop, r.retired, m.pc) == (kvrm.Stop.BREAKPOINT, 1, CODE + 4096)
    assert m.run(max_instructions=5).stop is kvrm.Stop.FAULT, "it is passed over, and nothing is there"
    m.write_memory(CODE + 4096, struct.pack("<3I", NOP, NOP, B_SELF), prot="rx")
    r = m.run(max_instructions=5)
    assert (r.stop, r.retired, m.pc) == (kvrm.Stop.BREAKPOINT, 1, CODE + 4100)
    m.breakpoints ^= {CODE + 4100}
    assert m.run(max_instructions=5).stop is kvrm.Stop.BUDGET


def test_brk(engine):
    r = machine(engine, NOP, BRK).run()
    assert (r.stop, r.signal, r.pc, r.word, r.retired) == (kvrm.Stop.BRK, 5, CODE + 4, BRK, 1)
    assert "brk #0xa" in r.message


def test_undefined(engine):
    r = machine(engine, NOP, 0x00000000).run()
    assert (r.stop, r.signal, r.pc, r.word, r.retired) == (kvrm.Stop.UNDEFINED, 4, CODE + 4, 0, 1)


@pytest.mark.parametrize(
    ("word", "address", "kind", "mapped"),
    [
        (LDR, 0x9_0000, AccessKind.READ, False),
        (STR, 0x9_0000, AccessKind.WRITE, False),
        (STR, DATA, AccessKind.WRITE, True),
        (LDR, DATA + 0xFFC, AccessKind.READ, False),
        (LDR, 1 << 39, AccessKind.READ, False),
        (LDR, (1 << 56) - 4, AccessKind.READ, False),
    ],
)
def test_faults_are_precise(engine, word, address, kind, mapped):
    m = machine(engine, NOP, word)
    m.write_memory(DATA, bytes(4096), prot="r")
    m.x[1], m.x[2] = 77, address
    r = m.run()
    first_bad = DATA + 0x1000 if address == DATA + 0xFFC else address
    assert (r.stop, r.signal, r.retired, r.pc) == (kvrm.Stop.FAULT, 11, 1, CODE + 4)
    assert r.fault == kvrm.Fault(first_bad, kind, mapped)
    assert m.x[1] == 77


@pytest.mark.parametrize("target", [0x9_0000, DATA, 0, (1 << 39) - 4, 1 << 39, (1 << 64) - 4])
def test_jumps_to_nowhere(engine, target):
    m = machine(engine, BR_X3)
    m.write_memory(DATA, bytes(4096), prot="rw")
    m.x[3] = target
    r = m.run()
    assert (r.stop, r.retired, r.fault.kind) == (kvrm.Stop.FAULT, 1, AccessKind.FETCH)
    assert r.fault.address == target and m.pc == target


def test_misaligned_pc(engine):
    m = machine(engine, BR_X3)
    m.x[3] = CODE + 2
    r = m.run()
    assert (r.stop, r.signal, m.pc) == (kvrm.Stop.FAULT, 7, CODE + 2)


def test_running_off_the_end_of_a_page(engine):
    m = kvrm.Machine(engine=engine)
    m.write_memory(CODE, struct.pack("<I", NOP) * 2048, prot="rx")
    m.set_pc(CODE + 4096 - 8)
    r = m.run()
    assert (r.stop, r.pc, r.retired) == (kvrm.Stop.FAULT, CODE + 8192, 1026)


def test_top_byte_is_ignored(engine):
    m = machine(engine, LDR)
    m.write_memory(DATA, b"\x2a" + bytes(7), prot="r")
    m.x[2] = DATA | 0x5A << 56
    m.run(max_instructions=1)
    assert m.x[1] == 42


def test_code_written_by_the_guest(engine):
    add_16 = 0x91004000  # add x0, x0, #16
    m = machine(
        engine,
        ADD_1,
        0xB40000A5,  # cbz x5, .+20
        0xD2800005,  # mov x5, #0
        0xB9000041,  # str w1, [x2]
        IC_IVAU_X2,
        0x17FFFFFB,  # b .-20
        SVC,
    )
    m.x[1], m.x[2], m.x[5] = add_16, CODE, 1
    r = m.run()
    assert (r.stop, r.retired, m.x[0]) == (kvrm.Stop.SYSCALL, 9, 17)


def test_code_changed_from_python(engine):
    m = machine(engine, ADD_1, B_SELF)
    assert m.run(max_instructions=4).retired == 4
    m.memory[CODE : CODE + 4] = struct.pack("<I", SUB_1)
    m.set_pc(CODE)
    m.x[1] = 5
    m.run(max_instructions=1)
    assert (m.x[0], m.x[1]) == (1, 4)


def test_state_is_readable_and_writable():
    m = kvrm.Machine()
    m.x[30], m.sp, m.nzcv, m.fpcr, m.fpsr = -1, 0x1000, 0b1010, 1 << 22, 1 << 27
    m.v[31] = 1 << 127 | 5
    assert (m.x[30], m.sp, m.nzcv, m.fpcr, m.fpsr) == ((1 << 64) - 1, 0x1000, 0b1010, 1 << 22, 1 << 27)
    assert m.v[31] == 1 << 127 | 5
    assert len(m.x) == 31 and len(m.v) == 32
    for bad in (31, -1):
        with pytest.raises(IndexError):
            m.x[bad] = 0
    with pytest.raises(IndexError):
        m.v[32]


def test_memory_view():
    m = kvrm.Machine()
    m.write_memory(DATA, b"hello", prot="")
    m.memory[DATA + 1 : DATA + 3] = b"EL"
    assert m.memory[DATA : DATA + 6] == b"hELlo\0" and m.read_memory(DATA, 1) == b"h"
    for bad in (lambda: m.memory[0:4], lambda: m.memory[DATA:], lambda: m.memory[5:4]):
        with pytest.raises(kvrm.UsageError):
            bad()
    with pytest.raises(kvrm.UsageError):
        m.memory[DATA : DATA + 4] = b"too long"
    for address in (-1, 1 << 39, (1 << 39) - 1):
        with pytest.raises(kvrm.UsageError):
            m.write_memory(address, b"ab")


def test_write_memory_keeps_what_is_mapped():
    m = kvrm.Machine()
    m.write_memory(DATA, b"a" * 10)
    m.write_memory(DATA + 4090, b"b" * 20)
    assert m.memory[DATA : DATA + 10] == b"a" * 10 and m.memory[DATA + 4090 : DATA + 4110] == b"b" * 20


def test_snapshot_and_restore(engine):
    m = machine(engine, ADD_1, SUB_1, LOOP, SVC)
    m.x[1] = 50
    m.run(max_instructions=10)
    kept = m.snapshot()
    first = m.run()
    m.memory[CODE : CODE + 4] = struct.pack("<I", NOP)
    m.restore(kept)
    again = m.run()
    assert (first.retired, first.stop) == (again.retired, again.stop)
    assert m.x[0] == 50 and m.retired == 151


def test_memory_limit(engine):
    m = machine(
        engine, STR, 0x91400442, 0x17FFFFFE, memory_limit=64 << 12
    )  # str; add x2, x2, #1, lsl #12; b .-8
    m.write_memory(DATA, bytes(4096), prot="rw")
    m.lane.memory.map(1 << 32, 1 << 31, kvrm.Prot.R | kvrm.Prot.W)
    m.x[2] = 1 << 32
    r = m.run()
    assert r.stop is kvrm.Stop.OUT_OF_MEMORY


def test_virtual_clock(engine):
    m = machine(engine, NOP, NOP, MRS_CNTVCT_X0, SVC)
    m.run()
    assert m.x[0] == 2


def test_engine_choice(monkeypatch):
    monkeypatch.setenv("KVRM_ENGINE", "reference")
    assert kvrm.Machine().engine == "reference"
    assert kvrm.Machine(engine="interpreter").engine == "interpreter"
    monkeypatch.setenv("KVRM_ENGINE", "nonsense")
    with pytest.raises(kvrm.UsageError, match="no engine 'nonsense'"):
        kvrm.Machine()


def test_traces_are_the_same_on_both_engines(capsys, monkeypatch):
    monkeypatch.setenv("KVRM_TRACE", "insn,regs,mem:2")
    seen = []
    for engine in ("interpreter", "reference"):
        m = machine(engine, ADD_1, ADD_1, STR, LDR, 0xF1000400, SVC)
        m.write_memory(DATA, bytes(16))
        m.x[1], m.x[2] = 0x1234, DATA + 8
        m.run()
        seen.append(capsys.readouterr().err)
    assert seen[0] == seen[1]
    assert f"2 {CODE + 8:#x}: f9000041 str x1, [x2]" in seen[0]
    assert f"write {DATA + 8:#x} 8 0x1234" in seen[0] and "nzcv=0x2" in seen[0]
    assert "add x0, x0, #1" not in seen[0]


@pytest.mark.parametrize(("switch", "calls"), [("sys", 2), ("sys:5", 2), ("sys:6", 1), ("insn", 0)])
def test_system_calls_are_traced_from_the_start_on(switch, calls, examples, capsys, monkeypatch):
    monkeypatch.setenv("KVRM_TRACE", switch)
    kvrm.Machine(examples / "hello", stdout=None).run()
    err = capsys.readouterr().err
    assert err.count("write(1, ") + err.count("exit_group(0)") == calls


@pytest.mark.parametrize("variable", ["KVRM_TRACE", "KVRM_DUMP"])
def test_bad_switches_are_named(variable, monkeypatch):
    monkeypatch.setenv(variable, "nonsense")
    code = "import kvrm; m = kvrm.Machine(); m.write_memory(4096, bytes(4)); m.set_pc(4096); m.run()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"UsageError: {variable}=nonsense" in done.stderr


def test_dump_shows_the_stages():
    code = (
        "import kvrm; m = kvrm.Machine(engine='interpreter');"
        "m.write_memory(4096, bytes.fromhex('00040091')); m.set_pc(4096); m.run(1)"
    )
    import os

    env = os.environ | {"KVRM_DUMP": "decode,stage,opt,asm"}
    err = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env).stderr
    for stage in ("decode", "stage", "opt", "asm"):
        assert f"; ---- {stage}" in err
    assert "add_imm/sf=1" in err


def test_host_errors_say_where(monkeypatch):
    m = machine("reference", ADD_1)
    monkeypatch.setattr("kvrm.isa.a64.decode", lambda word: 1 // 0)
    with pytest.raises(kvrm.HostError, match=r"ZeroDivisionError.* at pc 0x10000: 91000400 add x0, x0, #1; "):
        m.run()


def test_repr_and_disassembly():
    m = machine("interpreter", ADD_1, 0xFFFFFFFF)
    assert m.disassemble(count=2) == ["add x0, x0, #1", ".word 0xffffffff"]
    assert "pc=0x10000" in repr(m) and "pc=0x10000" in repr(m.state)
    assert m.state.system(System.FPCR) == 0
