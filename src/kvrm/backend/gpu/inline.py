"""Dispatch inline: the kernel's loop asks a policy about each instruction that runs.

It takes the word that the slot was made of, computes its class, and goes to one of seven switches, which have
the handlers of one class each. A slot whose handler is not in it has none, and the lane stops for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from kvrm.backend.gpu.device_abi import Param, pointer
from kvrm.engine.interpreter.inline import Emits
from kvrm.isa.definition import Execution
from kvrm.staging.emitter import I32, I64, Emitter


@dataclass(frozen=True, slots=True)
class Classifier:
    """`classify(word)` tells a class; `classes` are those of handlers, None of one that runs no word.

    `missing` is the number of the handler that runs instead of one of another class.
    """

    classify: ir.Function
    classes: Sequence[Execution | None]
    missing: int

    def begin(self, e: Emitter, params: ir.Value) -> Inline:
        """In a kernel, before its loop."""
        return Inline(self, pointer(e, e.load_at(params, 8 * Param.WORDS, I64)))


@dataclass(frozen=True, slots=True)
class Inline:
    """A classifier in a kernel, and where the words of all slots are."""

    of: Classifier
    words: ir.Value

    def word(self, e: Emitter, number: ir.Value) -> ir.Value:
        word = e.load(e.at(self.words, e.shl(number, ir.Constant(I64, 2))), typ=I32)
        # no kernel writes words: the load needs no order among stores, and may use the read-only cache
        word.set_metadata("invariant.load", e.module.add_metadata([]))
        return word

    def choose(self, word: ir.Value, e: Emitter, which: ir.Value, cases: Sequence[ir.Block]) -> None:
        """Go to the case of handler `which`, 32 bits, if the word is of its class."""
        classes, missing = self.of.classes, cases[self.of.missing]
        runs_none = e.icmp_unsigned("<", which, ir.Constant(I32, classes.count(None)))
        found = e.select(runs_none, ir.Constant(I32, len(Execution)), e.call(self.of.classify, [word]))
        by_class = e.switch(found, missing)
        for number, wanted in enumerate((*Execution, None)):
            block = e.append_basic_block("class")
            by_class.add_case(ir.Constant(I32, number), block)
            e.position_at_end(block)
            switch = e.switch(which, missing)
            for k, case in enumerate(cases):
                if classes[k] is wanted:
                    switch.add_case(ir.Constant(I32, k), case)


def make_classifier(
    module: ir.Module, emits: Emits, classes: Sequence[Execution | None], missing: int
) -> Classifier:
    """The policy as a function of the module: inlined, its weights would take the loop's registers."""
    fn = ir.Function(module, ir.FunctionType(I32, [I32]), "classify")
    fn.linkage = "internal"
    fn.attributes.add("noinline")
    e = Emitter(fn.append_basic_block("entry"))
    e.ret(emits(e, fn.args[0]))
    return Classifier(fn, classes, missing)
