"""Names for the functions of a program: found, proposed by a policy, and tested if that is wanted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from kvrm.binary.check import Verdict
from kvrm.binary.encoding import encode
from kvrm.binary.labels import LABELS
from kvrm.binary.program import Program
from kvrm.binary.proposals import PROPOSED, Code, Policy, proposals
from kvrm.binary.starts import Function, find_functions

MOST_CHECKS = 5
"""Proposals of one function that are tested, likeliest first."""


class Checks(Protocol):
    """What checks functions."""

    def check(self, address: int, name: str) -> Verdict:
        """The verdict on the function at `address` as if it were `name`."""


@dataclass(frozen=True, slots=True)
class Named:
    """A function with the name that it may have, how sure the policy is, and what the check says of it.

    `address` is where memory has it; `name` is None without a proposal, and `verdict` without a check.
    """

    function: Function
    address: int
    name: str | None
    confidence: float
    verdict: Verdict | None

    @property
    def is_replaceable(self) -> bool:
        """Whether it passed the check."""
        return self.verdict is not None and self.verdict.equivalent


def name_functions(
    program: Program,
    policy: Policy,
    checker: Checks | None = None,
    least: float = PROPOSED,
    functions: Sequence[Function] | None = None,
    names: Collection[str] = LABELS,
) -> list[Named]:
    """Every function that is found in a program, by address; or only some, and only with some names.

    With a checker, a function has the first of its proposals that passes, or the first one if none does.
    """
    functions = find_functions(program) if functions is None else functions
    code = Code(encode([f.words for f in functions]), [_names(program, f) for f in functions])
    rows = [[(name, sure) for name, sure in row if name in names] for row in proposals(policy(code), least)]
    return [_named(f, f.start + program.bias, row, checker) for f, row in zip(functions, rows, strict=True)]


def _names(program: Program, function: Function) -> Sequence[str]:
    symbol = program.symbols.get(function.start)
    return symbol.names if symbol else ()


def _named(function: Function, address: int, row: list[tuple[str, float]], checker: Checks | None) -> Named:
    if not row:
        return Named(function, address, None, 0.0, None)
    verdict = first_of(checker, address, [name for name, _ in row[:MOST_CHECKS]]) if checker else None
    name = verdict.name if verdict else row[0][0]
    return Named(function, address, name, dict(row)[name], verdict)


def first_of(checker: Checks, address: int, names: Sequence[str]) -> Verdict | None:
    """The verdict on the first name that a function passes as, or else on the first name."""
    verdicts = []
    for name in names:
        verdicts.append(checker.check(address, name))
        if verdicts[-1].equivalent:
            return verdicts[-1]
    return verdicts[0] if verdicts else None
