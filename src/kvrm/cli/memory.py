"""`kvrm train memory`, `kvrm evaluate memory` and `kvrm run --learn memory`."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import kvrm
from kvrm.caches.rewards import TRAINED, Examples, examples_in
from kvrm.caches.traces import Trace, traces_in
from kvrm.cli import charts
from kvrm.cli.charts import Chart
from kvrm.cli.columns import columns
from kvrm.cli.exits import Exit
from kvrm.cli.networks import commit, write_weights
from kvrm.cli.run import Options, chosen_policies, run_program
from kvrm.neural import memory_network as network
from kvrm.neural.memory_evaluation import PERFECT, Row, Summary, evaluate, kind_of, summaries, verdict
from kvrm.neural.memory_online import LEARNERS, Learning, forgetting, replay
from kvrm.neural.memory_training import share_of_best, train
from kvrm.neural.weights import SHIPPED, Floats, hash_of, load

STEPS = 150
"""Of training."""
TRACES = Path("traces")
ABA_SEGMENTS = 6
"""Of each trace in `kvrm evaluate memory --aba`."""


# -- training ----------------------------------------------------------------------------------------------


def train_memory(traces: Path | None, directory: Path, seed: int, seeds: int, steps: int | None) -> int:
    """Train with each seed; write all weights, and those that choose best on the later part of the traces."""
    steps, loaded = steps or STEPS, traces_in(traces or TRACES)
    examples = examples_in(loaded, _tell("learned from"))
    later = examples_in(loaded, _tell("kept apart from"), later=True)
    if not examples.rewards.any() or not later.rewards.any():
        raise kvrm.UsageError(f"{traces or TRACES}: traces too short or too quiet to learn from")
    print(f"{len(examples):,} examples to learn from, {len(later):,} later ones to choose by", flush=True)
    made = manifest(loaded, examples, steps)
    directory.mkdir(parents=True, exist_ok=True)
    scored: list[tuple[float, int, Floats]] = []
    for number in range(seed, seed + seeds):
        flat = _watched(number, steps, examples, later)
        share = share_of_best(flat, later)
        print(f"seed {number}: {share:.4f} of what the best config of each later site is worth", flush=True)
        write_weights(directory, f"{network.NAME}-seed{number}", flat, made | {"seed": number})
        scored.append((share, number, flat))
    share, number, flat = max(scored, key=lambda s: s[0])
    write_weights(directory, network.NAME, flat, made | {"seed": number, "share_of_best": share})
    return Exit.OK


def _tell(what: str) -> Callable[[str, int], None]:
    return lambda name, count: print(f"{name}: {count} sites {what}", flush=True)


def manifest(traces: Mapping[str, Trace], examples: Examples, steps: int) -> dict[str, object]:
    """What weights are made from: the traces' hashes, and one of the examples."""
    digest = hashlib.sha256(np.ascontiguousarray(examples.rewards).tobytes()).hexdigest()
    data = {
        "traces": {name: trace.sha256 for name, trace in traces.items()},
        "part": TRAINED,
        "examples": len(examples),
        "rewards_sha256": digest,
    }
    return {"data": data, "commit": commit(), "steps": steps}


def _watched(seed: int, steps: int, examples: Examples, later: Examples) -> Floats:
    began = time.perf_counter()

    def report(step: int, share: float) -> None:
        spent = time.perf_counter() - began
        print(f"seed {seed}: step {step}, {share:.4f} of the best, {spent:.0f} s", flush=True)

    return train(seed, steps, examples, later, report)


# -- learning while a guest runs ---------------------------------------------------------------------------


def run_learning(
    program: Path,
    arguments: Sequence[str],
    options: Options,
    question: str | None,
    log: Path | None,
    *,
    stats: bool,
) -> int:
    """`kvrm run`, with a network for memory that learns from the guest's accesses; say on stderr how it did.

    It begins with the weights that ship, or with random ones for `--policy memory=random`.
    """
    if question != "memory":
        known = "dispatch has one right answer, which is proved: it does not learn"
        raise kvrm.UsageError(
            f"--learn is for memory; {known if question == 'dispatch' else 'say --learn memory'}"
        )
    begin = chosen_policies(options.policies).get("memory", "network")
    if begin not in ("network", "random"):
        raise kvrm.UsageError(f"memory={begin} does not learn; network and random do")
    flat = load(network.NAME, network.COUNT) if begin == "network" else network.random_weights(0)
    learning = Learning(flat)
    code = run_program(program, arguments, options, stats=stats, policies={"memory": learning})
    print(json.dumps(learning.report), file=sys.stderr)
    if log is not None:
        learning.learner.save_log(log)
    return code


