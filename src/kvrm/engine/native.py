"""LLVM as a service: IR text to object code, object code to callable addresses. One place imports `llvmlite.binding`."""

from __future__ import annotations

import functools
import threading

import llvmlite.binding as llvm

_lock = threading.Lock()


@functools.cache
def target_machine() -> llvm.TargetMachine:
    """The host's target, tuned to its CPU."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="small",
    )


def optimise(text: str) -> llvm.ModuleRef:
    """Parse, verify and optimise a module."""
    machine = target_machine()
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    options = llvm.PipelineTuningOptions(speed_level=2)
    options.slp_vectorization = options.loop_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def compile_object(text: str) -> bytes:
    """Object code of a module given as LLVM text."""
    return bytes(target_machine().emit_object(optimise(text)))


class Loader:
    """Keeps object code in memory and tells where its functions are; what is loaded stays for the process."""

    def __init__(self) -> None:
        target_machine()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _fresh_target())

    def load(self, code: bytes) -> None:
        """Link an object file into the process."""
        with _lock:
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Host address of an external symbol; LookupError if there is none."""
        address: int = self._engine.get_function_address(name) or self._engine.get_global_value_address(name)
        if not address:
            raise LookupError(name)
        return address


def _fresh_target() -> llvm.TargetMachine:
    """A target machine to give away: an execution engine takes ownership of its own."""
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
    )


def fingerprint() -> str:
    """What object code depends on besides its source: LLVM and the host's CPU."""
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"{version} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
