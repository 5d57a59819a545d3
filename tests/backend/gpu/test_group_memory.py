"""Memory policies on target "cuda": what is prefetched, pages made ready, and lanes that notice nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import device_on_host
import kvrm
from access_traces import synthetic
from cuda_tools import PAGE, Op, alike, mapping, result, run, script
from kvrm.backend.gpu import device_engine, device_lanes, kernel
from kvrm.backend.gpu.image import ENTRY
from kvrm.backend.gpu.prefetch import packed
from kvrm.caches import tables
from kvrm.caches.ahead import steps_of
from kvrm.caches.session import PolicySession, Session
from kvrm.caches.sites import CONFIGS, Config, Kind, Questions
from kvrm.isa.a64 import definitions
from kvrm.isa.definition import Execution
from kvrm.machine.policies import make_policies
from kvrm.neural import memory_network as network
from kvrm.staging.ptx import compile_ptx
from lane_tools import Do, facts, lanes_of, machine, mixture
from ptx_tools import assemble

DATA = 0x10000
TO = slice(DATA + 0x10000, DATA + 0x12000)
NEXT, BOTH, FAR = Config(Kind.FIXED, 64, 1, 1), Config(Kind.FIXED, 64, 1, 2), Config(Kind.FIXED, 0, 16, 1)


def always(config: Config) -> Callable[[Questions], Any]:
    """The policy that gives every site this config."""
    return lambda q: np.full(len(q), CONFIGS.index(config))


POLICIES = ("rule", "table", "network", network.random_policy(1), always(BOTH), always(FAR))


# -- from answers to steps ---------------------------------------------------------------------------------
def steps(addresses: Sequence[int], config: Config) -> list[int]:
    session = PolicySession(always(config))
    trace = synthetic(list(addresses))
    session.words = trace.words
    session.feed(*trace.stream())
    return steps_of(session).get(0, [])


def test_what_answers_come_to() -> None:
    stream = range(1 << 20, (1 << 20) + 200 * 9000, 200)
    assert steps(stream, NEXT) == [64] and steps(stream, BOTH) == [64, 128]
    assert steps(stream, Config(Kind.FIXED, -64, 1, 2)) == [-64, -128]
    assert steps(stream, Config(Kind.FIXED, 0, 4, 2)) == [800, 1000]
    assert steps(stream, Config(Kind.RUNNING, 0, 4, 1)) == [800]
    lines = range(1 << 20, (1 << 20) + 64 * 9000, 64)
    deltas = steps(lines, Config(Kind.DELTAS, 0, 1, 2))
    assert deltas and all(step > 0 and step % 64 == 0 for step in deltas)
    assert steps(stream, Config()) == steps(stream, Config(Kind.TEMPORAL)) == []
    noise = (np.random.default_rng(0).integers(0, 1 << 20, 9000) * 8).tolist()
    assert steps(noise, Config(Kind.DELTAS, 0, 1, 1)) == []


def test_the_steps_of_the_table() -> None:
    """One offset for all sites that miss."""
    best = tables.TABLES["best-offset"]
    session = Session(best.propose, best.fresh())
    session.feed(*synthetic(np.arange(30000) * 192 + (1 << 20)).stream())
    ((step,),) = steps_of(session).values()
    assert step > 0 and step % 192 == 0
    other = tables.TABLES["markov"]
    with pytest.raises(ValueError, match="no steps of markov"):
        steps_of(Session(other.propose, other.fresh()))


def test_steps_in_a_slot() -> None:
    assert packed([64, -128]) == bytes.fromhex("400080ff") and packed([4096, 0, 8]) == bytes.fromhex(
        "08000000"
    )


def test_which_instructions_can_prefetch() -> None:
    """Not those of other classes, nor the few whose operands fill a slot."""
    one = {d.key: (d.key, (0,) * len(d.statics)) for d in definitions}
    can = {key for key, variant in one.items() if kernel.can_prefetch(variant)}
    classes = {d.key: d.execution for d in definitions}
    assert {classes[key] for key in can} == {Execution.LOAD_STORE}
    cannot = {key for key, work in classes.items() if work is Execution.LOAD_STORE} - can
    assert len(can) > 300 and all("4" in key and key.endswith("_post") for key in cannot)


def test_prefetches_assemble(ptxas: str, tmp_path: Path) -> None:
    """NVIDIA's assembler accepts them."""
    variants = [("ldr_x_unsigned", ())]
    text = compile_ptx(kernel.stage(variants, prefetching=[0]).device, "sm_90")
    assert text.count("prefetch.global.L1") == 2
    assemble(ptxas, text, "sm_90", tmp_path)


