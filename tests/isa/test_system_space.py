"""All 98,304 MRS, MSR, SYS and SYSL encodings: the same are there as under QEMU, and no others."""

from __future__ import annotations

import random

import pytest

from against_qemu import qemu_oracle
from extensions import QEMU_ALONE
from kvrm.isa.a64 import decode, disassemble
from oracle.case import DATA_BASE, Case, Kind

CATCH_ALL = ("mrs", "msr", "sys", "sysl")
"""The definitions of what is not accessible at EL0; all others do something."""
OURS_ALONE = {0xD50B7C3F: "DC CVAP", 0xD50B7D3F: "DC CVADP"}
"""Words that QEMU 7.2 does not give to user programs."""
REGISTER = 9
SPACES = {
    "MRS": (0xD5300000, 15),
    "MSR": (0xD5100000, 15),
    "SYS": (0xD5080000, 14),
    "SYSL": (0xD5280000, 14),
}
"""First word, and bits of the operation's number, which stands above Rt."""


def case(word: int) -> Case:
    rng = random.Random(word)
    x = [rng.getrandbits(64) for _ in range(31)]
    x[REGISTER] = DATA_BASE
    return Case((word,), x=x, data_seed=7)


@pytest.mark.parametrize("space", SPACES)
def test_the_same_are_there(space: str) -> None:
    first, bits = SPACES[space]
    words = [first | number << 5 | REGISTER for number in range(1 << bits)]
    bad = []
    for word, outcome in zip(words, qemu_oracle().run([case(word) for word in words]), strict=True):
        d = decode(word)
        assert d is not None, f"{word:08x}"
        ours = d.definition.key not in CATCH_ALL
        theirs = outcome.kind is not Kind.UNDEFINED
        alone = QEMU_ALONE if theirs else OURS_ALONE
        if (ours != theirs) != (word | 31 in alone):
            bad.append(f"{word:08x} {disassemble(word)}: {d.definition.key}, QEMU {outcome.kind.name}")
    assert not bad, "\n".join(bad)
