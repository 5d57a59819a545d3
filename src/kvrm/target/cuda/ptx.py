"""Handlers as PTX: the stage of the interpreter over functions that return instead of chaining.

It shows that every definition can be compiled for a GPU (`KVRM_DUMP=ptx` prints it); nothing launches it yet.
"""

from __future__ import annotations

from collections.abc import Sequence

import llvmlite.binding as llvm
from llvmlite import ir

from kvrm.engine.emitter import I64, Emitter
from kvrm.engine.interpreter import flags
from kvrm.engine.interpreter.abi import HANDLER, Function
from kvrm.engine.interpreter.segment import Variant
from kvrm.engine.interpreter.slots import Reason
from kvrm.engine.interpreter.stage import build_handler
from kvrm.isa.a64 import definition_of
from kvrm.machine import state as layout

TRIPLE = "nvptx64-nvidia-cuda"


class DeviceFunction(Function):
    """A handler that writes the state back and returns, since PTX has no tail calls."""

    def __init__(self, module: ir.Module, name: str, linkage: str = "external") -> None:
        self.fn = ir.Function(module, HANDLER, name)
        self.e = Emitter(self.fn.append_basic_block("entry"))
        self.state, self.ip, self.budget = self.fn.args[:3]
        self.flags = list(self.fn.args[3:])

    def tail(self, target: ir.Value, ip: ir.Value, budget: ir.Value) -> None:
        """Call the slow twin, or return to whoever runs the next slot."""
        if isinstance(target, ir.Function):
            self.e.call(target, [self.state, ip, budget, *self.flags])
        else:
            self._write_back(ip, budget)
        self.e.ret_void()

    def leave(self, reason: Reason, ip: ir.Value | None, budget: ir.Value, **fields: ir.Value) -> None:
        """Return with the reason in the state."""
        for name, value in fields.items():
            self.e.store_at(value, self.state, getattr(layout, name))
        self.e.store_at(ir.Constant(I64, reason), self.state, layout.REASON)
        self._write_back(ir.Constant(self.ip.type, None) if ip is None else ip, budget)
        self.e.ret_void()

    def _write_back(self, ip: ir.Value, budget: ir.Value) -> None:
        e = self.e
        e.store_at(ip, self.state, layout.IP)
        e.store_at(budget, self.state, layout.REMAINING)
        for i, flag in enumerate(flags.read(e, self.flags)):
            e.store_at(e.zext(flag, ir.IntType(8)), self.state, layout.FLAGS_OFFSET + i)


def handlers_ptx(variants: Sequence[Variant], arch: str = "sm_80") -> str:
    """PTX of the handlers and decoders of `variants` for a GPU architecture."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = ir.Module(name="handlers")
    for number, (key, statics) in enumerate(variants):
        decoder = build_handler(module, f"h{number}", definition_of(key), statics, DeviceFunction)
        decoder.linkage = "external"
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=arch, opt=2)
    compiled = llvm.parse_assembly(str(module), context=llvm.create_context())
    compiled.triple, compiled.data_layout = TRIPLE, str(machine.target_data)
    compiled.verify()
    options = llvm.PipelineTuningOptions(speed_level=2)
    options.slp_vectorization = options.loop_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(compiled, builder)
    ptx: str = machine.emit_assembly(compiled)
    return ptx
