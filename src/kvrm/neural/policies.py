"""Policies answer questions about code.

That of dispatch is which execution class each word has; that of memory, what an engine should prefetch for
each load and store (`kvrm.neural.memory`); that of patterns, which library function some code is
(`kvrm.neural.patterns`); that of loops, what a loop does (`kvrm.neural.loops`). They are interchangeable, and
none is trusted: a word runs by a handler of the class that the policy says, or not at all; a prefetch changes
no result; a function counts as known only if it passes a test; a loop's iterations are skipped only if it is
exactly what the policy says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from kvrm.arguments import shown
from kvrm.engine.interpreter.dispatch import Policy
from kvrm.errors import UsageError
from kvrm.isa.a64 import decode_many, definitions
from kvrm.isa.definition import Execution
from kvrm.isa.execution import Classes, Words, classes, execution_of


class Counted:
    """A policy that counts what it is asked: `words`, and the `seconds` that answers took."""

    def __init__(self, policy: Callable[[Any], Any]) -> None:
        self._policy, self.words, self.seconds = policy, 0, 0.0

    def __getattr__(self, name: str) -> Any:
        """What an inline policy has besides."""
        return getattr(self._policy, name)

    def __call__(self, words: Any) -> Any:
        """The policy's answer; `words` has a length."""
        began = time.perf_counter()
        answer = self._policy(words)
        self.seconds += time.perf_counter() - began
        self.words += len(words)
        return answer

    @property
    def report(self) -> dict[str, float]:
        """What `kvrm run --stats` tells."""
        return {"words": self.words, "seconds": round(self.seconds, 6)}


def rule(words: Words) -> Classes:
    """What one would write by hand from the first pages of the manual's encoding index (Arm ARM C4.1)."""
    op0, op1 = words >> np.uint32(25) & np.uint32(0xF), words >> np.uint32(23) & np.uint32(0x7)
    out = np.full(words.shape, Execution.SYSTEM, np.uint8)
    out[(op0 | 1) == 0b1001] = Execution.ARITHMETIC
    out[((op0 | 1) == 0b1001) & ((op1 == 0b100) | (op1 == 0b101))] = Execution.LOGICAL
    out[((op0 | 1) == 0b1001) & ((op1 == 0b110) | (op1 == 0b111))] = Execution.EXTEND_SHIFT
    out[(op0 | 1) == 0b1011] = Execution.BRANCH
    out[(words >> np.uint32(24) | 1) == 0xD5] = Execution.SYSTEM
    out[op0 & 0b0101 == 0b0100] = Execution.LOAD_STORE
    out[op0 & 0b0111 == 0b0101] = Execution.ARITHMETIC
    out[words >> np.uint32(24) & np.uint32(0x1F) == 0b01010] = Execution.LOGICAL
    out[words >> np.uint32(24) & np.uint32(0x1F) == 0b11011] = Execution.MULTIPLY_DIVIDE
    out[op0 & 0b0111 == 0b0111] = Execution.ARITHMETIC
    return out


def oracle(words: Words) -> Classes:
    """The decoder itself; words without a definition as the table has them."""
    found = decode_many(words)
    by_definition = np.array([d.execution for d in definitions], np.uint8)
    return np.where(found >= 0, by_definition[found], execution_of(words))


def _table() -> Policy:
    classes()
    return execution_of


def _network() -> Policy:
    from kvrm.neural.dispatch.host import HostNetwork
    from kvrm.neural.dispatch.network import COUNT, NAME
    from kvrm.neural.weights import load

    return HostNetwork(load(NAME, COUNT)).classes


def _inline() -> Policy:
    from kvrm.neural.dispatch.inline import InlineNetwork
    from kvrm.neural.dispatch.network import COUNT, NAME
    from kvrm.neural.weights import load

    return InlineNetwork(load(NAME, COUNT))


def _random() -> Policy:
    from kvrm.neural.dispatch.host import HostNetwork
    from kvrm.neural.dispatch.network import random_weights

    return HostNetwork(random_weights(0)).classes


def _memory(name: str) -> Any:
    from kvrm.neural.memory.policies import make_watch

    return make_watch(name)


def _watched(choice: Any) -> Any:
    """What watches a machine: a function of questions becomes the policy of a watch."""
    from kvrm.neural.memory.policies import watch_by

    return choice if hasattr(choice, "feed") else watch_by(choice)


def _patterns(name: str) -> Callable[[Any], Any]:
    from kvrm.neural.patterns.policies import POLICIES

    return POLICIES[name]()


def _loops(name: str) -> Any:
    from kvrm.neural.loops import policies

    return policies.make(name)


def _proposer(policy: Any) -> Any:
    from kvrm.loops.sites import Proposer

    return Proposer(policy)


NAMES = ("rule", "table", "network", "random", "oracle")
POLICIES: dict[str, dict[str, Callable[[], Any]]] = {
    "dispatch": {
        "rule": lambda: rule,
        "table": _table,
        "network": _network,
        "inline": _inline,
        "random": _random,
        "oracle": lambda: oracle,
    },
    "memory": {name: partial(_memory, name) for name in NAMES},
    "patterns": {name: partial(_patterns, name) for name in NAMES},
    "loops": {name: partial(_loops, name) for name in NAMES},
}
"""For each question, names and what makes the policy."""
WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "dispatch": Counted,
    "memory": _watched,
    "patterns": Counted,
    "loops": _proposer,
}
"""For each question, what a machine gets for a policy."""


def make_policies(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What a machine gets for each question, its policy given by name or as a function. Raises UsageError."""
    made = {}
    for question, choice in chosen.items():
        if not isinstance(question, str) or question not in POLICIES:
            raise UsageError(f"no policies for {shown(question)}; there are some for {', '.join(POLICIES)}")
        known = POLICIES[question]
        if isinstance(choice, str) and choice not in known:
            raise UsageError(f"no policy {question}={choice}; there are {', '.join(known)}")
        if not (isinstance(choice, str) or callable(choice) or hasattr(choice, "feed")):
            raise UsageError(f"policy {question} is {shown(choice)}; it takes a name or a function")
        made[question] = WRAPPERS[question](known[choice]() if isinstance(choice, str) else choice)
    return made
