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
from kvrm.machine.state import State
from kvrm.memory import Memory
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
TARGETS = {"cpu": "kvrm.machine.lanes:Lanes", "cuda": "kvrm.backend.gpu.runner:CudaLanes"}
"""Where lanes run: name to the class that runs them; the first is the default."""
SKIPPING = {"cpu": "kvrm.loops.sites:Sites", "cuda": "kvrm.loops.device_sites:DeviceSites"}
"""For each target, what puts handlers that skip iterations where loops begin."""
REPLACEMENTS = "kvrm.binary.replacement:make_replacements"
DEVICE_ENGINES = dict.fromkeys(ENGINES, "kvrm.backend.gpu.device_engine:DeviceEngine") | {
    "interpreter": "kvrm.backend.gpu.device_engine:DeviceInterpreter"
}
"""What runs the lane of a machine on target "cuda"."""

RECORDER = "kvrm.engine.interpreter.recorder:Recorder"
"""The interpreter whose memory accesses a policy is told of."""


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


def check_policies(policies: Mapping[str, Any], engine: str, target: str) -> None:
    """UsageError if a machine of this kind cannot have these policies."""
    if policies and engine != "interpreter":
        raise UsageError(f"a {next(iter(policies))} policy is for engine interpreter")
    if "memory" in policies and target == "cuda" and not hasattr(policies["memory"], "ahead"):
        raise UsageError("what records accesses or learns from them is for target cpu")


@dataclass(frozen=True, slots=True)
class EngineKind:
    """What engines are made by: their name (one of `ENGINES`), and what the machine has and runs."""

    name: str
    features: frozenset[str]
    policies: Mapping[str, Any]
    program: bool

    def unwatched(self) -> EngineKind:
        """The same without a memory policy, which is for one lane: it sees the accesses of one."""
        policies = {question: policy for question, policy in self.policies.items() if question != "memory"}
        return replace(self, policies=policies)


def _make_interpreter(kind: EngineKind, state: State, memory: Memory, usual: str, target: str) -> Any:
    """The interpreter that the policies ask for."""
    dispatch, watch, loops = (kind.policies.get(question) for question in ("dispatch", "memory", "loops"))
    if watch and loops:
        raise UsageError("a memory policy sees all accesses: it is not for a machine that skips loops")
    inline = hasattr(dispatch, "emit")
    if inline and (watch or loops):
        raise UsageError("dispatch=inline is not for a machine with policies for memory or loops")
    if inline and target == "cpu":
        return named(INLINE)(state, memory, dispatch, kind.features)
    engine: Any = named(RECORDER if watch and target == "cpu" else usual)(state, memory, kind.features)
    if watch:
        engine.watch_by(watch)
    if dispatch:
        engine.dispatch_by(dispatch)
    if loops:
        engine.skip_by(named(SKIPPING[target])(loops, engine, memory, kind.features))
    return engine


def make_engine(kind: EngineKind, state: State, memory: Memory, target: str) -> Any:
    """The engine that runs a lane with this state and memory, traced if KVRM_TRACE says so."""
    topics, start = trace_switch()
    engines = DEVICE_ENGINES if target == "cuda" else ENGINES
    if kind.policies:
        engine: Any = _make_interpreter(kind, state, memory, engines[kind.name], target)
    else:
        engine = named(engines[kind.name])(state, memory, kind.features)
    if kind.program:
        engine.prepare()
    if topics - {"sys"}:
        from kvrm.observe.stepping import Stepping
        from kvrm.observe.trace import Tracer

        return Stepping(engine, state, Tracer(state, memory, topics), start)
    return engine
