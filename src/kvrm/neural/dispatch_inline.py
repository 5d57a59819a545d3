"""Dispatch-10,279 asked about each instruction that runs (`kvrm.engine.interpreter.inline`)."""

from __future__ import annotations

from kvrm.isa.execution import Classes, Words
from kvrm.neural.dispatch_host import HostNetwork
from kvrm.neural.dispatch_network import COUNT, NAME
from kvrm.neural.dispatch_staged import constants, emit_decision, emit_outputs
from kvrm.neural.weights import Floats, hash_of, load
from kvrm.staging.emitter import Emitter, Value


class InlineNetwork:
    """The network with these parameters, float32, as an inline policy."""

    def __init__(self, flat: Floats) -> None:
        self._flat, self._host = flat, HostNetwork(flat)
        self.name = hash_of(flat)[:24]

    def __call__(self, words: Words) -> Classes:
        return self._host.classes(words)

    def emit(self, e: Emitter, word: Value) -> Value:
        """The class of a word, 32 bits both."""
        return emit_decision(e, emit_outputs(e, constants(e, self._flat), word))[0]


def shipped() -> InlineNetwork:
    return InlineNetwork(load(NAME, COUNT))
