"""`kvrm data`, `train`, `prove` and `evaluate`: which of them each network has, and their options.

The work is done in the modules beside this one, which are imported inside the commands.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kvrm.cli.options import Arguments, Budget, Program, Root, directory, option

Weights = Annotated[Path | None, directory("Weights of `kvrm train`, not the ones that ship.")]
Out = Annotated[Path, option("DIR", "Where weights go; ./weights.")]
Seed = Annotated[int, option("N", "The first seed; 0.", min=0)]
Seeds = Annotated[int, option("N", "How many to try: the best one is kept; 1.", min=1)]
Steps = Annotated[int | None, option("N", "At most that many steps for each.", min=1)]
Traces = Annotated[Path | None, directory("Traces of `kvrm data memory`; ./traces.")]
Data = Annotated[Path, option("DIR", "What `kvrm data patterns` wrote; ./data.")]
LeaveOut = Annotated[list[str] | None, option("NAME", "Only without this C library, compiler or flags.")]
Loops = Annotated[Path | None, option("FILE", "What `kvrm data loops` wrote.", exists=True, dir_okay=False)]
Plots = Annotated[Path | None, option("DIR", "Draw the tables there, as SVG.", file_okay=False)]
Figures = Annotated[Path | None, option("FILE", "Write the figures to FILE.", dir_okay=False)]

WEIGHTS, DATA = Path("weights"), Path("data")
GROUPS = {
    "data": "Make what a network learns from.",
    "train": "Train a network.",
    "prove": "Prove that a network is right.",
    "evaluate": "Compare rule, table, network, random weights and the oracle.",
}
data, train, prove, evaluate = (
    typer.Typer(name=name, help=help, no_args_is_help=True) for name, help in GROUPS.items()
)


def add_to(app: typer.Typer) -> None:
    """Give a command line these groups."""
    for group in (data, train, prove, evaluate):
        app.add_typer(group)


# -- dispatch ------------------------------------------------------------------------------------------------
@train.command("dispatch")
def train_dispatch(out: Out = WEIGHTS, seed: Seed = 0, seeds: Seeds = 1, steps: Steps = None) -> int:
    """Train until it is right for every word; 1 if it is not."""
    from kvrm.cli.networks import STEPS, train_network

    return train_network(out, seed, seeds, steps or STEPS)


@prove.command("dispatch")
def prove_dispatch(
    weights: Weights = None,
    certificate: Annotated[Path | None, option("FILE", "Write what was proved.", dir_okay=False)] = None,
    target: Annotated[str, option("NAME", "With cuda, a GPU checks each word, too.")] = "cpu",
) -> int:
    """Prove that it is right for each of the 2^32 words; 1 if it is not."""
    from kvrm.cli.networks import prove_network

    return prove_network(weights, certificate, target)


@evaluate.command("dispatch")
def evaluate_dispatch(weights: Weights = None, plots: Plots = None) -> int:
    """Over all of the 2^32 words."""
    from kvrm.cli.networks import evaluate_network

    return evaluate_network(weights, plots)


# -- loops ---------------------------------------------------------------------------------------------------
@data.command("loops")
def data_loops(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="ELF files, archives, packages.")],
    out: Annotated[Path, option("FILE", "Where it goes; ./loops.npz.", dir_okay=False)] = Path("loops.npz"),
) -> int:
    """Collect loops of programs and libraries, and print the data set's hash."""
    from kvrm.cli.loops import make_data

    return make_data(files, out)


@train.command("loops")
def train_loops(
    data: Annotated[Path, option("FILE", "What `kvrm data loops` wrote.", exists=True, dir_okay=False)],
    out: Out = WEIGHTS,
    seed: Seed = 0,
    seeds: Seeds = 1,
    steps: Steps = None,
) -> int:
    """Learn the table and the network from a data set."""
    from kvrm.cli import loops

    return loops.train_loops(data, out, seed, seeds, steps or loops.STEPS)


