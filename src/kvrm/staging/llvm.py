"""LLVM for the host: text to object code. Only this and `kvrm.staging.ptx` import `llvmlite.binding`."""

from __future__ import annotations

import threading

import llvmlite.binding as llvm

from kvrm.staging.native import dump, dumps

_lock = threading.Lock()
_ready = False


def target_machine() -> llvm.TargetMachine:
    """The host's target, tuned to its CPU; a fresh one for each thread and each owner."""
    global _ready
    if not _ready:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _ready = True
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="small",
    )


def compile_text(text: str, heading: str, quickly: bool) -> bytes:
    """Object code of a module, verified and optimised. Threads may call this."""
    machine = target_machine()
    module = llvm.parse_assembly(text, context=llvm.create_context())
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    dump("stage", text, heading)
    (_run_few_passes if quickly else _run_passes)(module, machine)
    if dumps():
        dump("opt", str(module), heading)
        dump("asm", machine.emit_assembly(module), heading)
    return bytes(machine.emit_object(module))


def _run_passes(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    options = llvm.PipelineTuningOptions(speed_level=2)
    # Vector instructions are emitted as vectors; passes that make vectors of scalar code are left out, for
    # compile time.
    options.slp_vectorization = options.loop_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


def _run_few_passes(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    builder = llvm.create_pass_builder(machine, llvm.PipelineTuningOptions(speed_level=2))
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)


class Linked:
    """The code of one object on a host whose relocations `kvrm.staging.linking` does not know."""

    def __init__(self, code: bytes) -> None:
        # LLVM's own memory manager may put the sections of one object too far apart for its 32-bit
        # relocations
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine(), use_lmm=True)
        with _lock:
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """The host address of a global symbol; 0 if there is none."""
        return self._engine.get_function_address(name) or self._engine.get_global_value_address(name)  # type: ignore[no-any-return]


def versions() -> tuple[str, str]:
    """LLVM's version, and its name for the host's CPU."""
    return ".".join(map(str, llvm.llvm_version_info)), llvm.get_host_cpu_name()
