"""The memory network: arithmetic, training, commands, and learning while a guest runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kvrm
from kvrm.caches.rewards import PAGES, Examples, examples_of
from kvrm.caches.sites import CONFIGS, Config, Kind, Questions
from kvrm.caches.traces import Trace
from kvrm.errors import UsageError
from kvrm.neural import memory_evaluation as evaluation
from kvrm.neural import memory_network as network
from kvrm.neural import memory_online as online
from kvrm.neural import memory_training as training
from kvrm.neural.weights import SHIPPED, hash_of, load
from patience import SECONDS
from places import GUESTS


def cli(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kvrm", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, input=stdin, env=os.environ, timeout=SECONDS
    )


def questions(n: int, seed: int = 0) -> Questions:
    rng = np.random.default_rng(seed)
    address = np.cumsum(rng.integers(-200, 200, (n, 16)), axis=1) + (1 << 20)
    retired = np.cumsum(rng.integers(1, 50, (n, 16)), axis=1)
    words = np.where(rng.integers(0, 2, n), 0xF9400020, 0xB8617800).astype(np.uint32)
    return Questions(words, address, retired, rng.integers(0, 3, (n, 16)))


def examples(n: int, seed: int = 0) -> Examples:
    """Sites whose register offset (word 0xB8617800) asks for the next line, the others for nothing."""
    q = questions(n, seed)
    rewards = np.full((n, len(CONFIGS)), -500.0)
    rewards[:, 0] = 0
    rewards[q.words == 0xB8617800, CONFIGS.index(Config(Kind.FIXED, 64))] = 1000
    return Examples(q, rewards, np.zeros(n, np.int64))


def streams() -> Trace:
    """Two sites with a stride, one with noise."""
    n = 90000
    rng = np.random.default_rng(0)
    site = np.tile(np.arange(3, dtype=np.int32), n // 3)
    k = np.arange(n) // 3
    noise = rng.integers(0, 1 << 24, n)
    address = np.choose(site, [k * 64 + (1 << 28), k * 256 + (1 << 29), noise + (1 << 30)])
    words = np.array([0xF9400020, 0xB8617800, 0x39400020], np.uint32)
    pcs = np.arange(3, dtype=np.uint64) * 4
    return Trace(pcs, words, site, address, np.arange(n) * 10, np.full(n, 8, np.uint8), np.zeros(n, bool))


@pytest.fixture(scope="module")
def trace_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("traces")
    streams().save(directory / "streams.npz")
    other = streams()
    Trace(
        other.pc, other.words, other.site, other.address[::-1].copy(), other.retired, other.size, other.write
    ).save(directory / "backwards.npz")
    return directory


# -- the network -------------------------------------------------------------------------------------------


def test_the_count_is_that_of_the_shapes() -> None:
    layers = 10 * 64 + 64 + 64 * 64 + 64
    lstms = 512 * (64 + 128) + 512 + 512 * (128 + 128) + 512
    heads = (128 + 16) * 192 + 192 + 192 * 28 + 28
    assert layers + lstms + heads == network.COUNT == 268_508
    assert network.OUTPUTS == len(CONFIGS) + len(PAGES) == 28


def test_every_parameter_runs() -> None:
    """The loss depends on each of them."""
    flat = network.random_weights(0)
    q = questions(300)
    rng = np.random.default_rng(0)
    accesses, fields = network.accesses_of(q), rng.integers(0, 2, (300, 16)).astype(np.float32)
    wanted = rng.normal(0, 1, (300, network.OUTPUTS)).astype(np.float32)
    gradient, _ = training.gradient_of(flat, accesses, fields, wanted, np.ones(300, np.float32))
    for name, part in network.parts_of(gradient).items():
        # some of the units with ReLU never fire
        assert (part != 0).mean() > 0.8, name


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    rng, flat = np.random.default_rng(0), network.random_weights(1)
    q = questions(16)
    batch = [network.accesses_of(q), rng.integers(0, 2, (16, 16)).astype(np.float32)]
    wanted = np.concatenate([rng.uniform(-1, 1, (16, 24)), np.eye(4)[rng.integers(0, 4, 16)]], axis=1)
    batch += [wanted.astype(np.float32), rng.uniform(0.5, 2, 16).astype(np.float32)]
    mask = training.kept(rng, (16, network.HIDDEN), 0.3)
    gradient, _ = training.gradient_of(flat, *batch, mask)
    at = 0
    for name, shape in network.SHAPES.items():
        size = int(np.prod(shape))
        k = at + int(np.abs(gradient[at : at + size]).argmax())
        losses = []
        for by in (1e-2, -1e-2):
            moved = flat.copy()
            moved[k] += by
            losses.append(training.gradient_of(moved, *batch, mask)[1])
        assert gradient[k] == pytest.approx((losses[0] - losses[1]) / 2e-2, rel=0.03, abs=1e-4), name
        at += size


def test_it_sees_steps_and_no_addresses() -> None:
    q = questions(20)
    moved = Questions(q.words, q.address + (77 << 12), q.retired + 1000, q.missed)
    assert (network.accesses_of(q) == network.accesses_of(moved)).all()


def test_the_fields_of_instructions() -> None:
    words = {
        "ldr x0, [x0]": (0xF9400000, {0, 2, 3, 7, 8, 9, 12}),
        "str x1, [sp, #8]": (0xF90007E1, {2, 3, 7, 8, 10}),
        "ldp x0, x1, [x2], #16": (0xA8C10440, {0, 1, 5, 8, 15}),
        "ldr w0, [x1, x2, lsl #2]": (0xB8627820, {0, 2, 4, 8, 13}),
        "ldr q0, [x1], #16": (0x3CC10420, {0, 2, 5, 6, 15}),
    }
    fields = network.fields_of(np.array([word for word, _ in words.values()], np.uint32))
    for row, (name, (_, expected)) in zip(fields, words.items(), strict=True):
        assert set(np.flatnonzero(row)) == expected, name


def test_training_learns_what_a_field_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "BATCH", 32)
    monkeypatch.setattr(training, "RATE", 1e-3)
    told: list[float] = []
    flat = training.train(0, 75, examples(200), examples(60, 1), lambda _, share: told.append(share))
    assert told[0] < 0.7 and max(told) > told[0] + 0.2
    assert training.share_of_best(flat, examples(60, 1)) == max(told)
    again = [training.train(3, 3, examples(50), examples(50, 1), lambda *_: None) for _ in range(2)]
    assert (again[0] == again[1]).all()


def test_the_shipped_weights_are_those_of_the_manifest() -> None:
    flat = load(network.NAME, network.COUNT)
    manifest = json.loads((SHIPPED / f"{network.NAME}.json").read_text())
    assert manifest["weights_sha256"] == hash_of(flat) and manifest["parameters"] == network.COUNT
    assert len(manifest["data"]["traces"]) > 20 and manifest["data"]["examples"] > 1000


def test_rewards_say_which_config_is_right() -> None:
    found, sites = examples_of(streams())
    by_site = dict(zip(sites.tolist(), found.rewards, strict=True))
    assert set(by_site) == {0, 1, 2}
    for site in (0, 1):
        assert by_site[site].max() > 100_000 and CONFIGS[by_site[site].argmax()].kind is not Kind.TEMPORAL
    assert by_site[2].max() < 20_000
    assert PAGES[found.pages[sites.tolist().index(1)]] == "next"


# -- evaluation --------------------------------------------------------------------------------------------


def test_rows_of_a_trace() -> None:
    rows = [*evaluation.rows_of("streams", streams(), {evaluation.NETWORK: network.random_policy(1)})]
    by = {row.policy: row for row in rows}
    assert evaluation.kind_of(rows) == "regular"
    assert by["stride"].after.coverage > 0.6 and by["none"].gain == 0
    best = by[evaluation.PERFECT].gain
    assert best > 0.5 and all(row.gain <= best + 0.01 for row in rows)
    assert by["best config of each site"].gain > 0.3
    asked = by[evaluation.NETWORK]
    assert asked.inference == 3 * 16 * 3200 and asked.net_gain < asked.gain
    assert by["random weights"].bytes == 4 * network.COUNT


def test_commands(trace_directory: Path, tmp_path: Path) -> None:
    done = cli("train", "memory", "--traces", trace_directory, "--out", tmp_path, "--steps", 2, "--seeds", 2)
    assert done.returncode == 0, done.stderr
    assert {p.stem for p in tmp_path.iterdir()} == {
        network.NAME,
        f"{network.NAME}-seed0",
        f"{network.NAME}-seed1",
    }
    told = tmp_path / "figures.json"
    options = ["--traces", trace_directory, "--weights", tmp_path, "--json", told]
    done = cli("evaluate", "memory", *options, "--plots", tmp_path / "p")
    assert done.returncode == 0, done.stderr
    drawn = {path.name for path in (tmp_path / "p").iterdir()}
    assert {f"memory-regular{name}.svg" for name in ("", "-gain", "-cost")} <= drawn
    assert "perfect future gains" in done.stdout and "network, seed1" in json.dumps(
        json.loads(told.read_text())
    )
    done = cli(
        "evaluate", "memory", "--traces", trace_directory, "--weights", tmp_path, "--aba", "streams,backwards"
    )
    assert done.returncode == 0 and "A again" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--learn", "dispatch", "{hello}"), "does not learn"),
        (("run", "--learn", "loops", "{hello}"), "--learn is for memory"),
        (("run", "--learn", "memory", "--policy", "memory=rule", "{hello}"), "memory=rule does not learn"),
        (("run", "--learn", "memory", "--lanes", "2", "{hello}"), "it is for one lane"),
        (("train", "memory", "--traces", "{empty}"), "no traces"),
        (("train", "memory", "--replay", "{text}"), "no log of learning"),
        (("evaluate", "memory", "--traces", "{traces}", "--aba", "x"), "the names of two traces"),
        (("run", "--policy", "memory=oracle", "{hello}"), "knows the future"),
    ],
)
def test_complaints(arguments: tuple[str, ...], message: str, tmp_path: Path, trace_directory: Path) -> None:
    (tmp_path / "text").write_text("no archive")
    places = {
        "empty": tmp_path,
        "text": tmp_path / "text",
        "hello": GUESTS / "hello",
        "traces": trace_directory,
    }
    done = cli(*(a.format(**places) for a in arguments))
    assert done.returncode == 2 and message in " ".join(done.stderr.split()), done.stderr


# -- learning while a guest runs ---------------------------------------------------------------------------


def test_it_learns_what_comes_again() -> None:
    """Random weights, the same sites in every segment: worth more at the end than frozen ones."""
    learner = online.Learner(network.random_weights(0))
    for k in range(6):
        learner.segment(streams().part(k / 6, (k + 1) / 6))
    shares = learner.lesson.shares(4)
    assert shares["network that learns"] > 0.8 and shares["table that learns"] > 0.8
    assert shares["network, frozen"] < shares["network that learns"]
    assert learner.lesson.training > 0 and learner.lesson.simulating > 0


def test_it_predicts_before_it_learns() -> None:
    """In the first segment the learner knows no more than the frozen network, and the table nothing."""
    learner = online.Learner(network.random_weights(0))
    learner.segment(streams().part(0, 0.2))
    first = learner.lesson.scores[0]
    assert first.worth[0] == first.worth[1] and first.worth[2] == 0
    assert (learner.flat != learner.began).any()


def test_a_log_gives_the_same_weights(tmp_path: Path) -> None:
    learner = online.Learner(network.random_weights(0), seed=5)
    for k in range(3):
        learner.segment(streams().part(k / 3, (k + 1) / 3))
    learner.save_log(tmp_path / "log.npz")
    flat, told = online.replay(tmp_path / "log.npz")
    assert (flat == learner.flat).all() and told == hash_of(flat)


def test_learning_changes_nothing_for_the_guest(tmp_path: Path) -> None:
    plain = cli("run", GUESTS / "primes", "3000")
    log = tmp_path / "log.npz"
    options = ("--policy", "memory=random", "--learn", "memory", "--learn-log", log)
    done = cli("run", *options, GUESTS / "primes", "3000")
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert "share_of_best" in done.stderr


def test_learning_in_a_machine() -> None:
    """Small segments, so that a short program has several."""
    learning = online.Learning(network.random_weights(0), segment=1 << 14)
    machine = kvrm.Machine(GUESTS / "primes", args=["60000"], policies={"memory": learning})
    result = machine.run()
    assert result.stop is kvrm.Stop.EXIT
    plain = kvrm.Machine(GUESTS / "primes", args=["60000"]).run()
    assert (result.stdout, result.retired) == (plain.stdout, plain.retired)
    assert learning.report["weights_sha256"] == hash_of(learning.learner.flat)


def test_dispatch_never_learns() -> None:
    with pytest.raises(UsageError, match="proved"):
        from kvrm.cli.memory import run_learning
        from kvrm.cli.run import Options

        run_learning(GUESTS / "hello", [], Options(), "dispatch", None, stats=False)
