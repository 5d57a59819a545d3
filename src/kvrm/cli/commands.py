"""What the commands are called and which options they take; the work is done in the modules beside this one.

Modules are imported inside the commands: a start should not pay for what it does not use.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="kvrm",
    help="Run unmodified AArch64 Linux programs, and look inside them.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from kvrm import __version__

        print(f"kvrm {__version__}")
        raise typer.Exit()


def _directory(help: str) -> Any:
    return typer.Option(exists=True, file_okay=False, metavar="DIR", help=help, show_default=False)


def _option(metavar: str, help: str, **more: Any) -> Any:
    return typer.Option(metavar=metavar, help=help, show_default=False, **more)


Version = typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
Program = Annotated[Path, typer.Argument(metavar="PROGRAM", help="An AArch64 Linux program.")]
Place = "ADDRESS|SYMBOL"

Arguments = Annotated[list[str] | None, typer.Argument(metavar="ARGS...", help="Passed on untouched.")]
Engine = Annotated[str | None, _option("NAME", "How code runs (docs/cli.md); default tiered.")]
Root = Annotated[Path | None, _directory("The guest sees DIR as /, read-only.")]
Writable = Annotated[Path | None, _directory("The guest may write to DIR.")]
Features = Annotated[str | None, _option("NAME[,NAME...]", "What the processor has.")]
Budget = Annotated[int | None, _option("N", "Stop after N instructions.", min=0)]
Environment = Annotated[list[str] | None, _option("K[=V]", "Set the guest's K; without V, to the host's.")]
Network = Annotated[str, typer.Argument(metavar="NETWORK", help="dispatch or loops")]
DataFile = Annotated[Path | None, _option("FILE", "Of `kvrm data loops`.", dir_okay=False)]
Weights = Annotated[Path | None, _directory("Weights of `kvrm train`, not the ones that ship.")]
FpFlags = Annotated[bool, typer.Option("--fp-flags", help="Track exceptions in FPSR; slow.")]


@app.callback()
def _options(version: Annotated[bool, Version] = False) -> None:
    pass


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    program: Program,
    args: Arguments = None,
    engine: Engine = None,
    root: Root = None,
    rw: Writable = None,
    features: Features = None,
    max_instructions: Budget = None,
    env: Environment = None,
    stats: Annotated[bool, typer.Option("--stats", help="Print a line of JSON on stderr.")] = False,
    fp_flags: FpFlags = False,
    target: Annotated[str | None, _option("NAME", "Where it runs: cpu, cuda or auto; default cpu.")] = None,
    policy: Annotated[list[str] | None, _option("QUESTION=NAME", "Who answers it.")] = None,
    lanes: Annotated[int | None, _option("N", "Run N lanes at once, and print a table.", min=1)] = None,
    inputs: Annotated[Path | None, _option("DIR|FILE", "Each lane reads a file, or a line.")] = None,
    outputs: Annotated[Path | None, _directory("Each lane's output goes to a file in DIR.")] = None,
) -> int:
    """Run a program; the exit code is the guest's, or 128 + n after signal n or a fault, or 124 after N."""
    from kvrm.cli.run import Options, run_program

    options = Options(
        engine=engine,
        root=root,
        rw=rw,
        features=features,
        max_instructions=max_instructions,
        env=env or [],
        fp_flags=fp_flags,
        target=target,
        policies=policy or [],
    )
    if lanes is None and inputs is None and outputs is None:
        return run_program(program, args or [], options, stats=stats)
    if stats:
        raise typer.BadParameter("it is for one lane", param_hint="--stats")
    from kvrm.cli.lanes import run_lanes

    return run_lanes(program, args or [], options, lanes, inputs, outputs)


