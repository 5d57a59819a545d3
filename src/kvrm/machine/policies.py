"""Policies answer questions about code.

That of dispatch is which execution class each word has; that of memory, what an engine should prefetch for
each load and store (`kvrm.caches`); that of patterns, which library function some code is (`kvrm.binary`);
that of loops, what a loop does (`kvrm.loops`). They are interchangeable, and none is trusted: a word runs by
a handler of the class that the policy says, or not at all; a prefetch changes no result; a function counts as
known only if it passes a test; a loop's iterations are skipped only if it is exactly what the policy says.

What each question's policy has to be, the component declares that asks it: `Policy` in
`kvrm.engine.interpreter.dispatch`, `kvrm.caches.sites`, `kvrm.binary.proposals` and `kvrm.loops.sites`,
`InlinePolicy` in `kvrm.engine.interpreter.inline`, `AccessObserver` in `kvrm.observe.observer`. Networks
(`kvrm.neural`) are an optional part: they are imported when a machine is asked for one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from kvrm.arguments import shown
from kvrm.errors import UsageError, missing_part
from kvrm.machine.engines import named


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


POLICIES = {
    "dispatch": {
        "rule": "kvrm.engine.interpreter.dispatch:rule",
        "table": "kvrm.isa.execution:execution_of",
        "network": "kvrm.neural.dispatch_host:shipped()",
        "inline": "kvrm.neural.dispatch_inline:shipped()",
        "random": "kvrm.neural.dispatch_host:random_policy()",
        "oracle": "kvrm.engine.interpreter.dispatch:oracle",
    },
    "memory": {
        "rule": "kvrm.caches.sites:rule",
        "table": "kvrm.caches.watch:by_table()",
        "network": "kvrm.neural.memory_network:shipped()",
        "random": "kvrm.neural.memory_network:random_policy()",
        "oracle": "kvrm.caches.watch:by_oracle()",
    },
    "patterns": {
        "rule": "kvrm.binary.known:rule()",
        "table": "kvrm.binary.known:table()",
        "network": "kvrm.neural.patterns_network:shipped()",
        "random": "kvrm.neural.patterns_network:random_policy()",
        "oracle": "kvrm.binary.proposals:oracle",
    },
    "loops": {
        "rule": "kvrm.loops.rule:rule",
        "table": "kvrm.loops.table:shipped()",
        "network": "kvrm.neural.loops_network:shipped()",
        "random": "kvrm.neural.loops_network:random_policy()",
        "oracle": "kvrm.loops.oracle:oracle",
    },
}
"""For each question, names, and the module and name of the policy, or with () of what makes it."""
WRAPPERS = {
    "dispatch": "kvrm.machine.policies:Counted",
    "memory": "kvrm.caches.watch:watching",
    "patterns": "kvrm.machine.policies:Counted",
    "loops": "kvrm.loops.sites:Proposer",
}
"""For each question, what makes a policy what a machine has for it."""


def policy_named(question: str, name: str) -> Any:
    """The policy of a question that has one of this name. Raises UsageError if its part is not installed."""
    path = POLICIES[question][name]
    try:
        found = named(path.removesuffix("()"))
    except ModuleNotFoundError as error:
        if missing := missing_part(error):
            raise UsageError(f"policy {question}={name}: {missing}") from None
        raise
    return found() if path.endswith("()") else found


def make_policies(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What a machine has for each question, its policy given by name or as a function. Raises UsageError."""
    made = {}
    for question, choice in chosen.items():
        if not isinstance(question, str) or question not in POLICIES:
            raise UsageError(f"no policies for {shown(question)}; there are some for {', '.join(POLICIES)}")
        known = POLICIES[question]
        if isinstance(choice, str) and choice not in known:
            raise UsageError(f"no policy {question}={choice}; there are {', '.join(known)}")
        if not (isinstance(choice, str) or callable(choice) or hasattr(choice, "feed")):
            raise UsageError(f"policy {question} is {shown(choice)}; it takes a name or a function")
        policy = policy_named(question, choice) if isinstance(choice, str) else choice
        made[question] = named(WRAPPERS[question])(policy)
    return made
