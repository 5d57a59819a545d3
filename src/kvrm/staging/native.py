"""LLVM as a service: IR text to object code to addresses. Only this imports `llvmlite.binding`."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import llvmlite.binding as llvm

from kvrm import cache
from kvrm.errors import UsageError
from kvrm.staging import objects
from kvrm.staging.objects import Object

STAGES = ("decode", "stage", "opt", "asm", "ptx")
_lock = threading.Lock()
_ready = False


def dumps() -> frozenset[str]:
    """What KVRM_DUMP asks to see; UsageError if it names other stages."""
    asked = frozenset(t for t in os.environ.get("KVRM_DUMP", "").split(",") if t)
    if asked - set(STAGES):
        raise UsageError(f"KVRM_DUMP={os.environ['KVRM_DUMP']}: it is {','.join(STAGES)} in any choice")
    return asked


def dump(stage: str, text: str, heading: str = "") -> None:
    """Print `text` on standard error, below its stage and a heading, if KVRM_DUMP names the stage."""
    if stage in dumps():
        lines = [f"; ---- {stage}", *(f"; {line}" for line in heading.splitlines()), text]
        print("\n".join(lines), file=sys.stderr)


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


def host_is_x86() -> bool:
    """Whether compiled code runs on x86-64."""
    return str(target_machine().triple).startswith("x86_64")


def compile_object(text: str, heading: str = "", quickly: bool = False) -> Object:
    """Object code of a module given as LLVM text, from disk or compiled now. Threads may call this.

    `heading` says in KVRM_DUMP's output what it is; with KVRM_DUMP everything is compiled anew. `quickly` is
    for straight code, with the few passes that it profits from: the others take six times as long.
    """
    compiler = f"{fingerprint()}{' quickly' if quickly else ''}"
    return objects.compiled(text, compiler, lambda: _compile(text, heading, quickly), use_disk=not dumps())


def _compile(text: str, heading: str, quickly: bool) -> bytes:
    """Object code, verified and optimised."""
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


class Loader:
    """Keeps object code in memory and tells where its functions are; what is loaded stays for the process."""

    def __init__(self) -> None:
        machine = target_machine()
        # LLVM's own memory manager may put the sections of one object too far apart for its 32-bit
        # relocations
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine, use_lmm=True)

    def load(self, file: Object) -> None:
        """Link an object file into the process."""
        with _lock:
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(file.code))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Host address of an external symbol; LookupError if there is none."""
        address: int = self._engine.get_function_address(name) or self._engine.get_global_value_address(name)
        if not address:
            raise LookupError(name)
        return address


def loaded(text: str) -> Loader:
    """The code of a module, given as LLVM text, in a loader of its own."""
    loader = Loader()
    loader.load(compile_object(text))
    return loader


def load_kept(name: str, text: Callable[[], str]) -> Loader:
    """As `loaded`, for a module whose text takes long to make: each version of the package makes it once.

    `name` tells the module from all others, and says what from outside the package its text depends on.
    """
    index = versioned("modules") / name
    known = None if dumps() else cache.read_checked(index)
    file = None if known is None else objects.find(known.decode())
    if file is None:
        file = compile_object(text())
        cache.write_checked(index, file.name.encode())
    loader = Loader()
    loader.load(file)
    return loader


def versioned(kind: str) -> Path:
    """The folder for what this version of the package makes of programs here (`kvrm.cache.package_hash`)."""
    stamp = f"{cache.package_hash()} {fingerprint()}".encode()
    return cache.versioned_directory(kind, hashlib.blake2b(stamp, digest_size=12).hexdigest())


def versions() -> tuple[str, str]:
    """LLVM's version, and its name for the host's CPU."""
    return ".".join(map(str, llvm.llvm_version_info)), llvm.get_host_cpu_name()


@functools.cache
def fingerprint() -> str:
    """What object code depends on besides its text: LLVM, the CPU, and the passes that this file runs."""
    passes = hashlib.blake2b(Path(__file__).read_bytes(), digest_size=8).hexdigest()
    return f"{versions()} {llvm.get_host_cpu_features().flatten()} {passes}"
