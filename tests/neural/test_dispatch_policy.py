"""Dispatch by a policy: right weights change nothing, wrong ones stop the guest and never mislead it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import device_on_host
import kvrm
from kvrm.backend.gpu import kernel
from kvrm.isa.definition import Execution
from kvrm.isa.execution import Classes, Words, execution_of
from kvrm.neural.dispatch_host import HostNetwork
from kvrm.neural.dispatch_inline import InlineNetwork
from kvrm.neural.dispatch_network import COUNT, NAME, random_weights
from kvrm.neural.weights import load
from kvrm.staging.ptx import compile_ptx
from lane_tools import Do, facts, lanes_of, machine, mixture
from places import GUESTS
from ptx_tools import assemble

PROGRAMS = {"hello": [], "primes": ["1000"], "sha256": [], "expression": [], "mandelbrot": ["20", "50"]}
CODE = bytes.fromhex("0008c19a010000d4")  # udiv x0, x0, x1; svc #0


def run(program: str, policy: object | None, **more: object) -> kvrm.Result:
    policies = {} if policy is None else {"dispatch": policy}
    machine = kvrm.Machine(
        GUESTS / program,
        args=PROGRAMS[program],
        stdin=b"(1 + 2) * 3\n",
        engine="interpreter",
        policies=policies,
        **more,
    )
    return machine.run(max_instructions=20_000_000)


def bare(policy: object, code: bytes = CODE, **more: object) -> kvrm.Machine:
    machine = kvrm.Machine(policies={"dispatch": policy}, **more)
    machine.write_memory(0x1000, code)
    machine.set_pc(0x1000)
    machine.x[0], machine.x[1] = 42, 5
    return machine


@pytest.mark.parametrize("policy", ["network", "table", "oracle"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_right_policy_changes_nothing(program: str, policy: str) -> None:
    plain, dispatched = run(program, None), run(program, policy)
    assert dispatched.stop is plain.stop is kvrm.Stop.EXIT
    for name in ("retired", "exit_code", "stdout", "stderr", "pc"):
        assert getattr(dispatched, name) == getattr(plain, name)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("program", PROGRAMS)
def test_random_weights_stop_and_never_mislead(program: str, seed: int) -> None:
    """What the guest has done until then is what it does without a policy."""
    result = run(program, HostNetwork(random_weights(seed)).classes)
    assert result.stop is kvrm.Stop.MISPLACED
    assert result.message.startswith("the dispatch policy takes ")
    plain = kvrm.Machine(
        GUESTS / program, args=PROGRAMS[program], stdin=b"(1 + 2) * 3\n", engine="interpreter"
    )
    same = plain.run(max_instructions=result.retired)
    assert (result.retired, result.pc, result.stdout) == (same.retired, same.pc, same.stdout)


def test_the_word_that_is_misplaced_does_not_run() -> None:
    def logical(words: Words) -> Classes:
        return np.full(words.shape, Execution.LOGICAL, np.uint8)

    machine = bare(logical)
    result = machine.run(max_instructions=10)
    assert result.stop is kvrm.Stop.MISPLACED and result.retired == 0 and machine.x[0] == 42
    assert result.word == 0x9AC10800 and result.pc == 0x1000 and result.signal is None
    assert "udiv" in result.message and result.message.endswith("for logical")


def test_nor_does_it_after_a_breakpoint() -> None:
    machine = bare(lambda words: np.zeros(words.shape, np.uint8))
    machine.breakpoints = {0x1000}
    assert machine.run(max_instructions=1).stop is kvrm.Stop.MISPLACED
    assert machine.x[0] == 42


def test_a_word_without_a_definition_is_undefined_in_any_class() -> None:
    for work in Execution:
        machine = bare(lambda words, w=work: np.full(words.shape, w, np.uint8), b"\xff" * 4)
        assert machine.run(max_instructions=1).stop is kvrm.Stop.UNDEFINED
        # UDF has a definition
        machine = bare(lambda words, w=work: np.full(words.shape, w, np.uint8), bytes(4))
        stop = kvrm.Stop.UNDEFINED if work is Execution.SYSTEM else kvrm.Stop.MISPLACED
        assert machine.run(max_instructions=1).stop is stop


def test_code_is_asked_about_once_and_again_when_it_was_written() -> None:
    """Ten rounds of a loop ask nothing new; IC IVAU on the page does."""
    asked: list[int] = []

    def policy(words: Words) -> Classes:
        asked.append(len(words))
        return execution_of(words)

    # loop: subs x0, x0, #1; b.ne loop; ic ivau, x1; isb; svc #0
    code = bytes.fromhex("000400f1e1ffff5421750bd5df3f03d5010000d4")
    machine = bare(policy, code)
    machine.x[0], machine.x[1] = 10, 0x1000
    assert machine.run(max_instructions=100).stop is kvrm.Stop.SYSCALL
    assert asked == [1024, 1024]


def test_code_that_was_written_without_saying_so_still_gets_its_class() -> None:
    """A word that was never decoded may change; its page is looked at again."""
    # str w2, [x1]; (here the word at x1, first udf); svc #0
    code = bytes.fromhex("220000b900000000010000d4")
    machine = bare("network", code)
    machine.x[1], machine.x[2] = 0x1004, 0x9AC00800  # udiv x0, x0, x0
    assert machine.run(max_instructions=100).stop is kvrm.Stop.SYSCALL
    assert machine.x[0] == 1


def test_one_weight_can_stop_a_program() -> None:
    """The bias of one class so high that it always wins."""
    flat = load(NAME, COUNT).copy()
    flat[-1] = 1e6
    result = run("hello", HostNetwork(flat).classes)
    assert result.stop is kvrm.Stop.MISPLACED and result.message.endswith("for system")


def test_what_the_policy_was_asked_is_counted() -> None:
    machine = bare("network")
    machine.run(max_instructions=1)
    assert machine.policies["dispatch"].words == 1024 and machine.policies["dispatch"].seconds > 0


def test_lanes_have_the_policy_of_their_machine() -> None:
    machine = kvrm.Machine(GUESTS / "hello", policies={"dispatch": "network"}, lanes=3)
    assert machine.run().stops == {kvrm.Stop.EXIT: 3}
    machine = kvrm.Machine(GUESTS / "hello", policies={"dispatch": "random"}, lanes=3)
    assert machine.run().stops == {kvrm.Stop.MISPLACED: 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policies": {"dispatch": "best"}}, "no policy dispatch=best; there are rule, table, network"),
        ({"policies": {"weather": "rule"}}, "no policies for 'weather'; there are some for dispatch"),
        ({"policies": {"dispatch": "table"}, "engine": "tiered"}, "for engine interpreter"),
    ],
)
def test_what_cannot_be_asked_for(options: dict[str, object], message: str) -> None:
    with pytest.raises(kvrm.UsageError, match=message):
        kvrm.Machine(**options)


def test_a_policy_that_gives_no_classes() -> None:
    machine = bare(lambda words: np.full(words.shape, 7, np.uint8))
    with pytest.raises(kvrm.UsageError, match="a class below 7"):
        machine.run(max_instructions=1)


# -- target cuda -------------------------------------------------------------------------------------------


@pytest.fixture(params=device_on_host.PLACES)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    device_on_host.use(request.param, monkeypatch)


@pytest.mark.usefixtures("place")
class TestOnTheDevice:
    def test_a_right_policy_changes_nothing(self) -> None:
        machine = bare("network", target="cuda")
        assert machine.run(max_instructions=10).stop is kvrm.Stop.SYSCALL and machine.x[0] == 8

    def test_a_misplaced_word_does_not_run(self) -> None:
        machine = bare(lambda words: np.zeros(words.shape, np.uint8), target="cuda")
        result = machine.run(max_instructions=10)
        assert result.stop is kvrm.Stop.MISPLACED and result.retired == 0 and machine.x[0] == 42
        assert "udiv" in result.message and result.message.endswith("for arithmetic")

    def test_lanes(self) -> None:
        for policy, stop in (("network", kvrm.Stop.EXIT), ("random", kvrm.Stop.MISPLACED)):
            machine = kvrm.Machine(GUESTS / "hello", policies={"dispatch": policy}, lanes=40, target="cuda")
            results = machine.run()
            assert results.stops == {stop: 40}
            if stop is kvrm.Stop.EXIT:
                assert results.stdout[39] == b"Hello from AArch64.\n"


# -- asked about each instruction that runs ----------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS)
def test_inline_changes_nothing(program: str) -> None:
    plain, inline = run(program, None), run(program, "inline")
    for name in ("stop", "retired", "exit_code", "stdout", "stderr", "pc"):
        assert getattr(inline, name) == getattr(plain, name)


@pytest.mark.parametrize("seed", range(3))
def test_inline_with_random_weights_stops(seed: int) -> None:
    """As soon as a word is misplaced, and at the same one as a policy that is asked once."""
    flat = random_weights(seed)
    inline, once = run("sha256", InlineNetwork(flat)), run("sha256", HostNetwork(flat).classes)
    assert inline.stop is once.stop is kvrm.Stop.MISPLACED
    assert (inline.retired, inline.pc, inline.message) == (once.retired, once.pc, once.message)


def test_inline_sees_code_that_changes_at_once() -> None:
    """Nothing is predecoded, so no IC IVAU is needed."""
    # loop: str w2, [x3]; nop (here then add x0, x0, #5); subs x1, x1, #1; b.ne loop; svc #0
    code = bytes.fromhex("620000b91f2003d5210400f1a1ffff54010000d4")
    machine = bare("inline", code)
    machine.x[0], machine.x[1], machine.x[2], machine.x[3] = 0, 2, 0x91001400, 0x1004
    assert machine.run(max_instructions=100).stop is kvrm.Stop.SYSCALL
    assert (machine.x[0], machine.retired) == (10, 9)


def test_inline_stops_at_breakpoints_budgets_and_faults() -> None:
    # 1000: add x0, x0, #1; b 0x1000
    machine = bare("inline", bytes.fromhex("00040091ffffff17"))
    assert machine.run(max_instructions=7).retired == 7 and machine.pc == 0x1004
    machine.breakpoints = {0x1004}
    assert machine.run(max_instructions=100).stop is kvrm.Stop.BREAKPOINT
    assert (machine.retired, machine.pc, machine.x[0]) == (9, 0x1004, 47)
    assert machine.run(max_instructions=2).stop is kvrm.Stop.BUDGET, "the budget ends at the breakpoint"
    # ldr x0, [x1]; then a branch to where nothing is
    machine = bare("inline", bytes.fromhex("200040f9"))
    result = machine.run(max_instructions=5)
    assert (result.stop, result.fault.address, result.retired) == (kvrm.Stop.FAULT, 5, 0)
    machine = bare("inline", bytes.fromhex("20001fd6"))
    result = machine.run(max_instructions=5)
    assert (result.stop, result.retired, machine.pc) == (kvrm.Stop.FAULT, 1, 5)


def test_inline_for_lanes() -> None:
    for policy, stop in (("inline", kvrm.Stop.EXIT), (wrong_for_branches(), kvrm.Stop.MISPLACED)):
        machine = kvrm.Machine(GUESTS / "sha256", policies={"dispatch": policy}, lanes=3)
        assert machine.run().stops == {stop: 3}
        assert machine.policies["dispatch"].words == (0 if policy == "inline" else 3)


def wrong_for_branches() -> InlineNetwork:
    """Right but for one bias: no word is a branch."""
    flat = load(NAME, COUNT).copy()
    flat[COUNT - len(Execution) + Execution.BRANCH] = -1e6
    return InlineNetwork(flat)


@pytest.mark.usefixtures("place")
class TestInlineOnTheDevice:
    def test_it_changes_nothing(self) -> None:
        plain, inline = run("sha256", None), run("sha256", "inline", target="cuda")
        for name in ("stop", "retired", "exit_code", "stdout", "stderr", "pc"):
            assert getattr(inline, name) == getattr(plain, name)

    def test_it_changes_nothing_for_lanes(self) -> None:
        """Some of them go to the CPU, where they are asked about in the same way."""
        what, number = mixture(120)
        want = lanes_of(machine("interpreter", target="cpu"), what, number).run(2000)
        many = lanes_of(machine("interpreter", target="cuda", policies={"dispatch": "inline"}), what, number)
        got = many.run(2000)
        for lane in range(len(what)):
            assert facts(got, lane) == facts(want, lane), (Do(int(what[lane])), int(number[lane]))
        assert 0 < many.left_device < len(what)

    @pytest.mark.parametrize("seed", range(3))
    def test_random_weights_stop(self, seed: int) -> None:
        flat = random_weights(seed)
        inline = run("sha256", InlineNetwork(flat), target="cuda")
        once = run("sha256", HostNetwork(flat).classes)
        assert inline.stop is once.stop is kvrm.Stop.MISPLACED
        assert (inline.retired, inline.pc, inline.message) == (once.retired, once.pc, once.message)

    def test_the_kernel_decides(self) -> None:
        """Words of the other classes run, and the first branch does not, in any lane."""
        branches = wrong_for_branches()
        once, lanes = run("sha256", branches), 40
        many = kvrm.Machine(GUESTS / "sha256", policies={"dispatch": branches}, lanes=lanes, target="cuda")
        results = many.run()
        assert results.stops == {kvrm.Stop.MISPLACED: lanes} and once.retired > 1
        assert many.lanes.left_device == lanes and set(results.retired.tolist()) == {once.retired}
        assert set(results.pc.tolist()) == {once.pc}

    def test_breakpoints_budgets_and_faults(self) -> None:
        # 1000: add x0, x0, #1; b 0x1000
        m = bare("inline", bytes.fromhex("00040091ffffff17"), target="cuda")
        assert m.run(max_instructions=7).retired == 7 and m.pc == 0x1004
        m.breakpoints = {0x1004}
        assert m.run(max_instructions=100).stop is kvrm.Stop.BREAKPOINT
        assert (m.retired, m.pc, m.x[0]) == (9, 0x1004, 47)
        # ldr x0, [x1]
        result = bare("inline", bytes.fromhex("200040f9"), target="cuda").run(max_instructions=5)
        assert (result.stop, result.fault.address, result.retired) == (kvrm.Stop.FAULT, 5, 0)

    def test_undefined_words_are_undefined(self) -> None:
        result = bare("inline", b"\xff" * 4, target="cuda").run(max_instructions=1)
        assert result.stop is kvrm.Stop.UNDEFINED


def test_inline_assembles(ptxas: str, tmp_path: Path) -> None:
    """NVIDIA's assembler accepts it; each product of the network is in the kernel's text."""
    emits = InlineNetwork(load(NAME, COUNT)).emit
    text = compile_ptx(kernel.stage([("ldr_x_unsigned", ())], inline=emits).device, "sm_90")
    assert text.count("fma.rn.f32") == 44 * 32 + 32 * 16 + 16 * 7
    assemble(ptxas, text, "sm_90", tmp_path)


def test_inline_has_no_other_policy_beside_it() -> None:
    with pytest.raises(kvrm.UsageError, match="not for a machine with observers or policies"):
        kvrm.Machine(policies={"dispatch": "inline", "loops": "rule"})
