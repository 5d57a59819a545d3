"""The handlers of one variant of a definition: which forms of them there are."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from kvrm.engine.interpreter.handler_target import HostTarget
from kvrm.engine.interpreter.stage import Form, HandlerStage
from kvrm.isa.definition import Definition


def build_handlers(
    module: ir.Module, name: str, definition: Definition, statics: Sequence[int], kind: type[HandlerStage]
) -> ir.Function:
    """Emit them, staged by `kind`; the decoder that chooses among them and fills the slot."""

    def build(into: ir.Module, suffix: str, slow: ir.Function | None, form: Form = Form.ALL) -> HandlerStage:
        stage = kind(into, name + suffix, HostTarget(slow), form)
        stage.build(definition, statics)
        return stage

    trial = build(ir.Module(name="trial"), "", None)
    slow = build(module, "_slow", None).function if trial.touches_memory else None
    stage = build(module, "", slow, Form.AT_X if trial.has_base else Form.ALL)
    special = None
    if trial.has_static_target:
        special = build(module, "_near", slow, Form.NEAR)
    elif trial.has_base:
        special = build(module, "_sp", slow, Form.AT_SP)
    return stage.decoder(module, f"{name}_decode", definition, special)
