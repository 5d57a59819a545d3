"""Rule, table, network, random weights and the oracle for loops, side by side on loops that are held out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import kvrm
from kvrm.loops import table
from kvrm.loops.oracle import oracle
from kvrm.loops.rule import rule
from kvrm.loops.sites import Policy
from kvrm.neural import loops_network as network
from kvrm.neural.loops_data import TEST, LoopData
from kvrm.neural.loops_network import labels_of
from kvrm.neural.weights import SHIPPED


def policies_of(directory: Path | None) -> dict[str, Policy]:
    """All policies by name, with the table and the network of `directory`, or those that ship."""
    return {
        "rule": rule,
        "table": table.Table(table.read(directory or table.SHIPPED)),
        "network": network.shipped(directory or SHIPPED),
        "random": network.random_policy(),
        "oracle": oracle,
    }


@dataclass(frozen=True, slots=True)
class Row:
    """What a policy proposes for held-out loops, and what of that is accepted.

    `accepted` of `wanted`, the loops that the analyser understands, is the *recall* at one proposal for each;
    of `proposed`, the *acceptance*. CPU `microseconds` for one loop alone.
    """

    name: str
    loops: int
    wanted: int
    proposed: int
    accepted: int
    microseconds: float

    @property
    def recall(self) -> float:
        """Of the loops that are understood, those that were proposed as what they are."""
        return self.accepted / max(1, self.wanted)

    @property
    def acceptance(self) -> float:
        """Of the proposals, those that are right."""
        return self.accepted / max(1, self.proposed)


def row_of(name: str, policy: Policy, data: LoopData, part: int = TEST) -> Row:
    """What a policy does on a part of the data."""
    bodies, labels = data.bodies(part), data.labels[data.rows(part)].tolist()
    answers = [answer for body in bodies for answer in policy([body])]
    proposed = [(answer, label) for answer, label in zip(answers, labels, strict=True) if answer]
    accepted = sum(labels_of(answer) == label for answer, label in proposed)
    wanted = sum(label[0] for label in labels)
    return Row(name, len(bodies), wanted, len(proposed), accepted, _cost(policy, bodies[:200]))


def rows(data: LoopData, policies: Mapping[str, Policy]) -> Iterator[Row]:
    """A row for each policy, on the test part."""
    for name, policy in policies.items():
        yield row_of(name, policy, data)


def _cost(policy: Policy, bodies: Sequence[tuple[int, ...]]) -> float:
    began = time.process_time()
    for body in bodies:
        policy([body])
    return 1e6 * (time.process_time() - began) / max(1, len(bodies))


@dataclass(frozen=True, slots=True)
class Run:
    """A program under a policy: instructions that retired, those of them that were skipped, and seconds."""

    policy: str
    retired: int
    skipped: int
    proposals: int
    accepted: int
    seconds: float

    @property
    def share(self) -> float:
        """Of the instructions that retired, those that were skipped."""
        return self.skipped / max(1, self.retired)


def run(program: Path, arguments: Sequence[str], name: str, policy: Policy | None) -> Run:
    """Run a program to its end with a policy, or none; it is called `name`."""
    policies = {} if policy is None else {"loops": policy}
    machine = kvrm.Machine(program, args=list(arguments), engine="interpreter", policies=policies)
    began = time.perf_counter()
    retired = machine.run().retired
    seconds = time.perf_counter() - began
    account = machine.policies.get("loops")
    told = account.report if account else {"skipped": 0, "proposals": 0, "accepted": 0}
    return Run(name, retired, told["skipped"], told["proposals"], told["accepted"], seconds)
