"""Dispatch by a policy: which handlers may run a word is decided once, when its page is predecoded."""

from __future__ import annotations

import ctypes
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kvrm.engine.exits import Exit
from kvrm.engine.interpreter.slots import CLASS, SLOT
from kvrm.errors import UsageError
from kvrm.isa.a64 import decode_many, definition_for, definitions
from kvrm.isa.definition import Execution
from kvrm.isa.execution import Classes, Words, execution_of
from kvrm.isa.features import allocates
from kvrm.lane.stops import Reason
from kvrm.memory import PAGE, GuestFault, Memory, untagged


class Policy(Protocol):
    """Says the execution class of each of n words; a function of the word alone."""

    def __call__(self, words: Words, /) -> Classes:
        """Classes below 7, of the shape of `words`."""


def classes_of(policy: Policy, words: Words) -> Classes:
    """What a policy answers. Raises UsageError if these are no classes."""
    found = policy(words)
    if found.shape != words.shape or found.dtype != np.uint8 or found.max() >= len(Execution):
        raise UsageError("a dispatch policy gives each word a class below 7, as uint8")
    return found


def misplaced(policy: Policy, words: Words) -> npt.NDArray[np.bool_]:
    """Which of n words have a definition, but of another class than the policy says."""
    found, chosen = decode_many(words), classes_of(policy, words)
    own = np.array([d.execution for d in definitions], np.uint8)[found]
    wrong: npt.NDArray[np.bool_] = (found >= 0) & (own != chosen)
    return wrong


class Dispatch:
    """A policy's classes of the code in `memory`, on a machine with these features."""

    def __init__(self, policy: Policy, memory: Memory, features: frozenset[str]) -> None:
        self.policy, self._memory, self._features = policy, memory, features

    def place(self, page: int, base: int) -> None:
        """Tell the slots at `base`, none decoded, the classes of the words of a page."""
        words = np.frombuffer(self._memory.peek(page * PAGE, PAGE), np.uint32)
        raw = (ctypes.c_uint8 * (len(words) * SLOT)).from_address(base)
        slots = np.frombuffer(memoryview(raw), np.uint32).reshape(len(words), SLOT // 4)
        slots[:, CLASS // 4] = classes_of(self.policy, words)

    def refused(self, pc: int) -> Exit | None:
        """Why no handler can run what is at `pc`; None if one of its class can, or if nothing is there."""
        try:
            word = int.from_bytes(self._memory.peek(untagged(pc), 4), "little")
        except GuestFault:
            return None
        definition = definition_for(word)
        if definition is None or not allocates(self._features, definition.feature):
            return Exit(Reason.UNDEFINED)
        chosen = int(classes_of(self.policy, np.array([word], np.uint32))[0])
        return None if chosen == definition.execution else Exit(Reason.MISPLACED, chosen)


def rule(words: Words) -> Classes:
    """What one would write by hand from the first pages of the manual's encoding index (Arm ARM C4.1)."""
    op0, op1 = words >> np.uint32(25) & np.uint32(0xF), words >> np.uint32(23) & np.uint32(0x7)
    out = np.full(words.shape, Execution.SYSTEM, np.uint8)
    out[(op0 | 1) == 0b1001] = Execution.ARITHMETIC
    out[((op0 | 1) == 0b1001) & ((op1 == 0b100) | (op1 == 0b101))] = Execution.LOGICAL
    out[((op0 | 1) == 0b1001) & ((op1 == 0b110) | (op1 == 0b111))] = Execution.EXTEND_SHIFT
    out[(op0 | 1) == 0b1011] = Execution.BRANCH
    out[(words >> np.uint32(24) | 1) == 0xD5] = Execution.SYSTEM
    out[op0 & 0b0101 == 0b0100] = Execution.LOAD_STORE
    out[op0 & 0b0111 == 0b0101] = Execution.ARITHMETIC
    out[words >> np.uint32(24) & np.uint32(0x1F) == 0b01010] = Execution.LOGICAL
    out[words >> np.uint32(24) & np.uint32(0x1F) == 0b11011] = Execution.MULTIPLY_DIVIDE
    out[op0 & 0b0111 == 0b0111] = Execution.ARITHMETIC
    return out


def oracle(words: Words) -> Classes:
    """The decoder itself; words without a definition as the table has them."""
    found = decode_many(words)
    by_definition = np.array([d.execution for d in definitions], np.uint8)
    return np.where(found >= 0, by_definition[found], execution_of(words))
