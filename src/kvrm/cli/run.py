"""`kvrm run`: one guest on the terminal."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kvrm
from kvrm.cli.exits import Exit
from kvrm.cli.standard import closed_streams
from kvrm.isa.features import ALL, SETS


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a guest is run: the options that `kvrm run` and `kvrm profile` share."""

    engine: str | None = None
    root: Path | None = None
    rw: Path | None = None
    features: str | None = None
    max_instructions: int | None = None
    env: Sequence[str] = ()
    fp_flags: bool = False
    target: str | None = None
    policies: Sequence[str] = ()


def run_program(
    program: Path,
    arguments: Sequence[str],
    options: Options,
    *,
    stats: bool,
    policies: Mapping[str, Any] | None = None,
) -> int:
    """Run `program` on this process' standard files; return the exit code. Raises `kvrm.KvrmError`.

    `policies` are objects, besides those that the options name.
    """
    machine, result = run_guest(program, arguments, options, policies)
    if stats:
        print(statistics(machine, result), file=sys.stderr)
    return exit_code(result)


def run_guest(
    program: Path, arguments: Sequence[str], options: Options, policies: Mapping[str, Any] | None = None
) -> tuple[kvrm.Machine, kvrm.Result]:
    """Run `program` on this process' standard files, and complain of it if it did not exit."""
    # Python would see Ctrl-C only when the native code returns.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    machine = make_machine(program, arguments, options, policies, **standard_streams())
    result = machine.run(max_instructions=options.max_instructions)
    said = "" if result.stop is kvrm.Stop.EXIT else result.message
    for line in filter(None, (said, result.hint)):
        print("kvrm:", line, file=sys.stderr)
    return machine, result


def standard_streams() -> dict[str, Any]:
    """This process's standard files, unbuffered, as a machine takes them; those that are closed stay so."""
    closed = closed_streams()
    return {
        name: kvrm.CLOSED if fd in closed else open(fd, mode, buffering=0, closefd=False)
        for fd, (name, mode) in enumerate((("stdin", "rb"), ("stdout", "wb"), ("stderr", "wb")))
    }


def make_machine(
    program: Path,
    arguments: Sequence[str],
    options: Options,
    policies: Mapping[str, Any] | None = None,
    **more: Any,
) -> kvrm.Machine:
    """The machine that the options ask for, with `policies` besides those; `more` is passed on."""
    return kvrm.Machine(
        program,
        args=arguments,
        env=environment(options.env),
        engine=options.engine,
        root=options.root,
        rw=options.rw,
        features=None if options.features is None else feature_names(options.features),
        fp_flags=options.fp_flags,
        target=options.target,
        policies=chosen_policies(options.policies) | dict(policies or {}),
        **more,
    )


def environment(settings: Sequence[str]) -> dict[str, str]:
    """The guest's environment: it starts empty, so that a run does not depend on whose terminal it is in.

    A setting is `K=V`, or `K` for the host's value if there is one. Raises `kvrm.UsageError` for no name.
    """
    variables = {}
    for setting in settings:
        name, given, value = setting.partition("=")
        if not name:
            raise kvrm.UsageError(f"--env {setting}: the name is missing")
        if given:
            variables[name] = value
        elif name in os.environ:
            variables[name] = os.environ[name]
    return variables


def chosen_policies(settings: Sequence[str]) -> dict[str, Any]:
    """The policies of `QUESTION=NAME`, each once. Raises `kvrm.UsageError`."""
    chosen: dict[str, Any] = {}
    for setting in settings:
        question, given, name = setting.partition("=")
        if not given or question in chosen:
            raise kvrm.UsageError(f"--policy {setting}: it is QUESTION=NAME, once for each question")
        chosen[question] = name
    return chosen


def feature_names(chosen: str) -> frozenset[str]:
    """The features of `NAME,NAME...`, each a feature or a set of them. Raises `kvrm.UsageError`."""
    names: set[str] = set()
    for name in chosen.split(","):
        if name not in SETS and name not in ALL:
            known = ", ".join(SETS)
            raise kvrm.UsageError(
                f"--features {chosen}: no {name!r}; sets are {known}, features like FEAT_LSE"
            )
        names |= SETS.get(name, {name})
    return frozenset(names)


def exit_code(result: kvrm.Result) -> int:
    """What the process returns for a guest that stopped like this."""
    if result.stop is kvrm.Stop.EXIT:
        return (result.exit_code or 0) & 0xFF
    if result.stop is kvrm.Stop.BUDGET:
        return Exit.BUDGET
    if result.stop is kvrm.Stop.MISPLACED:
        return Exit.MISPLACED
    if result.stop is kvrm.Stop.OUT_OF_MEMORY:
        return Exit.OUT_OF_MEMORY
    return Exit.SIGNAL + (result.signal or 0)


def statistics(machine: kvrm.Machine, result: kvrm.Result) -> str:
    """One line of JSON: what the run was, how its instructions and seconds were spent, system calls."""
    profile = machine.profile
    tiers = profile.tiers
    return json.dumps(
        {
            "retired": result.retired,
            "seconds": round(result.seconds, 6),
            "ips": round(result.ips),
            "stop": result.stop.name.lower(),
            "instructions": {name: tier.instructions for name, tier in tiers.items() if tier.instructions},
            "time": {name: round(tier.seconds, 6) for name, tier in tiers.items()},
            "regions": {
                "compiled": profile.compiled,
                "cached": profile.cached,
                "compile_seconds": round(profile.compile_seconds, 6),
            },
            "calls": {call.name: call.count for call in profile.calls},
            "policies": {question: policy.report for question, policy in machine.policies.items()},
            "replaced": machine.replacements and machine.replacements.as_json(),
        }
    )