def replay_memory(log: Path, directory: Path) -> int:
    """Write the weights that a log leads to; 1 if they are not those that there were."""
    flat, told = replay(log)
    directory.mkdir(parents=True, exist_ok=True)
    write_weights(directory, network.NAME, flat, {"log": log.name, "commit": commit()})
    if hash_of(flat) != told:
        print(f"the run had SHA-256 {told}: not the same")
        return Exit.UNPROVED
    print("the same as in the run, bit for bit")
    return Exit.OK


def evaluate_learning(traces: Path | None, directory: Path | None, names: str) -> int:
    """Learn from one trace, another, and the first again: what is learned, and what is forgotten."""
    where, (a, _, b) = traces or TRACES, names.partition(",")
    if not a or not b:
        raise kvrm.UsageError(f"--aba {names}: it is the names of two traces, A,B")
    first, second = (Trace.load(where / f"{name}.npz") for name in (a, b))
    table = columns("trace", *LEARNERS)
    flat = load(network.NAME, network.COUNT, directory or SHIPPED)
    for name, shares in forgetting(first, second, flat, ABA_SEGMENTS):
        table.add_row(name, *(f"{shares[learner]:.1%}" for learner in LEARNERS))
    Console(highlight=False).print(table)
    return Exit.OK


# -- evaluation --------------------------------------------------------------------------------------------

TITLES = ("policy", "accuracy", "coverage", "in time", "misses gone", "gain", "with inference")


def evaluate_memory(
    traces: Path | None, directory: Path | None, json_file: Path | None, plots: Path | None
) -> int:
    """Every policy on each trace, and over quiet, regular and irregular ones; what the network adds."""
    console = Console(highlight=False)
    loaded = traces_in(traces or TRACES)
    found = evaluate(loaded, directory or SHIPPED, lambda name: console.print(f"running {name}"))
    kinds = {name: kind_of(rows) for name, rows in found.items()}
    for name, rows in found.items():
        before = rows[0].before
        mpki = 1000 * before.misses / before.retired
        bound = next(row.gain for row in rows if row.policy == PERFECT)
        console.print(
            f"\n{name}: {kinds[name]}; {mpki:.1f} misses in 1,000 "
            f"instructions, loads wait {before.stalled / before.cycles:.1%}; "
            f"perfect future gains {bound:.1%}",
            soft_wrap=True,
        )
        console.print(_columns(summaries([rows])))
    drawn: list[Chart] = []
    for kind in ("quiet", "regular", "irregular"):
        chosen = [rows for name, rows in found.items() if kinds[name] == kind]
        if chosen:
            some = summaries(chosen)
            console.print(f"\n{kind}: {', '.join(n for n in found if kinds[n] == kind)}")
            console.print(_columns(some))
            drawn += _charts(kind, some)
            if kind == "irregular":
                console.print(verdict(some), soft_wrap=True)
    if json_file is not None:
        json_file.write_text(json.dumps(_as_json(found, kinds), indent=1) + "\n")
    if plots is not None:
        charts.write(drawn, plots)
    return Exit.OK


def _charts(kind: str, some: Sequence[Summary]) -> Iterator[Chart]:
    """Of the traces of one kind."""
    right = {s.policy: ((100 * s.accuracy,), (100 * s.coverage,)) for s in some}
    yield Chart(f"memory-{kind}", f"Prefetches on {kind} traces", ("accuracy", "coverage"), right, "%")
    gain = {s.policy: ((100 * s.gain,), (100 * s.net_gain,)) for s in some}
    yield Chart(f"memory-{kind}-gain", f"Modelled time saved on {kind} traces", TITLES[-2:], gain, "%")
    cost = {s.policy: ((s.microseconds,),) for s in some if s.asked}
    yield Chart(f"memory-{kind}-cost", "Time of an answer", ("time",), cost, "us", logarithmic=True)


def _columns(some: Sequence[Summary]) -> Table:
    table = columns(*TITLES, "asked", "us each", "bytes")
    for s in some:
        shares = (s.accuracy, s.coverage, s.timeliness, s.removed, s.gain, s.net_gain)
        rest = (f"{s.asked:,}", f"{s.microseconds:.0f}") if s.asked else ("", "")
        table.add_row(s.policy, *(f"{x:.1%}" for x in shares), *rest, f"{s.bytes:,}" if s.bytes else "")
    return table


def _as_json(found: Mapping[str, list[Row]], kinds: Mapping[str, str]) -> dict[str, object]:
    return {
        name: {
            "kind": kinds[name],
            "policies": {
                row.policy: {
                    "accuracy": row.after.accuracy,
                    "coverage": row.after.coverage,
                    "gain": row.gain,
                    "net_gain": row.net_gain,
                    "asked": row.asked,
                }
                for row in rows
            },
        }
        for name, rows in found.items()
    }
