"""Functions of a program that are alone: what they do depends on nothing but their words and what they get.

None of their instructions calls, branches out of the function, forms an address of data, or is a system
instruction. What the execution check says of one is kept with the program, so that the next machine of it
does not test again.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kvrm.binary.check import Checker, Verdict
from kvrm.binary.encoding import OUTSIDE, encode
from kvrm.binary.program import Program
from kvrm.binary.starts import Function, find_functions
from kvrm.isa.a64 import definitions
from kvrm.isa.definition import Definition, Execution
from kvrm.isa.execution import Words

if TYPE_CHECKING:
    from kvrm.machine.machine import Machine

HARMLESS = {"HINT", "DC ZVA", "MRS DCZID_EL0"}
"""System instructions that depend on nothing but their operands."""
PROGRAMS = 4
"""How many programs are remembered."""

Flags = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Candidates:
    """The functions of a program that are alone, of `found` in all, and verdicts by address and name."""

    program: Program
    found: int
    functions: list[Function]
    verdicts: dict[tuple[int, str], Verdict] = field(default_factory=dict)


@functools.lru_cache(maxsize=PROGRAMS)
def candidates_in(data: bytes, features: frozenset[str]) -> Candidates:
    """Those of a program, given as its file has it; verdicts are those on machines with these features."""
    program = Program(data, "the program")
    found = find_functions(program)
    alone = are_alone([function.words for function in found])
    return Candidates(program, len(found), [f for f, yes in zip(found, alone.tolist(), strict=True) if yes])


class RememberingChecker:
    """Checks what has no verdict yet; `checks` counts that. The checker is made when it is first needed.

    It looks at the machine as it is before it runs: what is alone needs nothing that a start sets up.
    """

    def __init__(self, machine: Machine, verdicts: dict[tuple[int, str], Verdict]) -> None:
        self._machine, self._verdicts = machine, verdicts
        self._checker: Checker | None = None
        self.checks = 0

    def check(self, address: int, name: str) -> Verdict:
        """The verdict on the function at `address`."""
        if (address, name) not in self._verdicts:
            self._checker = self._checker or Checker(self._machine)
            self._verdicts[address, name] = self._checker.check(address, name)
            self.checks += 1
        return self._verdicts[address, name]


def are_alone(functions: Sequence[Words]) -> Flags:
    """Whether each function, given as its words, depends on nothing but them and what it is given."""
    code = encode(functions)
    owner = np.repeat(np.arange(len(functions)), np.diff(code.starts))
    leaves, depends = _leaves_and_depends()
    bad = (code.kind >= OUTSIDE) | (code.definition < 0) | depends[code.definition]
    of_bad = np.bincount(owner[bad], minlength=len(functions))
    of_leaves = np.bincount(owner[leaves[code.definition]], minlength=len(functions))
    alone: Flags = (of_bad == 0) & (of_leaves > 0)
    return alone


@functools.cache
def _leaves_and_depends() -> tuple[Flags, Flags]:
    """Of each definition, whether it returns, and whether what it does depends on where it is."""
    leaves = [d.name in ("RET", "RETAA", "RETAB") for d in definitions]
    return np.array(leaves), np.array([_depends(d) for d in definitions])


def _depends(d: Definition) -> bool:
    is_system = d.execution is Execution.SYSTEM and d.name not in HARMLESS
    return is_system or d.name in ("BR", "BLR", "ADRP", "ADR") or d.name.endswith("(literal)")
