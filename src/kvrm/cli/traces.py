"""`kvrm data memory`: traces of memory accesses, and what page misses cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kvrm.caches.pages import page_misses
from kvrm.caches.traces import Recording
from kvrm.cli.exits import Exit
from kvrm.cli.run import Options, make_machine


def record(program: Path, arguments: Sequence[str], options: Options, out: Path, skip: int) -> int:
    """Run a program and write its memory accesses to `out`, but those of its first `skip` instructions."""
    recording = Recording(skip)
    with open(0, "rb", buffering=0, closefd=False) as stdin:
        machine = make_machine(program, arguments, options, {"memory": recording}, stdin=stdin)
        result = machine.run(max_instructions=options.max_instructions)
    trace = recording.trace()
    trace.save(out)
    print(f"{out}: {len(trace):,} accesses of {len(trace.pc):,} sites, SHA-256 {trace.sha256}")
    print(f"{result.retired:,} instructions retired, {skip:,} of them before the first access kept")
    return Exit.OK


def show_page_misses(program: Path, arguments: Sequence[str], options: Options) -> int:
    """Run a program on the usual engine and say what part of its time goes to page misses."""
    with open(0, "rb", buffering=0, closefd=False) as stdin:
        machine = make_machine(program, arguments, options, stdin=stdin)
        found = page_misses(machine, options.max_instructions)
    print(f"{found.count:,} page misses, {found.following:,} of them after a page that missed too")
    print(f"serving them took {found.resolving:.4f} s of {found.seconds:.3f} s")
    print(f"at {1e6 * found.each:.1f} us each, with leaving and coming back, {found.share:.2%} of the time")
    return Exit.OK
