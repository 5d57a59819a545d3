"""Which engine runs a machine, where, and with which policies."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvrm.arguments import choice, collection, shown
from kvrm.errors import UsageError
from kvrm.isa.features import feature_set
from kvrm.lane.state import State
from kvrm.memory import Memory
from kvrm.observe.observer import AccessObserver, InstructionObserver, StagedObserver
from kvrm.observe.switches import trace_switch

ENGINES = {
    "tiered": "kvrm.engine.translator.engine:Translator",
    "interpreter": "kvrm.engine.interpreter.engine:Interpreter",
    "translator": "kvrm.engine.translator.forced:ForcedTranslator",
    "reference": "kvrm.engine.reference:ReferenceEngine",
    "stress": "kvrm.engine.stress:Stress",
}
"""Name to class; the first is the default. An engine's modules are imported when a machine asks for it."""
INLINE = "kvrm.engine.interpreter.inline:InlineInterpreter"
"""Instead of the interpreter where the dispatch policy is asked about each instruction that runs."""
TARGETS = {"cpu": "kvrm.backend.cpu.workers:CpuBackend", "cuda": "kvrm.backend.gpu.runner:GpuBackend"}
"""Where lanes run: name to the `kvrm.backend.protocols.Backend` of it; the first is the default."""
SKIPPING = {"cpu": "kvrm.loops.sites:Sites", "cuda": "kvrm.loops.device_sites:DeviceSites"}
"""For each target, what puts handlers that skip iterations where loops begin."""
ANSWERS = "kvrm.backend.cpu.answers:Answers"
"""Native code that answers system calls of a machine of one lane."""
REPLACEMENTS = "kvrm.binary.replacement:make_replacements"
DEVICE_ENGINES = dict.fromkeys(ENGINES, "kvrm.backend.gpu.device_engine:DeviceEngine") | {
    "interpreter": "kvrm.backend.gpu.device_engine:DeviceInterpreter"
}
"""What runs the lane of a machine on target "cuda"."""

RECORDER = "kvrm.observe.recorder:Recorder"
"""The staged observer that tells others of memory accesses."""
STAGED = (AccessObserver, StagedObserver)
"""Observers that handlers are staged with."""


def engine_name(engine: str | None) -> str:
    """The engine that is meant: this one, KVRM_ENGINE, or the default. Raises UsageError."""
    default = os.environ.get("KVRM_ENGINE") or next(iter(ENGINES))
    return choice("engine", default if engine is None else engine, ENGINES)


def target_name(target: str | None) -> str:
    """The target that is meant: this one, KVRM_TARGET, or the default. Raises UsageError."""
    default = os.environ.get("KVRM_TARGET") or next(iter(TARGETS))
    name = choice("target", default if target is None else target, (*TARGETS, "auto"))
    if name == "auto":
        from kvrm.backend.gpu.driver import has_device

        return "cuda" if has_device() else "cpu"
    return name


