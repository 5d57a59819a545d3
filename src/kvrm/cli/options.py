"""Options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def directory(help: str) -> Any:
    """A directory that is there."""
    return typer.Option(exists=True, file_okay=False, metavar="DIR", help=help, show_default=False)


def option(metavar: str, help: str, **more: Any) -> Any:
    """An option whose default its help tells."""
    return typer.Option(metavar=metavar, help=help, show_default=False, **more)


Program = Annotated[Path, typer.Argument(metavar="PROGRAM", help="An AArch64 Linux program.")]
Place = "ADDRESS|SYMBOL"

Arguments = Annotated[list[str] | None, typer.Argument(metavar="ARGS...", help="Passed on untouched.")]
Engine = Annotated[str | None, option("NAME", "How code runs (docs/use/command-line.md); default tiered.")]
Root = Annotated[Path | None, directory("The guest sees DIR as /, read-only.")]
Writable = Annotated[Path | None, directory("The guest may write to DIR.")]
Features = Annotated[str | None, option("NAME[,NAME...]", "What the processor has.")]
Budget = Annotated[int | None, option("N", "Stop after N instructions.", min=0)]
Environment = Annotated[list[str] | None, option("K[=V]", "Set the guest's K; without V, to the host's.")]
FpFlags = Annotated[bool, typer.Option("--fp-flags", help="Track exceptions in FPSR; slow.")]
