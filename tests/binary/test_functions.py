"""What policies see of functions, where functions start, what rule and table know."""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import cross
from kvrm import UsageError
from kvrm.binary import known
from kvrm.binary.archives import functions_in
from kvrm.binary.encoding import BACK, CALL, NOT_RELATIVE, OUTSIDE, encode
from kvrm.binary.known import known_of, signatures_of
from kvrm.binary.labels import LABELS, NONE, NUMBER, label_of, labels_of
from kvrm.binary.naming import name_functions
from kvrm.binary.program import Program
from kvrm.binary.proposals import Code, proposals
from kvrm.binary.starts import find_functions
from kvrm.machine.policies import POLICIES, policy_named
from kvrm.neural.loops_data import code_in

STRLEN = [0xAA0003E1, 0x38401422, 0x35FFFFE2, 0xCB000020, 0xD1000400, 0xD65F03C0]
ADRP, ADD, LDR, RET = 0x90000000, 0x91000000, 0xF9400000, 0xD65F03C0


def signature(words: Sequence[int]) -> bytes:
    (found,) = signatures_of(encode([np.array(words, np.uint32)]))
    return found


# -- what is masked ----------------------------------------------------------------------------------------


def test_addresses_are_masked() -> None:
    """ADRP x1; ADD x1, x1, #low; LDR x0, [x1, #8] for two places of the data and of the code."""
    one = [ADRP | 3 << 5 | 1, ADD | 0x123 << 10 | 1 << 5 | 1, LDR | 1 << 10 | 1 << 5, RET]
    other = [ADRP | 1 << 29 | 99 << 5 | 1, ADD | 0x456 << 10 | 1 << 5 | 1, LDR | 1 << 10 | 1 << 5, RET]
    assert signature(one) == signature(other)
    # the offset in what the address is of is not part of it: ADD has written the register since
    assert signature(one) != signature([*one[:2], LDR | 2 << 10 | 1 << 5, RET])
    direct = [ADRP | 1, LDR | 5 << 10 | 1 << 5, RET]
    assert signature(direct) == signature([ADRP | 1, LDR | 9 << 10 | 1 << 5, RET])


def test_other_immediates_are_not() -> None:
    assert signature([ADD | 1 << 10, RET]) != signature([ADD | 2 << 10, RET])
    # another register has the address
    assert signature([ADRP | 2, ADD | 1 << 10 | 1 << 5, RET]) != signature(
        [ADRP | 2, ADD | 2 << 10 | 1 << 5, RET]
    )
    # it is another function's
    two = [np.array(w, np.uint32) for w in ([ADRP | 1, RET], [ADD | 1 << 10 | 1 << 5])]
    assert encode(two).masked[2] == two[1][0]


def test_branches_have_a_kind_and_no_distance() -> None:
    encoded = encode([np.array([*STRLEN[:-1], 0x94001000, 0x14001000], np.uint32)])
    kinds = [NOT_RELATIVE, NOT_RELATIVE, BACK, NOT_RELATIVE, NOT_RELATIVE, CALL, OUTSIDE]
    assert encoded.kind.tolist() == kinds
    assert encoded.masked[5:].tolist() == [0x94000000, 0x14000000] and encoded.masked[2] == 0x35000002


def test_registers_and_other_fields() -> None:
    encoded = encode([np.array([0xCB020020, 0x38401422, 0xD503201F, 0xFFFFFFFF], np.uint32)])
    assert encoded.target.tolist()[:3] == [0, 2, 32] and encoded.base.tolist()[:2] == [1, 1]
    assert encoded.second.tolist()[:2] == [2, 32] and encoded.definition[3] == -1
    assert encoded.rest[1] == 1 << 12 and len(encoded) == 1


def test_labels() -> None:
    assert label_of(["__memcpy_generic", "__memmove_generic"]) == NUMBER["memmove"]
    assert labels_of(["memcpy", "memmove", "x"]) == {NUMBER["memcpy"], NUMBER["memmove"]}
    assert label_of(["bcmp"]) == NUMBER["memcmp"] and label_of(["rindex"]) == NUMBER["strrchr"]
    assert label_of(["__memcpy_chk"]) == label_of(["strcoll"]) == label_of(["atol"]) == NONE == len(LABELS)
    assert label_of(["strcoll", "strcmp"]) == NUMBER["strcmp"] and label_of([]) == NONE