def named(path: str) -> Any:
    """What "module:name" names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def checked_features(features: str | Iterable[str] | None) -> frozenset[str]:
    """The features of a processor or a list of them. Raises UsageError."""
    if features is not None and not isinstance(features, str):
        features = collection("features", features, "names")
        if unnamed := [name for name in features if not isinstance(name, str)]:
            raise UsageError(f"features has {shown(unnamed[0])} in it; it takes names")
    try:
        return feature_set(features)
    except ValueError as error:
        raise UsageError(str(error)) from None


def check_policies_of_lanes(policies: Mapping[str, Any], target: str) -> None:
    """UsageError if lanes cannot have these policies."""
    if "memory" in policies and target != "cuda":
        raise UsageError("on target cpu a memory policy is for one lane")


def check_policies(policies: Mapping[str, Any], target: str) -> None:
    """UsageError if a machine of this kind cannot have these policies."""
    if "memory" in policies and target == "cuda" and not hasattr(policies["memory"], "ahead"):
        raise UsageError("what records accesses or learns from them is for target cpu")


def checked_observers(observers: Iterable[Any], lanes: int | None, target: str) -> tuple[Any, ...]:
    """The observers of a machine. Raises UsageError."""
    found = tuple(collection("observers", observers, "objects that implement a protocol of observers"))
    for one in found:
        if isinstance(one, type) or not isinstance(one, (*STAGED, InstructionObserver)):
            raise UsageError(f"observers has {shown(one)} in it, which has not the methods of an observer")
    if found and lanes is not None:
        raise UsageError("observers see one lane: they are not for machines with lanes=")
    if target != "cpu" and any(isinstance(one, STAGED) for one in found):
        raise UsageError("on target cuda an observer is one of instructions")
    return found


def default_engine(engine: str | None, policies: Mapping[str, Any], observers: Iterable[Any]) -> str:
    """The engine that is meant, given what a machine has. Raises UsageError if another is named."""
    interprets = bool(policies) or any(isinstance(one, STAGED) for one in observers)
    name = engine_name("interpreter" if engine is None and interprets else engine)
    if interprets and name != "interpreter":
        what = f"a {next(iter(policies))} policy" if policies else "an observer of accesses or handlers"
        raise UsageError(f"{what} is for engine interpreter")
    return name


@dataclass(frozen=True, slots=True)
class EngineKind:
    """What engines are made by: their name (one of `ENGINES`), and what the machine has and runs."""

    name: str
    features: frozenset[str]
    policies: Mapping[str, Any]
    program: bool
    observers: tuple[Any, ...] = ()

    def unwatched(self) -> EngineKind:
        """The same without observers and a memory policy, which are for one lane: they see the one."""
        policies = {question: policy for question, policy in self.policies.items() if question != "memory"}
        return replace(self, policies=policies, observers=())


def _staged_observer(kind: EngineKind) -> StagedObserver | None:
    """What the handlers are staged with; observers of accesses share one."""
    observers = (*kind.observers, *filter(None, [kind.policies.get("memory")]))
    accesses = [one for one in observers if isinstance(one, AccessObserver)]
    staged = [one for one in kind.observers if isinstance(one, StagedObserver)]
    if accesses:
        staged.append(named(RECORDER)(accesses))
    if len(staged) > 1:
        raise UsageError("handlers are staged with one observer; observers of accesses count as one observer")
    return staged[0] if staged else None


def _make_interpreter(kind: EngineKind, state: State, memory: Memory, usual: str, target: str) -> Any:
    """The interpreter that policies and observers ask for."""
    dispatch, watch, loops = (kind.policies.get(question) for question in ("dispatch", "memory", "loops"))
    observer = _staged_observer(kind) if target == "cpu" else watch
    if (watch or observer) and loops:
        raise UsageError(
            "a memory policy or observer sees all accesses: it is not for a machine that skips loops"
        )
    inline = hasattr(dispatch, "emit")
    if inline and (watch or observer or loops):
        raise UsageError(
            "dispatch=inline is not for a machine with observers or policies for memory or loops"
        )
    if inline and target == "cpu":
        return named(INLINE)(state, memory, dispatch, kind.features)
    engine = named(usual)(state, memory, kind.features, observer)
    if dispatch:
        engine.dispatch_by(dispatch)
    if loops:
        engine.skip_by(named(SKIPPING[target])(loops, engine, memory, kind.features))
    return engine


def make_engine(kind: EngineKind, state: State, memory: Memory, target: str) -> Any:
    """The engine that runs a lane with this state and memory, traced if KVRM_TRACE says so."""
    topics, start = trace_switch()
    engines = DEVICE_ENGINES if target == "cuda" else ENGINES
    stepped = [one for one in kind.observers if isinstance(one, InstructionObserver)]
    if kind.policies or any(isinstance(one, STAGED) for one in kind.observers):
        engine: Any = _make_interpreter(kind, state, memory, engines[kind.name], target)
    else:
        engine = named(engines[kind.name])(state, memory, kind.features)
    if kind.program:
        engine.prepare()
    if topics - {"sys"}:
        from kvrm.observe.trace import Tracer

        engine = _stepping(engine, state, Tracer(state, memory, topics), start)
    for observer in stepped:
        engine = _stepping(engine, state, observer)
    return engine


def _stepping(engine: Any, state: State, observer: InstructionObserver, start: int = 0) -> Any:
    from kvrm.observe.stepping import Stepping

    return Stepping(engine, state, observer, start)