# -- in a machine ------------------------------------------------------------------------------------------
def copier(policy: object | None, **more: Any) -> kvrm.Machine:
    """Loads a thousand words from DATA on and stores them to TO."""
    policies = {} if policy is None else {"memory": policy}
    m = kvrm.Machine(policies=policies, engine="interpreter", target="cuda", **more)
    # ldr x3, [x0], #8; str x3, [x1], #8; subs x2, x2, #1; b.ne to the first; svc #0
    m.write_memory(0x1000, bytes.fromhex("038440f8238400f8420400f1a1ffff54010000d4"), prot="rx")
    m.write_memory(DATA, np.arange(1024).astype("<u8").tobytes(), prot="r")
    m.write_memory(DATA + 0x10000, b"\xa5" * 8192, prot="rw")
    m.x[0], m.x[1], m.x[2] = DATA, DATA + 0x10000, 1000
    m.set_pc(0x1000)
    return m


def copied() -> np.ndarray:
    """What is in TO then."""
    words = np.full(1024, int.from_bytes(b"\xa5" * 8, "little"), np.uint64)
    words[:1000] = np.arange(1000)
    return words.view(np.uint8)


def test_what_is_prefetched(place: str) -> None:
    """The word that is that many bytes ahead, in a page that lanes share and in their own, not beyond."""
    lanes = copier(always(Config(Kind.FIXED, 0, 4, 1))).fork(1)
    lanes.keep = (TO,)
    results = lanes.run()
    assert results.stops == {kvrm.Stop.SYSCALL: 1} and lanes.backend.code.sites == 2
    assert (results.memory[TO] == copied()).all()
    if place == "host":
        inside = [k for k in range(1000) if k % 512 < 508]
        # a store that has just got its copy of a page does not know where it is
        expected = [byte for k in inside for byte in ((k + 4) % 256, 0xA5)[: 2 if k % 512 else 1]]
        assert device_on_host.prefetches(lanes.backend.code) == (len(expected), expected)


@pytest.mark.parametrize("policy", POLICIES, ids=["rule", "table", "network", "random", "both", "far"])
def test_lanes_are_as_without(place: str, policy: object) -> None:
    what, number = mixture(120)
    want = lanes_of(machine("interpreter", target="cpu"), what, number).run(2000)
    many = lanes_of(machine("interpreter", target="cuda", policies={"memory": policy}), what, number)
    many.registers["x0"][0], many.registers["x1"][0] = what[0], number[0]
    got = many.run(2000)
    for lane in range(len(what)):
        assert facts(got, lane) == facts(want, lane), (Do(int(what[lane])), int(number[lane]))


@pytest.mark.parametrize("policy", ["rule", "network", "random"])
def test_programs_are_as_without(place: str, policy: str, examples: Path) -> None:
    for name, options in {
        "sha256": {"stdin": [b"x" * 9000, b"", b"abc"]},
        "primes": {"args": [["3000"], ["500"], ["20"]], "lanes": 3},
    }.items():
        want = run("cpu", examples / name, **options)
        alike(want, run("cuda", examples / name, policies={"memory": policy}, **options))


