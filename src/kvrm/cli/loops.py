"""`kvrm data loops`, `kvrm train loops` and `kvrm evaluate loops`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table as Printed

import kvrm
from kvrm.cli import charts
from kvrm.cli.charts import Chart
from kvrm.cli.columns import columns
from kvrm.cli.exits import Exit
from kvrm.cli.networks import commit, write_weights
from kvrm.loops import table
from kvrm.loops.sites import Body, Policy
from kvrm.loops.structure import Structure
from kvrm.loops.table import Rows
from kvrm.neural import loops_data as loop_data
from kvrm.neural import loops_evaluation as evaluation
from kvrm.neural import loops_network as network
from kvrm.neural.loops_data import TEST, TRAIN, VALIDATION, LoopData
from kvrm.neural.loops_evaluation import Row, Run
from kvrm.neural.loops_network import Network, batch_of, structure_of
from kvrm.neural.loops_training import train
from kvrm.neural.weights import hash_of

WIDTH = 120
"""Columns that the tables need."""
STEPS = 1200
"""Of training."""
PARTS = {"training": TRAIN, "validation": VALIDATION, "test": TEST}


def make_data(paths: Sequence[Path], out: Path) -> int:
    """Collect the loops of some files, and say what there is."""
    data = loop_data.collect(sorted(paths, key=lambda path: path.name))
    loop_data.save(data, out)
    for name, part in PARTS.items():
        rows = data.rows(part)
        wanted = int((data.labels[rows, 0] == 1).sum())
        print(f"{name}: {data.seen[part]:,} loops, {len(rows):,} different, {wanted:,} understood")
    print(f"test part: SHA-256 {data.hash_of(TEST)}")
    return Exit.OK


def train_loops(path: Path, directory: Path, seed: int, seeds: int, steps: int) -> int:
    """Learn the table, train the network with each seed, keep the one that is best on the validation part."""
    data = loop_data.read(path)
    directory.mkdir(parents=True, exist_ok=True)
    made: dict[str, object] = {
        "data": {name: data.hash_of(part) for name, part in PARTS.items()},
        "commit": commit(),
    }
    _write_table(directory, table.learn(_labelled(data, TRAIN)), made)
    batch, labels = batch_of(data.bodies(TRAIN)), data.labels[data.rows(TRAIN)].astype(int)
    scores: dict[int, dict[str, dict[str, float]]] = {}
    best = -1.0
    for number in range(seed, seed + seeds):
        flat = train(batch.words, batch.mask, labels, number, steps, _report)
        scores[number] = _scores(data, number, Network(flat))
        if sum(scores[number]["validation"].values()) > best:
            best, written, weights = sum(scores[number]["validation"].values()), number, flat
        told = made | {"seed": written, "steps": steps, "scores": scores}
        write_weights(directory, network.NAME, weights, told)
    return Exit.OK


def _write_table(directory: Path, rows: Rows, made: dict[str, object]) -> None:
    path = directory / f"{table.NAME}.npy"
    np.save(path, rows)
    told = {"table": table.NAME, "shapes": len(rows), "sha256": hash_of(rows), **made}
    path.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n")
    print(f"{path}: {len(rows):,} shapes")


def _labelled(data: LoopData, part: int) -> Iterator[tuple[Body, Structure | None]]:
    for body, label in zip(data.bodies(part), data.labels[data.rows(part)].tolist(), strict=True):
        yield body, structure_of(label)


def _report(step: int, loss: float) -> None:
    print(f"  {step} steps, loss {loss:.4f}", flush=True)


def _scores(data: LoopData, seed: int, policy: Network) -> dict[str, dict[str, float]]:
    """How good a network is, printed too; by the validation part one is chosen."""
    found = {}
    for name in ("test", "validation"):
        row = evaluation.row_of(name, policy, data, PARTS[name])
        print(f"seed {seed}, {name}: recall {row.recall:.1%}, acceptance {row.acceptance:.1%}", flush=True)
        found[name] = {"recall": row.recall, "acceptance": row.acceptance}
    return found


def evaluate_loops(
    path: Path | None, programs: Sequence[Path], directory: Path | None, plots: Path | None
) -> int:
    """Every policy side by side: on the test part of the data, and on programs."""
    if path is None and not programs:
        raise kvrm.UsageError("evaluate loops: --data FILE, programs, or both")
    policies = evaluation.policies_of(directory)
    console = Console(highlight=False, width=WIDTH)
    drawn: list[Chart] = []
    if path is not None:
        data = loop_data.read(path)
        print(f"test part: SHA-256 {data.hash_of(TEST)}")
        rows = list(evaluation.rows(data, policies))
        console.print(_policies(rows))
        drawn += _charts_of_policies(rows)
    if programs:
        runs = {program.name: _runs(program, policies) for program in programs}
        console.print(_programs(runs))
        drawn += _charts_of_programs(runs)
    if plots is not None:
        charts.write(drawn, plots)
    return Exit.OK


def _charts_of_policies(rows: Sequence[Row]) -> Iterator[Chart]:
    right = {row.name: ((100 * row.recall,), (100 * row.acceptance,)) for row in rows}
    yield Chart("loops-policies", "Loops of programs held out", ("recall", "acceptance"), right, "%")
    cost = {row.name: ((row.microseconds,),) for row in rows}
    yield Chart("loops-cost", "CPU time for a loop", ("time",), cost, "us", logarithmic=True)


def _charts_of_programs(runs: Mapping[str, Sequence[Run]]) -> Iterator[Chart]:
    policies = tuple(run.policy for run in next(iter(runs.values()))[1:])
    rows = {name: [(100 * run.share,) for run in found[1:]] for name, found in runs.items()}
    yield Chart("loops-skipped", "Instructions that are skipped", policies, rows, "%")


def _policies(rows: Sequence[Row]) -> Printed:
    printed = columns(
        "policy", "loops", "understood", "proposed", "accepted", "recall", "acceptance", "us a loop"
    )
    for row in rows:
        counts = (row.loops, row.wanted, row.proposed, row.accepted)
        shares = (f"{row.recall:.1%}", f"{row.acceptance:.1%}")
        printed.add_row(row.name, *(f"{n:,}" for n in counts), *shares, f"{row.microseconds:,.0f}")
    return printed


def _runs(program: Path, policies: Mapping[str, Policy]) -> list[Run]:
    return [evaluation.run(program, (), name, policy) for name, policy in {"off": None, **policies}.items()]


def _programs(runs: Mapping[str, Sequence[Run]]) -> Printed:
    printed = columns(
        "program", "policy", "retired", "executed", "skipped", "share", "proposals", "accepted", "s"
    )
    for name, found in runs.items():
        for r in found:
            counts = [f"{n:,}" for n in (r.retired, r.retired - r.skipped, r.skipped)]
            proposals = f"{r.proposals}", f"{r.accepted}"
            printed.add_row(name, r.policy, *counts, f"{r.share:.1%}", *proposals, f"{r.seconds:.3f}")
    return printed
