"""`kvrm train`, `kvrm prove` and `kvrm evaluate`: the networks on the terminal."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import kvrm
from kvrm.cli import archived, charts
from kvrm.cli.charts import Chart
from kvrm.cli.columns import columns
from kvrm.cli.exits import Exit
from kvrm.isa.execution import CELLS, classes, words_of
from kvrm.neural import dispatch_baseline as baseline
from kvrm.neural import dispatch_network as network
from kvrm.neural.dispatch_evaluation import Row, rows
from kvrm.neural.dispatch_proof import Certificate, prove
from kvrm.neural.dispatch_training import leads, train, train_baseline
from kvrm.neural.weights import SHIPPED, Floats, hash_of, load

TARGETS = ("cpu", "cuda")
STEPS = 60_000
"""Of training, at most."""


def train_network(directory: Path, seed: int, seeds: int, steps: int) -> int:
    """Train with each seed, write the best weights and how they were made to `directory`."""
    made: dict[str, object] = {
        "data": {"cells": CELLS, "classes_sha256": hash_of(classes())},
        "commit": commit(),
    }
    best = max((_attempt(number, steps) for number in range(seed, seed + seeds)), key=Attempt.rank)
    directory.mkdir(parents=True, exist_ok=True)
    run = {"seed": best.seed, "steps": steps, "wrong_cells": best.wrong, "least_lead": best.least_lead}
    write_weights(directory, network.NAME, best.weights, made | run)
    small = train_baseline(seed)
    answers = baseline.classes_of(small, words_of(np.arange(CELLS, dtype=np.uint32)))
    wrong = int((answers != classes()).sum())
    write_weights(directory, baseline.NAME, small, made | {"seed": seed, "wrong_cells": wrong})
    return Exit.UNPROVED if best.wrong else Exit.OK


@dataclass(frozen=True, slots=True)
class Attempt:
    """What training with one seed gave."""

    seed: int
    weights: Floats
    wrong: int
    least_lead: float

    def rank(self) -> tuple[int, float]:
        """Greater is better."""
        return -self.wrong, self.least_lead


def _attempt(seed: int, steps: int) -> Attempt:
    flat = _watched(seed, steps)
    lead = leads(flat)
    made = Attempt(seed, flat, int((lead <= 0).sum()), float(lead.min()))
    print(f"seed {seed}: {made.wrong:,} cells wrong, least lead {made.least_lead:.3f}", flush=True)
    return made


def _watched(seed: int, steps: int) -> Floats:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"seed {seed}", total=steps)

        def report(step: int, wrong: int, lead: float) -> None:
            text = f"seed {seed}: {wrong:,} cells wrong, least lead {lead:.2f}"
            progress.update(task, completed=step, description=text)

        return train(seed, steps, report)


def commit() -> str:
    """The commit that the package is at, "-dirty" after it if files differ.

    Of what `git archive` made, the commit of that; the package's version where it is in no repository, or in
    one that does not have its files.
    """
    package = Path(kvrm.__file__)

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(package.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", package.name)
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return kvrm.__version__ if archived.COMMIT.startswith("$") else archived.COMMIT


def write_weights(directory: Path, name: str, flat: Floats, manifest: dict[str, object]) -> None:
    """Write parameters and how they were made, and say so."""
    np.save(directory / f"{name}.npy", flat)
    digest = hash_of(flat)
    told = {"network": name, "parameters": len(flat), "weights_sha256": digest, **manifest}
    (directory / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n")
    print(f"{directory / name}.npy: {len(flat):,} parameters, SHA-256 {digest}")


def prove_network(directory: Path | None, certificate: Path | None, target: str) -> int:
    """Prove what the weights in `directory` do, and write the certificate; 1 if they are wrong anywhere.

    On target "cuda", a GPU checks each word, too, and must find the same.
    """
    if target not in TARGETS:
        raise kvrm.UsageError(f"no target {target!r}; there are {', '.join(TARGETS)}")
    began = time.perf_counter()
    flat = load(network.NAME, network.COUNT, directory or SHIPPED)
    proved = prove(flat)
    _show_proof(proved, time.perf_counter() - began)
    if target == "cuda":
        _verify_on_device(flat, proved)
    if certificate is not None:
        certificate.write_text(certificate_text(proved))
    return Exit.OK if proved.holds else Exit.UNPROVED


def _verify_on_device(flat: Floats, proved: Certificate) -> None:
    from kvrm.backend.gpu.driver import device
    from kvrm.neural.dispatch_device import verify

    gpu = device()
    found = verify(gpu, flat)
    if (found.wrong, found.histogram) != (proved.wrong, proved.histogram):
        raise AssertionError(f"the GPU finds {found.wrong:,} words wrong, and {found.histogram}")
    print(f"{gpu.name}: the same for each word, least lead {found.least_lead:.4f}, {found.seconds:.3f} s")


def certificate_text(proved: Certificate) -> str:
    """The certificate as a file has it."""
    return json.dumps(asdict(proved), indent=1) + "\n"


def _show_proof(c: Certificate, seconds: float) -> None:
    print(f"{c.network}: {c.parameters:,} parameters, SHA-256 {c.weights_sha256}")
    print(f"{c.wrong:,} of {c.words:,} words wrong, by {c.cells:,} values of the bits that decide")
    print(f"least lead {c.least_lead:.4f}; rounding moves no output by more than {c.largest_error:.2e}")
    print(f"{c.undecided:,} words where that could matter")
    for work, words in c.histogram.items():
        print(f"  {work:<16}{words:>14,}")
    print(f"{'proved' if c.holds else 'not proved'} in {seconds:.1f} s")


def evaluate_network(directory: Path | None, plots: Path | None) -> int:
    """Every policy for the question side by side, and what it costs."""
    found = list(rows(directory or SHIPPED))
    table = columns("policy", "wrong of all words", "right", "right of allocated words", "bytes", "ns a word")
    for row in found:
        table.add_row(*_cells(row))
    Console(highlight=False).print(table)
    if plots is not None:
        charts.write(_charts(found), plots)
    return Exit.OK


def _charts(found: list[Row]) -> Iterator[Chart]:
    right = {row.name: ((100 * row.right,), (100 * row.right_allocated,)) for row in found}
    yield Chart("dispatch-right", "Words with the right class", ("of all", "of allocated words"), right, "%")
    cost = {row.name: ((row.nanoseconds,),) for row in found}
    yield Chart("dispatch-cost", "Time for a word", ("time",), cost, "ns", logarithmic=True)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        f"{row.wrong:,}",
        f"{row.right:.4%}",
        f"{row.right_allocated:.4%}",
        f"{row.size:,}" if row.size else "",
        f"{row.nanoseconds:.1f}",
    )
