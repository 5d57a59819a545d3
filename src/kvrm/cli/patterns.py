"""`kvrm data`, `kvrm train` and `kvrm evaluate` for patterns."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

import kvrm
from kvrm.binary import known
from kvrm.binary.check import Checker
from kvrm.binary.encoding import Encoded
from kvrm.binary.labels import NONE
from kvrm.binary.program import Program
from kvrm.cli import charts
from kvrm.cli.charts import Bar, Chart
from kvrm.cli.columns import columns
from kvrm.cli.exits import Exit
from kvrm.cli.networks import commit, write_weights
from kvrm.isa.a64 import definitions
from kvrm.neural import patterns_dataset as dataset
from kvrm.neural import patterns_network as network
from kvrm.neural import patterns_training as training
from kvrm.neural.patterns_dataset import Data, Variant
from kvrm.neural.patterns_evaluation import (
    FEWER,
    Score,
    checked,
    fold_of,
    part_of,
    policies_of,
    score,
    starts_of,
)
from kvrm.neural.patterns_network import policy_of, vocabulary_of
from kvrm.neural.weights import Floats, load

WITHOUT = network.NAME + "-without-{}-{}"
"""What weights are called that something was left out of: what, and the seed."""
STEPS = 1000


def make_data(libcs: list[str], variants: list[str], others: list[Path], out: Path) -> int:
    """Read the files, and write the data set."""
    data = dataset.collect(_by_library(libcs), list(_variants(variants)), others)
    told = dataset.save(data, out)
    print(f"{told['functions']:,} functions, {told['labelled']:,} known, {told['none']:,} others")
    tests = told["tests"]
    assert isinstance(tests, dict)
    for split, digest in tests.items():
        print(f"test without {split}: {int(data.held_out(split).sum()):,} functions, SHA-256 {digest}")
    return Exit.OK


def _by_library(settings: list[str]) -> dict[str, list[Path]]:
    """The files of each library, from NAME=FILE. Raises UsageError."""
    found: dict[str, list[Path]] = {}
    for setting in settings:
        name, given, path = setting.partition("=")
        if not given or not name:
            raise kvrm.UsageError(f"{setting}: it is NAME=FILE")
        found.setdefault(name, []).append(Path(path))
    return found


def _variants(settings: list[str]) -> Iterator[Variant]:
    """From NAME:COMPILER:FLAGS=FILE. Raises UsageError."""
    for setting in settings:
        made, _, path = setting.partition("=")
        parts = made.split(":")
        if len(parts) != 3 or not all((*parts, path)):
            raise kvrm.UsageError(f"{setting}: it is NAME:COMPILER:FLAGS=FILE")
        libc, compiler, flags = parts
        yield Variant(libc, compiler, flags, Path(path))


def train_patterns(directory: Path, out: Path, left_out: list[str], seeds: range, steps: int) -> int:
    """Train with each seed: without each of some splits, or with all data.

    Of the latter, the best one on what is kept for validation is written, which is what ships.
    """
    data = dataset.load(directory)
    out.mkdir(parents=True, exist_ok=True)
    if not left_out:
        _train_all(data, seeds, steps, out)
    for split in left_out:
        chosen = np.flatnonzero(data.training(split))
        encoded, labels = data.encoded(chosen), data.labels[chosen]
        made = _made(data, encoded, steps) | {"left_out": split}
        for seed in seeds:
            name = WITHOUT.format(split, seed)
            flat = _trained_on(name, encoded, labels, made["vocabulary"], seed, steps)
            write_weights(out, name, flat, {"seed": seed, **made})
    return Exit.OK


def _train_all(data: Data, seeds: range, steps: int, out: Path) -> None:
    everything = data.encoded(np.arange(len(data)))
    known.save(known.known_of(everything, data.labels), out)
    kept = dataset.in_validation(known.signatures_of(everything))
    chosen = np.flatnonzero(~kept)
    encoded, labels = data.encoded(chosen), data.labels[chosen]
    made = _made(data, encoded, steps) | {"left_out": None}
    validation = part_of(data, np.flatnonzero(kept))
    scores: dict[int, dict[str, object]] = {}
    best = -1.0
    for seed in seeds:
        flat = _trained_on(network.NAME, encoded, labels, made["vocabulary"], seed, steps)
        found = score(network.NAME, policy_of(flat, made["vocabulary"]), validation)
        scores[seed] = {"recall": found.recall, "first": found.first, "found": found.found}
        print(f"seed {seed}, validation: {scores[seed]}", flush=True)
        if found.recall + found.first > best:
            best, written, weights = found.recall + found.first, seed, flat
        write_weights(out, network.NAME, weights, {"seed": written, "validation": scores, **made})


def _made(data: Data, encoded: Encoded, steps: int) -> dict[str, Any]:
    """What a manifest says of weights that are trained on some functions."""
    return {
        "steps": steps,
        "data": dataset.manifest(data),
        "commit": commit(),
        "vocabulary": _vocabulary(encoded),
    }


def _trained_on(
    name: str, encoded: Encoded, labels: npt.NDArray[np.uint8], vocabulary: list[str], seed: int, steps: int
) -> Floats:
    began = time.perf_counter()

    def report(step: int, loss: float) -> None:
        seconds = time.perf_counter() - began
        print(f"{name}, seed {seed}: {step:,} steps, loss {loss:.4f}, {seconds:.0f} s", flush=True)

    return training.train(network.sequences_of(encoded, vocabulary), labels, seed, steps, report)


def _vocabulary(encoded: Encoded) -> list[str]:
    """The commonest definitions, as many as have rows of their own."""
    counts = np.bincount(encoded.definition[encoded.definition >= 0], minlength=len(definitions))
    common = np.argsort(-counts, kind="stable")[: network.DEFINITIONS - 1]
    return [definitions[i].key for i in common if counts[i]]


def evaluate_patterns(
    directory: Path,
    weights: Path,
    programs: list[str],
    left_out: list[str],
    json_file: Path | None,
    plots: Path | None,
) -> int:
    """Each policy on each split that was left out, by the weights that a directory has for it.

    With programs, LIBC=FILE, what the check makes of the proposals in them, instead.
    """
    data = dataset.load(directory)
    if programs:
        for libc, paths in _by_library(programs).items():
            for path in paths:
                _show_program(data, libc, path, weights)
        return Exit.OK
    splits = left_out or data.splits
    scores = [(fold, found) for split in splits for fold, found in _of_fold(data, split, weights)]
    table = columns(*TITLES, left=2)
    for libc, found in scores:
        table.add_row(libc, *_cells(found))
    console = Console(highlight=False, width=160)
    console.print(table)
    if json_file is not None:
        rows = [{"left_out": libc, **asdict(found)} for libc, found in scores]
        json_file.write_text(json.dumps(rows, indent=1) + "\n")
    if plots is not None:
        charts.write(_charts(scores), plots)
    return Exit.OK


def _charts(scores: list[tuple[str, Score]]) -> Iterator[Chart]:
    """A row for each test set, a bar for each policy, those of all seeds together."""
    of: dict[str, dict[str, list[Score]]] = {}
    for split, found in scores:
        of.setdefault(split, {}).setdefault(found.policy.partition(" ")[0], []).append(found)
    policies = tuple(dict.fromkeys(policy for rows in of.values() for policy in rows))

    def chart(name: str, title: str, number: Callable[[Score], float], unit: str = "") -> Chart:
        rows = {split: [_spread(map(number, rows[p])) for p in policies] for split, rows in of.items()}
        return Chart(f"patterns-{name}", title, policies, rows, unit, logarithmic=unit == "us")

    yield chart("recall", "Recall at a precision of .99", lambda s: s.recall)
    for k, fewer in enumerate(FEWER):
        title = f"Known functions found by 1/{fewer} of all checks"
        yield chart(f"found-{fewer}", title, partial(_found_by, k))
    yield chart("cost", "Time for a function", lambda s: s.microseconds, "us")


def _found_by(which: int, found: Score) -> float:
    return found.found[which]


def _spread(values: Iterable[float]) -> Bar:
    """The mean and, of several, all of them."""
    all_of = list(values)
    mean = sum(all_of) / len(all_of)
    return (mean, *all_of) if len(all_of) > 1 else (mean,)


TITLES = (
    "left out",
    "policy",
    "known",
    "others",
    "recall at .99",
    "likeliest right",
    *(f"found by 1/{fewer}" for fewer in FEWER),
    "checks for .95",
    "of pairs",
    "us",
)


def _show_program(data: Data, libc: str, path: Path, weights: Path) -> None:
    """Starts with and without .eh_frame, and a line for each policy."""
    program, checker = Program.of(path), Checker(path)
    fold = fold_of(data, libc)
    trained = _trained(libc, weights)
    policies = policies_of(fold, trained, vocabulary_of(weights, WITHOUT.format(libc, _seeds(trained)[0])))
    frames = program.frames
    for title, known_frames in ((".eh_frame", frames), ("without", {})):
        program.frames = known_frames
        s = starts_of(program)
        print(
            f"{path}, {title}: {s.symbols:,} functions, {s.found:,} found, {s.right:,} right: recall "
            f"{s.right / s.symbols:.4f}, precision {s.right / s.found:.4f}, ends {s.ends / s.right:.4f}"
        )
    program.frames = frames
    for name, policy in policies.items():
        c = checked(name, policy, program, checker)
        print(
            f"  {name:<10} {c.checks:5,} checks of {c.functions * NONE:,}: {c.right} of {c.known} known "
            f"functions passed, {len(c.other)} others in {c.seconds:.1f} s {'; '.join(c.other)}",
            flush=True,
        )


def _trained(libc: str, weights: Path) -> dict[str, Floats]:
    """The weights that were trained without a C library, by "network SEED". Raises UsageError."""
    paths = sorted(weights.glob(WITHOUT.format(libc, "*") + ".npy"))
    return {f"network {p.stem.rpartition('-')[2]}": load(p.stem, network.COUNT, weights) for p in paths}


def _seeds(trained: dict[str, Floats]) -> list[str]:
    if not trained:
        raise kvrm.UsageError(
            "there are no weights that were trained without it (`kvrm train patterns --leave-out`)"
        )
    return [name.partition(" ")[2] for name in trained]


def _of_fold(data: Data, libc: str, weights: Path) -> Iterator[tuple[str, Score]]:
    """Scores on the whole test set of a C library, and on what of it training has not seen."""
    trained = _trained(libc, weights)
    if not trained:
        return
    fold = fold_of(data, libc)
    policies = policies_of(fold, trained, vocabulary_of(weights, WITHOUT.format(libc, _seeds(trained)[0])))
    for title, part in ((libc, fold), (f"{libc}, new", fold.new())):
        for name, policy in policies.items():
            yield title, score(name, policy, part)


def _cells(found: Score) -> tuple[str, ...]:
    return (
        found.policy,
        f"{found.known:,}",
        f"{found.others:,}",
        f"{found.recall:.3f}",
        f"{found.first:.3f}",
        *(f"{share:.3f}" for share in found.found),
        "" if found.checks is None else f"{found.checks:,}",
        f"{found.pairs:,}",
        f"{found.microseconds:,.0f}",
    )
