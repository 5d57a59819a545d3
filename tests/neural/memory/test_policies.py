"""Memory policies: what is recorded, the kernels against Python, and guests that notice nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kvrm
from access_traces import synthetic
from kvrm.engine.interpreter.recorder import CHUNK, Accesses
from kvrm.errors import UsageError
from kvrm.neural.memory import cache, network, oracle, sites, tables
from kvrm.neural.memory.cache import COUNTS, DEFAULT, MISSES, Shape, nothing, simulator
from kvrm.neural.memory.kernel import Array, Kernel
from kvrm.neural.memory.rewards import examples_of
from kvrm.neural.memory.session import PolicySession, Session
from kvrm.neural.memory.sites import CONFIGS, Config, Kind, Questions, rule
from kvrm.neural.memory.trace import Recording, Trace
from places import GUESTS

PROGRAMS = {"hello": [], "primes": ["1000"], "sha256": [], "expression": [], "mandelbrot": ["20", "50"]}
STDIN = "(1 + 2) * 3\n"
SMALL = Shape(l1_bytes=1024, l1_ways=2, l2_bytes=8192, l2_ways=4)


def run(program: str, policy: object | None, **more: object) -> kvrm.Result:
    policies = {} if policy is None else {"memory": policy}
    machine = kvrm.Machine(
        GUESTS / program, args=PROGRAMS[program], stdin=STDIN.encode(), policies=policies, **more
    )
    return machine.run(max_instructions=20_000_000)


def recorded(program: str) -> Trace:
    recording = Recording()
    run(program, recording)
    return recording.trace()


def bare(code: str, policy: object) -> kvrm.Machine:
    machine = kvrm.Machine(policies={"memory": policy})
    machine.write_memory(0x1000, bytes.fromhex(code))
    machine.set_pc(0x1000)
    return machine


# -- recording ---------------------------------------------------------------------------------------------


def traced(program: str, count: int) -> list[tuple[int, int, int, int, bool]]:
    """(retired, pc, address, size, write) of each access, as the reference engine does them one by one."""
    command = [sys.executable, "-m", "kvrm", "run", "--max-instructions", str(count), GUESTS / program]
    env = os.environ | {"KVRM_TRACE": "insn,mem"}
    command += PROGRAMS[program]
    done = subprocess.run(command, capture_output=True, text=True, input=STDIN, env=env, timeout=300)
    found, retired, pc = [], 0, 0
    for line in done.stderr.splitlines():
        if access := re.match(r"    (read|write) (0x\w+) (\d+) ", line):
            address = int(access[2], 16) & (1 << 56) - 1
            found.append((retired, pc, address, int(access[3]), access[1] == "write"))
        elif instruction := re.match(r"(\d+) (0x\w+): ", line):
            retired, pc = int(instruction[1]), int(instruction[2], 16)
    return found


@pytest.mark.parametrize("program", ["primes", "sha256", "expression"])
def test_what_is_recorded_is_what_the_reference_engine_does(program: str) -> None:
    expected = traced(program, 3000)
    trace = recorded(program)
    columns = (trace.retired, trace.pc[trace.site], trace.address, trace.size, trace.write)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    assert len(expected) > 100 and rows[: len(expected)] == expected


def test_an_access_on_two_pages_is_recorded_once() -> None:
    recording = Recording()
    machine = bare("200040f9010000d4", recording)  # ldr x0, [x1]; svc #0
    machine.write_memory(0x2000, bytes(8192), prot="rw")
    machine.x[1] = 0x2FFC
    assert machine.run(max_instructions=9).stop is kvrm.Stop.SYSCALL
    trace = recording.trace()
    assert trace.address.tolist() == [0x2FFC] and trace.size.tolist() == [8] and not trace.write[0]


def test_what_faults_half_way_is_not_recorded() -> None:
    """stp whose second half is on a page that is not there: its first half is not noted."""
    recording = Recording()
    machine = bare(
        "400000f920 0400a9".replace(" ", "") + "010000d4", recording
    )  # str x0, [x2]; stp x0, x1, [x1]
    machine.write_memory(0x2000, bytes(4096), prot="rw")
    machine.x[1], machine.x[2] = 0x2FF8, 0x2010
    result = machine.run(max_instructions=9)
    assert result.stop is not kvrm.Stop.SYSCALL and result.pc == 0x1004
    assert recording.trace().address.tolist() == [0x2010]


def test_a_store_that_does_not_happen_is_not_recorded() -> None:
    """stxr without a reservation."""
    recording = Recording()
    machine = bare("207c03c8410000f9010000d4", recording)  # stxr w3, x0, [x1]; str x1, [x2]; svc #0
    machine.write_memory(0x2000, bytes(4096), prot="rw")
    machine.x[1], machine.x[2] = 0x2000, 0x2040
    assert machine.run(max_instructions=9).stop is kvrm.Stop.SYSCALL
    assert recording.trace().address.tolist() == [0x2040]


def test_chunks_join() -> None:
    """More instructions than the buffer has room for: nothing is lost between two looks."""
    parts: list[Accesses] = []

    class Kept(Recording):
        def feed(self, a: Accesses) -> None:
            parts.append(a)
            super().feed(a)

    recording = Kept()
    machine = bare("200040f9420400f1c1ffff54010000d4", recording)  # ldr; subs x2, x2, #1; b.ne; svc
    machine.write_memory(0x2000, bytes(4096), prot="rw")
    machine.x[1], machine.x[2] = 0x2000, CHUNK
    machine.run()
    assert len(parts) > 2 and (np.diff(recording.trace().retired) == 3).all()
    assert len(recording.trace()) == CHUNK


def test_files_of_traces(tmp_path: Path) -> None:
    trace = recorded("sha256")
    path = tmp_path / "sha256.npz"
    trace.save(path)
    again = Trace.load(path)
    assert again.sha256 == trace.sha256 and (again.address == trace.address).all()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(UsageError, match="no trace"):
        Trace.load(path)


# -- kernels -----------------------------------------------------------------------------------------------


def sums(a: Array, n: int) -> int:
    total = 0
    for i in range(1, n):
        if a[i] < 0 or (a[i] > 5 and i != 3):
            continue
        if a[i] == 2:
            break
        total += max(a[i] << 1, 3) - (not a[i])
    while total > 100:
        total -= 7
    return total if n > 2 else -abs(total - 1)


@pytest.mark.parametrize("n", [0, 2, 3, 8, 40])
def test_kernels_do_what_python_does(n: int) -> None:
    a = np.random.default_rng(n).integers(-3, 9, 40)
    assert Kernel(sums)(a, n) == sums(a, n)


def test_kernels_want_contiguous_int64() -> None:
    with pytest.raises(ValueError, match="contiguous int64"):
        Kernel(sums)(np.zeros(4, np.int32), 4)
    with pytest.raises(ValueError, match="contiguous int64"):
        Kernel(sums)(np.zeros(8, np.int64)[::2], 4)


def mixture(n: int) -> tuple[Array, ...]:
    """Streams, a permutation that comes again and noise, by several sites."""
    rng = np.random.default_rng(1)
    site = rng.integers(0, 6, n)
    chain = rng.permutation(64) * 64
    count = np.zeros(6, np.int64)
    address = np.zeros(n, np.int64)
    for i, s in enumerate(site.tolist()):
        k = int(count[s])
        steps = (
            64 * k,
            24 * k,
            int(chain[k % 64]),
            -128 * k,
            192 * (k // 2) + 8 * (k % 2),
            int(rng.integers(1 << 14)),
        )
        address[i], count[s] = (s + 1 << 24) + steps[s], k + 1
    return site, address, np.arange(n, dtype=np.int64) * 7, rng.integers(0, 2, n)


@pytest.mark.parametrize("name", ["nothing", "engine", *tables.TABLES])
def test_native_caches_and_prefetchers_are_those_of_python(name: str) -> None:
    """The same functions, compiled and not, over the same accesses: every counter and every table entry."""
    site, address, retired, write = mixture(1500)

    def fresh() -> tuple[Callable[..., int], Array]:
        if name == "nothing":
            return nothing, np.zeros(1, np.int64)
        if name == "engine":
            table = np.zeros(sites.F_SITES + 6 * sites.F_WIDTH, np.int64)
            kinds = (Config(Kind.FIXED, 0, 4, 2), Config(Kind.RUNNING, 0, 2), Config(Kind.TEMPORAL, 0, 1, 2))
            chosen = [*kinds, Config(Kind.DELTAS, 0, 1, 2), Config(Kind.FIXED, 64, 1, 1), Config()]
            rows = table[sites.F_SITES :].reshape(6, -1)
            for row, c in zip(rows, chosen, strict=True):
                row[: sites.F_LAST] = (c.kind, c.stride or 64, c.distance, c.degree)
            return sites.engine, table
        return tables.TABLES[name].propose, tables.TABLES[name].fresh()

    ends = []
    for native in (True, False):
        propose, table = fresh()
        kernel = simulator(propose)
        model = SMALL.model()
        l1, l2 = np.zeros(16 * cache.WIDTH, np.int64), np.zeros(128, np.int64)
        counts, missed = np.zeros(6 * COUNTS, np.int64), np.zeros(len(site), np.int64)
        stream = (site, address, retired, write, missed, len(site), 0)
        call = kernel if native else kernel.function
        call(*stream, l1, l2, model, counts, table, np.zeros(2, np.int64))
        ends.append([array.tolist() for array in (missed, l1, l2, model, counts, table)])
    assert ends[0] == ends[1]
    if name not in ("nothing", "isb"):
        assert sum(ends[0][4][cache.USEFUL :: COUNTS]) > 0


def lru(lines: list[int], count: int, ways: int) -> int:
    """Misses of a cache, written once more: a list for each set."""
    kept: list[list[int]] = [[] for _ in range(count)]
    misses = 0
    for line in lines:
        own = kept[line % count]
        if line in own:
            own.remove(line)
        else:
            misses += 1
        own.insert(0, line)
        del own[ways:]
    return misses


@pytest.mark.parametrize("program", ["sha256", "mandelbrot", "primes"])
def test_misses_are_those_of_lru(program: str) -> None:
    trace = recorded(program)
    session = Session(nothing, np.zeros(1, np.int64), SMALL)
    session.feed(*trace.stream())
    assert session.outcome.misses == lru((trace.address >> 6).tolist(), 8, 2) > 0
    assert session.counts[:, MISSES].sum() == session.outcome.misses


def test_the_model_of_time() -> None:
    """A load from memory waits 12 + 100; the next one 6 more, because memory is busy; a hit in L1 nothing."""
    session = Session(nothing, np.zeros(1, np.int64))
    session.feed(*synthetic([0x10000, 0x10008, 0x20000], gap=1).stream())
    assert session.outcome.stalled == 112 + 112 and session.outcome.misses == 2
    late = synthetic([0x10000, 0x20000], gap=0)
    both = Session(nothing, np.zeros(1, np.int64))
    both.feed(*late.stream())
    assert both.outcome.stalled == 112 + 112  # it waited for the first before it asked for the second


def test_a_prefetched_line_saves_what_it_is_early() -> None:
    """Next line, then a use of it 50 cycles later: 112 + 6 to come, the rest is waited for."""
    table = tables.TABLES["next line"]
    session = Session(table.propose, table.fresh())
    session.feed(*synthetic([0x10000, 0x10040], gap=50).stream())
    o = session.outcome
    # asked for at 0 as the second after the demanded line, there at 118; the use is at 112 + 50
    assert (o.misses, o.useful, o.late, o.stalled) == (1, 1, 0, 112)
    soon = Session(table.propose, table.fresh())
    soon.feed(*synthetic([0x10000, 0x10040], gap=0).stream())
    assert (soon.outcome.late, soon.outcome.stalled) == (1, 112 + 6)


# -- prefetchers and configs -------------------------------------------------------------------------------


def outcome_of(trace: Trace, name: str) -> float:
    session = Session(tables.TABLES[name].propose, tables.TABLES[name].fresh())
    session.feed(*trace.stream())
    return session.outcome.coverage


def test_each_table_finds_what_it_is_for() -> None:
    stream = synthetic(np.arange(30000) * 192 + (1 << 20))
    for name in ("stride", "berti", "delta-markov-2+pc", "best-offset"):
        assert outcome_of(stream, name) > 0.9, name
    chain = np.tile(np.random.default_rng(0).permutation(3000), 6) * 64 + (1 << 20)
    for name in ("markov", "isb"):
        assert outcome_of(synthetic(chain), name) > 0.3, name
    assert outcome_of(synthetic(chain), "stride") < 0.05


def test_budgets_in_bytes() -> None:
    sizes = {name: table.bytes for name, table in tables.TABLES.items()}
    assert sizes["next line"] == 0 and sizes["stride"] == 256 * 76 // 8
    assert 2000 < sizes["berti"] < 2560
    assert len(tables.OFFSETS) == 52 and tables.OFFSETS[-1] == 256


def decided(trace: Trace, config: Config) -> PolicySession:
    number = CONFIGS.index(config)
    session = PolicySession(lambda q: np.full(len(q), number))
    session.words = trace.words
    session.feed(*trace.stream())
    return session


def test_configs_do_what_they_say() -> None:
    stream, back = np.arange(20000) * 192 + (1 << 20), (1 << 30) - np.arange(20000) * 64
    chain = np.tile(np.random.default_rng(0).permutation(5000), 6) * 64 + (1 << 20)
    best = {Config(Kind.FIXED, 0, 8, 1): stream, Config(Kind.RUNNING, 0, 8, 1): stream}
    best |= {Config(Kind.FIXED, -64, 1, 1): back, Config(Kind.TEMPORAL, 0, 1, 1): chain}
    best |= {Config(Kind.DELTAS, 0, 1, 1): stream}
    for config, addresses in best.items():
        outcome = decided(synthetic(addresses), config).outcome
        assert outcome.coverage > 0.35 and outcome.accuracy > 0.5, config
    assert decided(synthetic(stream), Config()).outcome.issued == 0


def test_the_rule() -> None:
    steady, noise = np.arange(16) * 8, np.random.default_rng(0).integers(0, 1 << 20, 16)
    address = np.stack([steady, noise]).astype(np.int64)
    q = Questions(np.zeros(2, np.uint32), address, address * 0, address * 0)
    assert [CONFIGS[c].kind for c in rule(q)] == [Kind.FIXED, Kind.FIXED]
    assert [CONFIGS[c].stride for c in rule(q)] == [0, 64]


def test_sites_are_asked_about_once_from_their_last_accesses() -> None:
    asked: list[Questions] = []

    def policy(q: Questions) -> Array:
        asked.append(q)
        return np.zeros(len(q), np.int64)

    session = PolicySession(policy)
    trace = synthetic(np.arange(9000) * 64 + 4096)
    session.words = trace.words
    session.feed(*trace.stream())
    (q,) = asked
    assert q.address.tolist() == [[4096 + 64 * i for i in range(16)]] and q.words.tolist() == [0xF9400020]
    assert (q.missed == 1).all() and session.asked == [0]


def test_a_policy_that_answers_nonsense() -> None:
    session = PolicySession(lambda q: np.full(len(q), len(CONFIGS)))
    trace = synthetic(np.arange(100) * 64)
    session.words = trace.words
    with pytest.raises(UsageError, match="a config below"):
        session.feed(*trace.stream())


def test_the_perfect_future_leaves_next_to_nothing() -> None:
    noise = np.random.default_rng(0).integers(0, 1 << 24, 30000)
    trace = synthetic(noise, gap=40)
    before = Session(nothing, np.zeros(1, np.int64))
    before.feed(*trace.stream())
    o = oracle.perfect(trace).outcome
    assert o.accuracy > 0.99 and o.coverage > 0.99 and o.timeliness > 0.98
    assert before.outcome.stalled > before.outcome.retired and o.stalled < 0.02 * o.retired


def test_hindsight_is_better_than_the_rule_where_the_rule_is_wrong() -> None:
    chain = np.tile(np.random.default_rng(0).permutation(5000), 6) * 64 + (1 << 20)
    trace = synthetic(chain)
    best = oracle.Hindsight(trace)
    best.feed(*trace.stream())
    hand = PolicySession(rule)
    hand.words = trace.words
    hand.feed(*trace.stream())
    assert best.outcome.cycles < hand.outcome.cycles
    examples, numbers = examples_of(trace)
    assert numbers.tolist() == [0] and CONFIGS[examples.rewards[0].argmax()].kind is Kind.TEMPORAL


# -- in a machine ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_policy_changes_nothing_for_the_guest(program: str) -> None:
    plain = run(program, None)
    for policy in ("rule", "table", "network", network.random_policy(1), network.random_policy(2)):
        result = run(program, policy)
        for name in ("stop", "retired", "exit_code", "stdout", "stderr", "pc"):
            assert getattr(result, name) == getattr(plain, name)


def test_the_report_says_what_would_have_been_prefetched() -> None:
    machine = kvrm.Machine(GUESTS / "sha256", policies={"memory": "rule"})
    machine.run()
    report = machine.policies["memory"].report
    assert report["accesses"] > 1000 and report["sites"] > 30
    assert report["asked"] == sum(report["configs"].values())


def test_pieces_of_a_run_come_to_the_same() -> None:
    whole = kvrm.Machine(GUESTS / "sha256", policies={"memory": "table"})
    whole.run()
    parts = kvrm.Machine(GUESTS / "sha256", policies={"memory": "table"})
    while parts.run(max_instructions=7777).stop is kvrm.Stop.BUDGET:
        pass
    assert parts.policies["memory"].report == whole.policies["memory"].report


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policies": {"memory": "oracle"}}, "knows the future"),
        ({"policies": {"memory": "best"}}, "no policy memory=best"),
        ({"policies": {"memory": "rule"}, "lanes": 2}, "on target cpu a memory policy is for one lane"),
        ({"policies": {"memory": Recording()}, "target": "cuda"}, "what records accesses"),
        ({"policies": {"memory": "rule"}, "engine": "tiered"}, "a memory policy is for engine interpreter"),
    ],
)
def test_where_it_cannot_be(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        kvrm.Machine(**options)


def test_it_has_no_forks() -> None:
    with pytest.raises(UsageError, match="on target cpu a memory policy is for one lane"):
        kvrm.Machine(GUESTS / "hello", policies={"memory": "rule"}).fork(2)


def test_default_caches() -> None:
    assert DEFAULT.model()[:4].tolist() == [255, 3 + 1, 2047, 8]
