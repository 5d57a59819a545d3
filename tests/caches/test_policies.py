"""Memory policies: what each proposes, and guests that notice nothing."""

from __future__ import annotations

import numpy as np
import pytest

import kvrm
from access_traces import PROGRAMS, run, synthetic
from kvrm.caches import oracle, tables
from kvrm.caches.cache import DEFAULT, nothing
from kvrm.caches.rewards import examples_of
from kvrm.caches.session import PolicySession, Session
from kvrm.caches.sites import CONFIGS, Config, Kind, Questions, rule
from kvrm.caches.traces import Recording, Trace
from kvrm.errors import UsageError
from kvrm.neural import memory_network as network
from kvrm.staging.kernel import Array
from places import GUESTS

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
