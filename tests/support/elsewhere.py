"""Continues a pickled snapshot in another process of the host, and says all that came of it."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import kvrm


def facts(machine: kvrm.Machine, budget: int | None = None) -> dict[str, Any]:
    """What a run brings, and what the machine is after it."""
    result = machine.run(budget)
    memory = machine.snapshot().memory
    contents = hashlib.sha256()
    for region in memory.regions:
        contents.update(repr((region.start, region.end, region.prot, region.name)).encode())
        contents.update(machine.lane.memory.peek(region.start, region.limit - region.start))
    told = {name: getattr(result, name) for name in ("stop", "exit_code", "signal", "stdout", "stderr", "pc")}
    registers = [*machine.x, *machine.v, machine.sp, machine.nzcv, machine.fpcr, machine.fpsr]
    return told | {
        "registers": registers,
        "retired": machine.retired,
        "memory": contents.hexdigest(),
        "private": sorted(memory.pages),
    }


def elsewhere(pickled: bytes, directory: Path, **options: Any) -> Any:
    """The facts of a machine that another process makes and restores to the snapshot, or the error's text."""
    run = subprocess.run(
        [sys.executable, __file__],
        input=pickle.dumps((pickled, options)),
        capture_output=True,
        cwd=directory,
        check=False,
    )
    assert run.returncode == 0, run.stderr.decode()
    return pickle.loads(run.stdout)


def _continue(pickled: bytes, options: dict[str, Any]) -> Any:
    name = options.pop("stdin_file", None)
    with Path(name).open("rb") if name else nullcontext() as stdin:
        machine = kvrm.Machine(stdin=stdin, **options)
        try:
            machine.restore(pickle.loads(pickled))
        except kvrm.KvrmError as error:
            return str(error)
        return facts(machine)


if __name__ == "__main__":
    sys.stdout.buffer.write(pickle.dumps(_continue(*pickle.load(sys.stdin.buffer))))