@app.command(context_settings={"allow_interspersed_args": False})
def profile(
    program: Program,
    args: Arguments = None,
    engine: Engine = None,
    root: Root = None,
    rw: Writable = None,
    features: Features = None,
    max_instructions: Budget = None,
    env: Environment = None,
    fp_flags: FpFlags = False,
    top: Annotated[int, _option("N", "Show the N hottest of everything; 5.", min=0)] = 5,
    json: Annotated[Path | None, _option("FILE", "Write all of it to FILE.", dir_okay=False)] = None,
) -> int:
    """Run a program as `kvrm run` does, then say on stderr where its time went."""
    from kvrm.cli.profile import profile_program
    from kvrm.cli.run import Options

    options = Options(
        engine=engine,
        root=root,
        rw=rw,
        features=features,
        max_instructions=max_instructions,
        env=env or [],
        fp_flags=fp_flags,
    )
    return profile_program(program, args or [], options, top=top, json_file=json)


@app.command()
def demo() -> int:
    """Run a small guest program that comes with KVRM, and say how fast it ran."""
    from kvrm.cli.demo import run_demo

    return run_demo()


@app.command()
def where(
    what: Annotated[str, typer.Argument(metavar="WORD|PROGRAM@ADDRESS", help="In hexadecimal, or where.")],
) -> int:
    """Say what an instruction is and where it is defined: text, manual name, file and line, encoding."""
    from kvrm.cli.where import explain

    return explain(what)


@app.command()
def disasm(
    program: Program,
    start: Annotated[str | None, _option(Place, "Where to begin.")] = None,
    stop: Annotated[str | None, _option(Place, "Where to end (exclusive).")] = None,
) -> int:
    """Disassemble a program's executable sections, with its symbols as labels."""
    from kvrm.cli.disasm import list_program

    return list_program(program, start, stop)


@app.command()
def train(
    network: Network,
    out: Annotated[Path, _option("DIR", "Where weights go; ./weights.")] = Path("weights"),
    seed: Annotated[int, _option("N", "The first seed; 0.", min=0)] = 0,
    seeds: Annotated[int, _option("N", "How many to try: the best one is kept; 1.", min=1)] = 1,
    steps: Annotated[int, _option("N", "At most so many steps for each.", min=1)] = 60_000,
    data: DataFile = None,
) -> int:
    """Train a network: dispatch until it is right for every word (1 if it is not), loops on a data set."""
    if network == "loops":
        from kvrm.cli.loops import train_loops

        if data is None:
            raise typer.BadParameter("loops are learned from a file", param_hint="--data")
        return train_loops(data, out, seed, seeds, steps)
    from kvrm.cli.networks import train_network

    return train_network(network, out, seed, seeds, steps)


@app.command()
def data(
    network: Annotated[str, typer.Argument(metavar="NETWORK", help="loops")],
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="ELF files, archives, packages.")],
    out: Annotated[Path, _option("FILE", "Where the data set goes.", dir_okay=False)] = Path("loops.npz"),
) -> int:
    """Make the data set that a network is trained and evaluated with, and print its hash."""
    if network != "loops":
        raise typer.BadParameter("there is data for loops", param_hint="NETWORK")
    from kvrm.cli.loops import make_data

    return make_data(files, out)


@app.command()
def prove(
    network: Network,
    weights: Weights = None,
    certificate: Annotated[Path | None, _option("FILE", "Write what was proved.", dir_okay=False)] = None,
) -> int:
    """Prove that a network is right for each of the 2^32 words; 1 if it is not."""
    from kvrm.cli.networks import prove_network

    return prove_network(network, weights, certificate)


@app.command()
def evaluate(
    network: Network,
    programs: Annotated[list[Path] | None, typer.Argument(metavar="PROGRAM...", help="For loops.")] = None,
    weights: Weights = None,
    data: DataFile = None,
) -> int:
    """Compare rule, table, networks, random weights and the oracle."""
    if network == "loops":
        from kvrm.cli.loops import evaluate_loops

        return evaluate_loops(data, programs or [], weights)
    from kvrm.cli.networks import evaluate_network

    return evaluate_network(network, weights)
