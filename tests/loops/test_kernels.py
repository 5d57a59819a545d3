"""The function that skips iterations: what is compiled for the CPU does what the same text does as Python."""

from __future__ import annotations

import ctypes
import random
from array import array
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from kvrm.loops import native as loops_native
from kvrm.loops import plan
from kvrm.loops.skip import skipped
from kvrm.loops.structure import Effect
from kvrm.memory import PAGE, AccessKind, Prot
from kvrm.memory.pages import HOST
from kvrm.staging import native
from kvrm.staging.emitter import Module
from kvrm.staging.translation import define
from loop_maker import Maker, random_start
from loop_tools import CODE, WINDOWS, Lab

Skipped = Callable[[int, int, int], int]


@pytest.fixture(scope="module")
def compiled() -> Iterator[Skipped]:
    """The function in native code."""
    module = Module(name="skipped")
    define(module, skipped, loops_native.OPERATIONS)
    loader = native.loaded(str(module))
    word = ctypes.c_int64
    entry = ctypes.CFUNCTYPE(word, ctypes.c_void_p, ctypes.c_void_p, word)(loader.address("skipped"))
    yield lambda state, site, budget: int(entry(state, site, budget))
    del loader


def left_by(
    function: Skipped, lab: Lab, words: array[int], start: tuple[bytes, int], budget: int
) -> tuple[object, ...]:
    """How many iterations it says, and what it leaves, where all pages are in the page table."""
    lab.memory.restore(lab.snapshot)
    for first, pages, prot in WINDOWS:
        kind = AccessKind.WRITE if prot == Prot.R | Prot.W else AccessKind.READ
        for number in range(pages):
            lab.memory.resolve(first + number * PAGE, kind)
    lab.state.load(start)
    site = array("Q", words)
    count = function(lab.state.address, site.buffer_info()[0], budget)
    written = {number: HOST[at : at + PAGE].tobytes() for number, at, _ in lab.memory.changed_pages()}
    return count, lab.state.save(), site, written


def test_python_and_native_code_leave_the_same(compiled: Skipped) -> None:
    lab, effects, number = Lab(3), Counter[Effect](), 0
    while sum(effects.values()) < 250 or len(effects) < len(Effect):
        number += 1
        rng = random.Random(number)
        lab.load(Maker(rng).body())
        if not lab.install():
            continue
        words = lab.sites._sites[CODE // PAGE][CODE].words
        for _ in range(4):
            start, budget = random_start(rng, lab), rng.choice((3000, rng.randrange(1, 400)))
            native_code = left_by(compiled, lab, words, start, budget)
            assert left_by(skipped, lab, words, start, budget) == native_code, number
            effects[Effect(words[plan.EFFECT // plan.WORD])] += native_code[0] != 0
    assert min(effects.values()) >= 5
