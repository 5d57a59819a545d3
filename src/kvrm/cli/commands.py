"""What the commands are called and which options they take; the work is done in the modules beside this one.

Modules are imported inside the commands: a start should not pay for what it does not use.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Annotated

import typer

from kvrm.cli import learning
from kvrm.cli.options import (
    Arguments,
    Budget,
    Engine,
    Environment,
    Features,
    FpFlags,
    Place,
    Program,
    Root,
    Writable,
    directory,
    option,
)

app = typer.Typer(
    name="kvrm",
    help="Run unmodified AArch64 Linux programs, and look inside them.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit()


Version = typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")


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
    target: Annotated[str | None, option("NAME", "Where it runs: cpu, cuda or auto; default cpu.")] = None,
    policy: Annotated[list[str] | None, option("QUESTION=NAME", "What answers it.")] = None,
    learn: Annotated[str | None, option("QUESTION", "Its policy learns from this run: memory.")] = None,
    learn_log: Annotated[Path | None, option("FILE", "What it learned from.", dir_okay=False)] = None,
    lanes: Annotated[int | None, option("N", "Run N lanes at once, and print a table.", min=1)] = None,
    inputs: Annotated[Path | None, option("DIR|FILE", "Each lane reads a file, or a line.")] = None,
    outputs: Annotated[Path | None, directory("Each lane's output goes to a file in DIR.")] = None,
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
    if learn is not None or learn_log is not None:
        from kvrm.cli.memory import run_learning

        if lanes is not None or inputs is not None or outputs is not None:
            raise typer.BadParameter("it is for one lane", param_hint="--learn")
        return run_learning(program, args or [], options, learn, learn_log, stats=stats)
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
    top: Annotated[int, option("N", "Show the N hottest of everything; 5.", min=0)] = 5,
    json: Annotated[Path | None, option("FILE", "Write all of it to FILE.", dir_okay=False)] = None,
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
def version() -> int:
    """Print the version."""
    from kvrm import __version__

    print(f"kvrm {__version__}")
    return 0


@app.command()
def doctor() -> int:
    """Say what this machine offers to KVRM, and what is missing for what."""
    from kvrm.cli.doctor import examine

    return examine()


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
    start: Annotated[str | None, option(Place, "Where to begin.")] = None,
    stop: Annotated[str | None, option(Place, "Where to end (exclusive).")] = None,
) -> int:
    """Disassemble a program's executable sections, with its symbols as labels."""
    from kvrm.cli.disasm import list_program

    return list_program(program, start, stop)


@app.command()
def symbols(
    program: Program,
    policy: Annotated[list[str] | None, option("patterns=NAME", "What proposes; network.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Test what is proposed by running it.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Show functions without a name too.")] = False,
    json: Annotated[Path | None, option("FILE", "Write what is shown to FILE.", dir_okay=False)] = None,
) -> int:
    """Find the functions of a static program, and which of them are known library functions."""
    from kvrm.cli.symbols import list_symbols

    return list_symbols(program, policy or [], check=check, every=every, json_file=json)


learning.add_to(app)


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """The command line for these arguments: without the commands that they do not name.

    Typer builds each command that it knows of signatures and type hints, which took a tenth of a start.
    """
    name = arguments[0] if arguments else ""
    named = [known for known in app.registered_commands if known.callback and known.callback.__name__ == name]
    if not named:
        return app
    alone = copy(app)
    alone.registered_commands, alone.registered_groups = named, []
    return alone