# -- starts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sha256", "expression", "mandelbrot", "primes", "hello", "faults"])
@pytest.mark.parametrize("frames", [True, False])
def test_functions_are_found(examples: Path, name: str, frames: bool) -> None:
    program = Program.of(examples / name)
    if not frames:
        program.frames = {}
    starts = {f.start for f in find_functions(program)}
    right = {a for a, s in program.symbols.items() if s.size}
    assert len(right - starts) <= 1 + len(right) // 20 and len(starts - right) <= 1 + len(right) // 10


def test_stripping_changes_nothing(pattern_guest: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "stripped"
    cross.run("aarch64-linux-gnu-strip", "-o", str(stripped), str(pattern_guest))
    one, other = Program.of(pattern_guest), Program.of(stripped)
    assert one.symbols and not other.symbols
    found = [[(f.start, f.end, f.evidence) for f in find_functions(p)] for p in (one, other)]
    assert found[0] == found[1]
    right = {a: a + s.size for a, s in one.symbols.items() if s.size}
    assert {s: e for s, e, _ in found[0] if s in right} == right


def test_a_damaged_program_is_no_error_of_ours(pattern_guest: Path) -> None:
    data = bytearray(pattern_guest.read_bytes())
    rng = np.random.default_rng(0)
    for _ in range(200):
        broken = data.copy()
        for at in rng.integers(64, len(data), 40):
            broken[at] = rng.integers(0, 256)
        try:
            find_functions(Program(bytes(broken), "broken"))
        except UsageError:
            pass
        except Exception as error:
            from kvrm import ProgramError

            assert isinstance(error, ProgramError), repr(error)


# -- policies ----------------------------------------------------------------------------------------------


def test_rule_and_table() -> None:
    functions = [np.array(w, np.uint32) for w in (STRLEN, [*STRLEN[:3], RET], STRLEN[::-1], [RET])]
    labels = np.array([NUMBER["strlen"], NUMBER["strchr"], NONE, NONE], np.uint8)
    told = known_of(encode(functions), labels)
    again = encode([functions[0], np.array([*STRLEN[:2], 0x35FFFFC2, *STRLEN[3:]], np.uint32), functions[2]])
    assert told.rule(again).argmax(axis=1).tolist() == [NUMBER["strlen"], NUMBER["strlen"], NONE]
    likeness = told.table(again)
    assert (
        likeness[0, NUMBER["strlen"]] == 1
        and likeness[0, NUMBER["strchr"]] == pytest.approx(0.2)
        and likeness[2, NONE] == 1
    )
    # a known function that others are like is no rule
    twice = known_of(encode([functions[0], functions[0]]), np.array([0, NONE], np.uint8))
    assert len(twice.labels) == 0 and twice.rule(again).argmax(axis=1).tolist() == [NONE] * 3


def test_what_is_proposed() -> None:
    scores = np.zeros((2, NONE + 1), np.float32)
    scores[0, [1, 3]] = 0.2, 0.7
    assert proposals(scores, 0.1) == [[(LABELS[3], pytest.approx(0.7)), (LABELS[1], pytest.approx(0.2))], []]


@pytest.mark.parametrize("name", list(POLICIES["patterns"]))
def test_policies_that_ship(name: str, pattern_guest: Path) -> None:
    program = Program.of(pattern_guest)
    found = name_functions(program, policy_named("patterns", name))
    assert len(found) == len(program.symbols) + 1  # nothing says that _start is a function
    named = {f.name for f in found if f.name}
    if name == "oracle":
        assert named == {"strlen", "memcpy", "memset", "memcmp", "strchr"}
    assert named <= set(LABELS) and all(f.verdict is None for f in found)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.a"
    path.write_bytes(b"no archive")
    with pytest.raises(UsageError, match="neither an archive nor"):
        list(functions_in(path))
    data = b"data.tar.xz".ljust(48) + b"%-10d`\n" % 60
    path.write_bytes(b"!<arch>\n" + data + lzma.compress(b"x" * 2000)[:40].ljust(60, b"y"))
    for read in (functions_in, code_in):
        with pytest.raises(UsageError, match="cannot be read"):
            list(read(path))
        with pytest.raises(UsageError, match="No such file"):
            list(read(tmp_path / "none"))
    with pytest.raises(UsageError, match="No such file"):
        known.load(tmp_path)


def test_code_has_a_length() -> None:
    assert len(Code(encode([np.array(STRLEN, np.uint32)]), [()])) == 6