@pytest.mark.parametrize("policy", ["rule", "table", "network", "random"])
def test_one_lane_is_as_without(place: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes to the device after some instructions, and on with its budget, its breakpoints and its code."""
    monkeypatch.setattr(device_engine, "PROFILED", 1500)
    plain, other = copier(None), copier(policy)
    for m in (plain, other):
        m.breakpoints = {0x1008}
    for budget in (7, 7, 1490, 3, 9, 1000):
        a, b = (m.run(max_instructions=budget) for m in (plain, other))
        assert (a.stop, a.retired, a.pc, plain.x[2]) == (b.stop, b.retired, b.pc, other.x[2])
    for m in (plain, other):
        m.breakpoints = set()
        assert m.run().stop is kvrm.Stop.SYSCALL
    assert plain.memory[TO] == other.memory[TO]
    assert plain.retired == other.retired
    if place == "host" and policy == "rule":
        assert device_on_host.prefetches(other.lane.engine.code)[0] > 0


def test_a_breakpoint_where_the_device_takes_over(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_engine, "PROFILED", 6)
    m = copier("rule")
    m.breakpoints = {0x1008}
    stops = [(m.run(max_instructions=50).stop, m.retired) for _ in range(3)]
    assert stops == [(kvrm.Stop.BREAKPOINT, retired) for retired in (2, 6, 10)]


# -- pages made ready --------------------------------------------------------------------------------------
def test_lanes_do_not_own_what_is_ready(place: str) -> None:
    many = copier("rule").fork(40)
    many.run(1)
    lanes = many.backend.device
    assert lanes.ready == [(DATA + 0x10000) // PAGE, (DATA + 0x11000) // PAGE]
    table = lanes._tables.read(np.empty(lanes._tables.size // ENTRY.itemsize, ENTRY))
    assert np.count_nonzero(table["slab"]) == 4 and not table["own"].any()
    assert many.run().stops == {kvrm.Stop.SYSCALL: 40}
    table = lanes._tables.read(table)
    assert np.count_nonzero(table["own"]) == 4 and np.count_nonzero(table["slab"]) == 4


def test_a_page_that_comes_again_is_empty(place: str, calls: Path) -> None:
    """What lanes wrote to a page that was ready is not there when the address is mapped again."""
    ops: list[Op] = [mapping(PAGE), ("store", result(0, 8), 77), ("munmap", result(0), PAGE), mapping(PAGE)]
    ops += [("store", result(3), 1), ("load", result(3, 8)), ("load", result(3))]
    found = []
    for target in ("cpu", "cuda"):
        m = kvrm.Machine(calls, stdin=script(ops), target="cpu", engine="interpreter")
        before = {region.start for region in m.lane.memory.regions()}
        while not (new := {region.start for region in m.lane.memory.regions()} - before):
            m.run(max_instructions=1)
        m.target, m.policies = target, make_policies({"memory": "rule"}) if target == "cuda" else {}
        lanes = m.fork(3)
        found.append(lanes.run())
    alike(*found)
    assert {start // PAGE for start in new} <= set(lanes.backend.device.ready) and lanes.left_device == 0


def test_limits_count_what_is_written(place: str, calls: Path) -> None:
    """Lane 0 writes all pages, which are then ready for those that write fewer."""
    touches: list[Op] = [("store", result(0, page * PAGE), 1) for page in range(12)]
    texts = [script([mapping(12 * PAGE), *touches[:n]]) for n in (12, 10, 8, 6, 4, 2, 0)]
    options = {"stdin": texts, "memory_limit": 12 * PAGE}
    results = alike(run("cpu", calls, **options), run("cuda", calls, policies={"memory": "rule"}, **options))
    assert results.stops[kvrm.Stop.OUT_OF_MEMORY] and results.stops[kvrm.Stop.EXIT]


def test_a_pool_that_is_too_small(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many pages are ready as there is room for."""
    monkeypatch.setattr(device_lanes.Pool, "grow", small(device_lanes.Pool.grow))
    many = copier("rule").fork(100)
    many.keep = (TO,)
    memory = many.run().memory[TO]
    assert (memory == copied()).all() and many.backend.device._pool.limit < 6


def small(grow: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def grown(pool: Any) -> bool:
        pool._wanted = 5
        return grow(pool)

    return grown


def test_again_from_the_beginning(place: str) -> None:
    many = copier("rule").fork(5)
    many.registers["x2"] = [1000, 5, 100, 600, 1]
    many.keep = (TO,)
    first = many.run().memory[TO]
    many.reset()
    many.registers["x2"] = [1, 600, 100, 5, 1000]
    again = many.run().memory[TO]
    assert (first == again[::-1]).all()
