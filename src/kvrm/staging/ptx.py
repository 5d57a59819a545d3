"""PTX of device code, which `KVRM_DUMP=ptx` prints."""

from __future__ import annotations

import re
from itertools import count

import llvmlite.binding as llvm

TRIPLE = "nvptx64-nvidia-cuda"
LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
"""Said in the text too: what is parsed without it has other alignments."""
_WIDTHS = {"half": 16, "float": 32, "double": 64}
_TYPE = r"(?:<\d+ x (?:half|float|double)>|half|float|double)"
_FLAGS = r"(?:(?:nnan|ninf|nsz|arcp|contract|afn|reassoc|fast) )*"
_SIGN = re.compile(
    rf"^  (?P<name>%\S+) = (?:fneg {_FLAGS}(?P<t1>{_TYPE}) (?P<x1>%[^,\s]+)"
    rf"|(?:tail )?call {_FLAGS}{_TYPE} @llvm\.fabs\.\w+\("
    rf"(?P<t2>{_TYPE}) (?:noundef )?(?P<x2>%[^,\s)]+)\)).*$",
    re.MULTILINE,
)
_SHORT = r"(?:i16|<\d+ x i16>)"
_SUBTRACT = re.compile(
    rf"^  (?P<name>%\S+) = (?:tail )?call (?P<t>{_SHORT}) @llvm\.ssub\.sat\.\w+\("
    rf"{_SHORT} (?:noundef )?(?P<x>[^,]+), {_SHORT} (?:noundef )?(?P<y>[^)]+)\).*$",
    re.MULTILINE,
)


def compile_ptx(text: str, arch: str) -> str:
    """PTX of a module given as LLVM text."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=arch, opt=2)
    module = llvm.parse_assembly(text, context=llvm.create_context())
    module.verify()
    options = llvm.PipelineTuningOptions(speed_level=2)
    options.slp_vectorization = options.loop_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    spelled = llvm.parse_assembly(spelled_out(str(module)), context=llvm.create_context())
    spelled.verify()
    ptx: str = machine.emit_assembly(spelled)
    return ptx


def spelled_out(text: str) -> str:
    """LLVM text without operations that PTX or its compiler has otherwise than LLVM.

    `abs` and `neg` of a NaN give any NaN; the optimiser makes them of masks. What is negative after a 16-bit
    subtraction from zero is taken to have been positive, -32768 too, so saturation is computed in 32 bits.
    """
    numbers = count()
    return _SUBTRACT.sub(
        lambda m: _subtract(m, next(numbers)), _SIGN.sub(lambda m: _sign(m, next(numbers)), text)
    )


def _sign(found: re.Match[str], number: int) -> str:
    t, x = found["t1"] or found["t2"], found["x1"] or found["x2"]
    width = _WIDTHS[t.strip("<>").split()[-1]]
    shape = re.sub("half|float|double", f"i{width}", t)
    bit = 1 << width - 1
    name, mask = ("xor", bit) if found["t1"] else ("and", bit - 1)
    splat = f"splat (i{width} {mask})" if t[0] == "<" else str(mask)
    return (
        f'  %"sign.{number}" = bitcast {t} {x} to {shape}\n'
        f'  %"signed.{number}" = {name} {shape} %"sign.{number}", {splat}\n'
        f'  {found["name"]} = bitcast {shape} %"signed.{number}" to {t}'
    )


def _subtract(found: re.Match[str], number: int) -> str:
    narrow = found["t"]
    wide = narrow.replace("i16", "i32")
    low, high = ((f"splat (i32 {v})" if wide[0] == "<" else str(v)) for v in (-32768, 32767))
    n = number
    return (
        f'  %"x.{n}" = sext {narrow} {found["x"]} to {wide}\n'
        f'  %"y.{n}" = sext {narrow} {found["y"]} to {wide}\n'
        f'  %"d.{n}" = sub {wide} %"x.{n}", %"y.{n}"\n'
        f'  %"below.{n}" = icmp slt {wide} %"d.{n}", {low}\n'
        f'  %"least.{n}" = select {_conditions(wide)} %"below.{n}", {wide} {low}, {wide} %"d.{n}"\n'
        f'  %"above.{n}" = icmp sgt {wide} %"least.{n}", {high}\n'
        f'  %"most.{n}" = select {_conditions(wide)} %"above.{n}", {wide} {high}, {wide} %"least.{n}"\n'
        f'  {found["name"]} = trunc {wide} %"most.{n}" to {narrow}'
    )


def _conditions(t: str) -> str:
    return t.replace("i32", "i1")
