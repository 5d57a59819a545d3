"""`kvrm data`, `kvrm train` and `kvrm evaluate` for patterns."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import kvrm
from kvrm.cli.exits import Exit
from kvrm.isa.a64 import definitions
from kvrm.neural.patterns import dataset, known, network, training
from kvrm.neural.patterns.check import Checker
from kvrm.neural.patterns.dataset import Data
from kvrm.neural.patterns.encoding import Encoded
from kvrm.neural.patterns.evaluation import FEWER, Score, checked, fold_of, policies_of, score, starts_of
from kvrm.neural.patterns.labels import NONE
from kvrm.neural.patterns.policies import vocabulary_of
from kvrm.neural.patterns.program import Program
from kvrm.neural.weights import Floats, hash_of, load

WITHOUT = network.NAME + "-without-{}-{}"
"""What weights are called that a C library was left out of: its name, and the seed."""


STEPS = 1000


def make_data(libcs: list[str], variants: list[str], others: list[Path], out: Path) -> int:
    """Read the files, and write the data set."""
    data = dataset.collect(_by_library(libcs), _by_library(variants), others)
    told = dataset.save(data, out)
    print(f"{told['functions']:,} functions, {told['labelled']:,} known, {told['none']:,} others")
    tests = told["tests"]
    assert isinstance(tests, dict)
    for libc, digest in tests.items():
        print(f"test without {libc}: {int(data.held_out(libc).sum()):,} functions, SHA-256 {digest}")
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


def train_patterns(directory: Path, out: Path, left_out: list[str], seeds: range, steps: int) -> int:
    """Train with each seed: without each of some C libraries, or with all data, which is what ships."""
    data = dataset.load(directory)
    out.mkdir(parents=True, exist_ok=True)
    chosen: list[str | None] = [*left_out] or [None]
    for libc in chosen:
        for seed in seeds:
            _train_one(data, libc, seed, steps, out)
    return Exit.OK


def _train_one(data: Data, libc: str | None, seed: int, steps: int, out: Path) -> None:
    from kvrm.cli.networks import commit

    chosen = np.flatnonzero(data.training(libc))
    encoded, labels = data.encoded(chosen), data.labels[chosen]
    vocabulary = _vocabulary(encoded)
    name = WITHOUT.format(libc, seed) if libc else network.NAME
    began = time.perf_counter()

    def report(step: int, loss: float) -> None:
        print(f"{name}: {step:,} steps, loss {loss:.4f}, {time.perf_counter() - began:.0f} s", flush=True)

    flat = training.train(network.sequences_of(encoded, vocabulary), labels, seed, steps, report)
    np.save(out / f"{name}.npy", flat)
    told = {
        "network": name,
        "parameters": len(flat),
        "weights_sha256": hash_of(flat),
        "data": dataset.manifest(data),
        "commit": commit(),
        "left_out": libc,
        "seed": seed,
        "steps": steps,
        "vocabulary": vocabulary,
    }
    (out / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n")
    if libc is None:
        known.save(known.known_of(encoded, labels), out)
    print(f"{out / name}.npy: {len(flat):,} parameters, SHA-256 {told['weights_sha256']}")


def _vocabulary(encoded: Encoded) -> list[str]:
    """The commonest definitions, as many as have rows of their own."""
    counts = np.bincount(encoded.definition[encoded.definition >= 0], minlength=len(definitions))
    common = np.argsort(-counts, kind="stable")[: network.DEFINITIONS - 1]
    return [definitions[i].key for i in common if counts[i]]


def evaluate_patterns(directory: Path, weights: Path, programs: list[str], json_file: Path | None) -> int:
    """Each policy on each C library that was left out, by the weights that a directory has for it.

    With programs, LIBC=FILE, what the check makes of the proposals in them, instead.
    """
    data = dataset.load(directory)
    if programs:
        for libc, paths in _by_library(programs).items():
            for path in paths:
                _show_program(data, libc, path, weights)
        return Exit.OK
    scores = [(fold, found) for libc in data.libcs for fold, found in _of_fold(data, libc, weights)]
    table = Table(box=None, pad_edge=False)
    for title in TITLES:
        table.add_column(title, justify="left" if title in TITLES[:2] else "right")
    for libc, found in scores:
        table.add_row(libc, *_cells(found))
    console = Console(highlight=False, width=160)
    console.print(table)
    if json_file is not None:
        rows = [{"left_out": libc, **_fields(found)} for libc, found in scores]
        json_file.write_text(json.dumps(rows, indent=1) + "\n")
    return Exit.OK


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
            "there are no weights without that C library (`kvrm train patterns --leave-out`)"
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


def _fields(found: Score) -> dict[str, object]:
    return {name: getattr(found, name) for name in Score.__slots__}


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