@evaluate.command("loops")
def evaluate_loops(
    programs: Annotated[list[Path] | None, typer.Argument(metavar="PROGRAM...", help="Run them too.")] = None,
    weights: Weights = None,
    data: Loops = None,
    plots: Plots = None,
) -> int:
    """On loops of programs that were held out, and on whole programs."""
    from kvrm.cli import loops

    return loops.evaluate_loops(data, programs or [], weights, plots)


# -- memory --------------------------------------------------------------------------------------------------
@data.command("memory", context_settings={"allow_interspersed_args": False})
def data_memory(
    program: Program,
    args: Arguments = None,
    out: Annotated[Path, option("FILE", "Where the trace goes; ./trace.npz.")] = Path("trace.npz"),
    skip: Annotated[int, option("N", "Keep no access of the first N instructions; 0.", min=0)] = 0,
    pages: Annotated[bool, typer.Option("--pages", help="No trace: what page misses cost.")] = False,
    root: Root = None,
    max_instructions: Budget = None,
) -> int:
    """Run a program and write its memory accesses."""
    from kvrm.cli.run import Options
    from kvrm.cli.traces import record, show_page_misses

    options = Options(root=root, max_instructions=max_instructions)
    if pages:
        return show_page_misses(program, args or [], options)
    return record(program, args or [], options, out, skip)


@train.command("memory")
def train_memory(
    out: Out = WEIGHTS,
    seed: Seed = 0,
    seeds: Seeds = 1,
    steps: Steps = None,
    traces: Traces = None,
    replay: Annotated[Path | None, option("FILE", "The weights of a log of --learn.", exists=True)] = None,
) -> int:
    """Train on traces; or make the weights that a guest's own log leads to, 1 if they are others."""
    from kvrm.cli import memory

    if replay is not None:
        return memory.replay_memory(replay, out)
    return memory.train_memory(traces, out, seed, seeds, steps)


@evaluate.command("memory")
def evaluate_memory(
    weights: Weights = None,
    traces: Traces = None,
    json: Figures = None,
    plots: Plots = None,
    aba: Annotated[str | None, option("A,B", "Learn from trace A, B, A again.")] = None,
) -> int:
    """On traces of programs that were held out."""
    from kvrm.cli import memory

    if aba is not None:
        return memory.evaluate_learning(traces, weights, aba)
    return memory.evaluate_memory(traces, weights, json, plots)


# -- patterns ------------------------------------------------------------------------------------------------
@data.command("patterns")
def data_patterns(
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILES...", help="Libraries.")] = None,
    libc: Annotated[list[str] | None, option("NAME=FILE", "A C library: .a, .o or .deb.")] = None,
    variant: Annotated[
        list[str] | None, option("NAME:COMPILER:FLAGS=FILE", "More of one, compiled otherwise.")
    ] = None,
    out: Data = DATA,
) -> int:
    """Collect functions of libraries."""
    from kvrm.cli.patterns import make_data

    return make_data(libc or [], variant or [], files or [], out)


@train.command("patterns")
def train_patterns(
    out: Out = WEIGHTS,
    seed: Seed = 0,
    seeds: Seeds = 1,
    steps: Steps = None,
    data: Data = DATA,
    leave_out: LeaveOut = None,
) -> int:
    """Train on functions of libraries."""
    from kvrm.cli import patterns

    seeds_to_try = range(seed, seed + seeds)
    return patterns.train_patterns(data, out, leave_out or [], seeds_to_try, steps or patterns.STEPS)


@evaluate.command("patterns")
def evaluate_patterns(
    weights: Weights = None,
    data: Data = DATA,
    program: Annotated[list[str] | None, option("LIBC=FILE", "Name and test its functions.")] = None,
    leave_out: LeaveOut = None,
    json: Figures = None,
    plots: Plots = None,
) -> int:
    """On each C library, compiler and set of flags, by weights that were trained without it."""
    from kvrm.cli import patterns

    where, chosen = weights or WEIGHTS, leave_out or []
    return patterns.evaluate_patterns(data, where, program or [], chosen, json, plots)
