"""`kvrm run --lanes N --inputs DIR|FILE`: one program very often, and a table of what became of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import kvrm
from kvrm.cli.exits import Exit
from kvrm.cli.run import Options, make_machine
from kvrm.machine.lanes import Lanes
from kvrm.machine.lanes_results import LaneResults

SHOWN = 20
"""Lanes that the table lists; all are counted."""
WIDTH = 40
"""Characters of output that it shows."""
POLL_SECONDS = 0.1


def run_lanes(
    program: Path,
    arguments: Sequence[str],
    options: Options,
    count: int | None,
    inputs: Path | None,
    outputs: Path | None,
) -> int:
    """Run lanes of `program`; 0 if all exited with 0. Raises `kvrm.KvrmError`."""
    number = count or 1
    names: Sequence[str] | range = range(number)
    texts = None
    if inputs is not None:
        names, texts = read_inputs(inputs, count)
        number = len(names)
    machine = make_machine(program, arguments, options, stdin=texts, lanes=number)
    results = watch(machine.lanes, options.max_instructions)
    if outputs is not None:
        write_outputs(outputs, names, results)
    show(names, results, machine)
    all_good = results.stops == {kvrm.Stop.EXIT: len(names)} and not results.exit_code.any()
    return Exit.OK if all_good else Exit.LANES


def read_inputs(inputs: Path, count: int | None) -> tuple[list[str], list[bytes]]:
    """Names and texts of what lanes read: the files of a directory, or the lines of a file.

    Raises UsageError if there are not as many as lanes.
    """
    try:
        if inputs.is_dir():
            files = sorted(path for path in inputs.iterdir() if path.is_file())[:count]
            names, texts = [path.name for path in files], [path.read_bytes() for path in files]
        else:
            texts = inputs.read_bytes().splitlines(keepends=True)[:count]
            names = [str(number) for number in range(1, len(texts) + 1)]
    except OSError as error:
        raise kvrm.UsageError(f"--inputs {inputs}: {error.strerror}") from None
    if len(texts) < (count or 1):
        raise kvrm.UsageError(f"--inputs {inputs} has {len(texts)} inputs, fewer than {count or 1} lanes")
    return names, texts


def watch(lanes: Lanes, budget: int | None) -> LaneResults:
    """Run them in the background, with a bar on standard error; Ctrl-C ends it and keeps what there is."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("lanes", total=len(lanes))
        lanes.start(budget)
        try:
            while lanes.is_running():
                time.sleep(POLL_SECONDS)
                now = lanes.poll()
                progress.update(task, completed=now.finished, description=f"{now.retired:,} instructions")
        except KeyboardInterrupt:
            lanes.cancel()
        return lanes.wait()


def write_outputs(directory: Path, names: Sequence[str] | range, results: LaneResults) -> None:
    """Each lane's standard output as NAME.out, and its standard error, if there is any, as NAME.err."""
    for name, out, err in zip(names, results.stdout, results.stderr, strict=True):
        (directory / f"{name}.out").write_bytes(out)
        if err:
            (directory / f"{name}.err").write_bytes(err)


def show(names: Sequence[str] | range, results: LaneResults, machine: kvrm.Machine) -> None:
    """A table of the first lanes, and the sum of all."""
    table = Table("input", "stop", "exit", "instructions", "output")
    for lane, name in enumerate(names[:SHOWN]):
        one = results.lane(lane)
        line = one.stdout[: 2 * WIDTH].decode(errors="replace").partition("\n")[0][:WIDTH]
        # a guest must not reach the terminal
        text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
        code = "" if one.exit_code is None else str(one.exit_code)
        table.add_row(str(name), one.stop.value, code, f"{one.retired:,}", text)
    console = Console(markup=False, highlight=False)
    console.print(table)
    if len(names) > SHOWN:
        console.print(f"and {len(names) - SHOWN:,} more lanes")
    stops = ", ".join(f"{count:,} {stop.value}" for stop, count in results.stops.items())
    retired = int(results.retired.sum())
    rate = retired / results.seconds if results.seconds else 0
    console.print(
        f"{len(names):,} lanes on {machine.target}: {stops}; {retired:,} instructions in "
        f"{results.seconds:.3f} s, {rate:,.0f} a second"
    )
