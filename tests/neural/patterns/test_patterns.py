"""Patterns: what policies see of functions, where they start, what the network computes, the data set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import cross
from kvrm import UsageError
from kvrm.neural.patterns import dataset, evaluation, known, network, policies, training
from kvrm.neural.patterns.archives import functions_in
from kvrm.neural.patterns.dataset import Variant
from kvrm.neural.patterns.encoding import BACK, CALL, NOT_RELATIVE, OUTSIDE, encode
from kvrm.neural.patterns.known import known_of, signatures_of
from kvrm.neural.patterns.labels import LABELS, NONE, NUMBER, label_of, labels_of
from kvrm.neural.patterns.policies import Code, proposals
from kvrm.neural.patterns.program import Program
from kvrm.neural.patterns.starts import find_functions
from kvrm.neural.patterns.symbols import name_functions
from kvrm.neural.weights import hash_of

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


# -- the network -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def some() -> network.Sequences:
    rng = np.random.default_rng(0)
    codes = [np.array(STRLEN, np.uint32), *(rng.choice(STRLEN, n).astype(np.uint32) for n in (1, 2, 30, 300))]
    return network.sequences_of(encode(codes), ["orr_reg", "subs_imm", "cbnz", "sub_reg", "ret"])


def test_the_parts_are_the_whole() -> None:
    parts = network.parts_of(np.arange(network.COUNT, dtype=np.float32))
    assert sum(part.size for part in parts) == network.COUNT == 507_939
    assert parts[-1][-1] == network.COUNT - 1


def test_a_functions_answer_does_not_depend_on_others(some: network.Sequences) -> None:
    flat = network.random_weights(0)
    together = network.probabilities(flat, some)
    assert together.shape == (5, NONE + 1) and np.allclose(together.sum(axis=1), 1, atol=1e-5)
    for i in range(5):
        assert np.allclose(network.probabilities(flat, some.take(np.array([i])))[0], together[i], atol=1e-5)
    assert (np.diff(some.starts) == [6, 1, 2, 30, network.LONGEST]).all()


def test_the_gradient_is_the_slope_of_the_loss(some: network.Sequences) -> None:
    flat, wanted = network.random_weights(1), np.array([0, 5, NONE, 7, 1], np.uint8)
    gradient, _ = training.gradient_of(flat, some, wanted)
    at = 0
    for part in network.parts_of(gradient):
        place = at + int(np.abs(part).argmax())
        moved = [flat.copy(), flat.copy()]
        moved[0][place] += 5e-3
        moved[1][place] -= 5e-3
        up, down = (training.gradient_of(m, some, wanted)[1] for m in moved)
        assert gradient[place] == pytest.approx((up - down) / 1e-2, rel=0.05, abs=2e-4)
        at += part.size


def test_changes_keep_what_a_function_is(some: network.Sequences) -> None:
    changed = training.changed(some, np.random.default_rng(0))
    assert len(changed) == len(some) and (np.diff(changed.starts) > 0).all()
    assert len(changed.tokens) < len(some.tokens)
    arguments = np.isin(some.tokens[:, 1:4], (0, 1, 2)).mean()
    assert abs(np.isin(changed.tokens[:, 1:4], (0, 1, 2)).mean() - arguments) < 0.1


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


@pytest.mark.parametrize("name", list(policies.POLICIES))
def test_policies_that_ship(name: str, pattern_guest: Path) -> None:
    program = Program.of(pattern_guest)
    found = name_functions(program, policies.POLICIES[name]())
    assert len(found) == len(program.symbols) + 1  # nothing says that _start is a function
    named = {f.name for f in found if f.name}
    if name == "oracle":
        assert named == {"strlen", "memcpy", "memset", "memcmp", "strchr"}
    assert named <= set(LABELS) and all(f.verdict is None for f in found)


def test_weights_are_what_their_manifest_says() -> None:
    told = json.loads((policies.SHIPPED / f"{network.NAME}.json").read_text())
    flat = policies.load_weights(network.NAME, network.COUNT)
    assert told["weights_sha256"] == hash_of(flat) and told["parameters"] == network.COUNT
    libcs, compilers = {"glibc", "musl", "dietlibc", "klibc", "picolibc"}, {"gcc11", "gcc12", "clang14"}
    assert set(told["data"]["tests"]) == libcs | compilers | {"O1", "O2", "O3", "Os"}
    best = max(told["validation"].items(), key=lambda item: item[1]["recall"] + item[1]["first"])
    assert best[0] == str(told["seed"]) and len(told["commit"]) == 40 and len(told["validation"]) == 5


def test_a_vocabulary_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / f"{network.NAME}.json"
    for text in ("", "{}", json.dumps({"vocabulary": ["x"] * network.DEFINITIONS})):
        path.write_text(text)
        with pytest.raises(UsageError, match="vocabulary"):
            policies.vocabulary_of(tmp_path)
    with pytest.raises(UsageError, match="No such file"):
        policies.vocabulary_of(tmp_path / "not")


# -- data --------------------------------------------------------------------------------------------------

SOURCE = """
typedef unsigned long size_t;
extern int table[];
size_t strlen(const char *s) { size_t n = 0; while (s[n]) n++; return n; }
char *strchr(const char *s, int c) { for (; *s != (char)c; s++) if (!*s) return 0; return (char *)s; }
int other(int i) { return table[i & 7] + NUMBER; }
"""


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One source compiled in three ways, the first one in an archive."""
    place = tmp_path_factory.mktemp("objects")
    (place / "a.c").write_text(SOURCE)
    made = []
    for number, option in enumerate(("-O1", "-Os", "-O2")):
        options = [option, "-c", "-ffreestanding", "-fno-builtin", f"-DNUMBER={number}"]
        made.append(cross.build(place / "a.c", place / f"{number}.o", *options))
    archive = place / "library.a"
    cross.run("aarch64-linux-gnu-ar", "rcs", str(archive), str(made[0]))
    return [archive, *made[1:]]


def test_functions_of_archives_and_objects(objects: list[Path]) -> None:
    for path in objects:
        found = {f.names[0]: f for f in functions_in(path)}
        assert set(found) == {"strlen", "strchr", "other"}
        other = found["other"]
        assert other.library == path.name and len(other.relocated) >= 2
        encoded = encode([other.words])
        assert all(
            encoded.masked[i] != other.words[i] or not _has_distance(other.words[i]) for i in other.relocated
        )


def _has_distance(word: int) -> bool:
    """Whether the relocated field of ADRP or ADD is not zero in the object."""
    return bool(word & 0x60FFFFE0) if word & 0x9F000000 == 0x90000000 else bool(word & 0x3FFC00)


def test_data_and_what_is_held_out(objects: list[Path], tmp_path: Path) -> None:
    libcs = {"one": [objects[0]], "two": [objects[1]]}
    data = dataset.collect(libcs, [Variant("two", "gcc", "O2", objects[2])], [objects[0]])
    assert data.files == ("one", "two", "two variants", "library.a") and data.libcs == ("one", "two")
    counts = dict(zip(data.files, np.bincount(data.origins, minlength=4).tolist(), strict=True))
    # of a file that is no C library, what is called like a known function is left out
    assert counts == {"one": 3, "two": 3, "two variants": 3, "library.a": 1}
    assert (data.labels != NONE).sum() == 6
    assert data.training(None).all()
    left = np.array([data.files[o] for o in data.origins[data.training("two")]])
    assert not set(left) & {"two", "two variants"} and not (data.held_out("two") & data.training("two")).any()
    told = dataset.save(data, tmp_path)
    again = dataset.load(tmp_path)
    assert dataset.manifest(again) == told and (again.words == data.words).all()
    arrays = dict(np.load(tmp_path / "patterns.npz"))
    arrays["words"][0] ^= 1
    np.savez(tmp_path / "patterns.npz", **arrays)
    with pytest.raises(UsageError, match="is not what"):
        dataset.load(tmp_path)


def test_compilers_and_flags_that_are_left_out(objects: list[Path]) -> None:
    """-O1 by "a" and -Os by "b"; what "b" gives as well with -O1 is of two builds."""
    first, second, _ = objects
    made = [("a", "O1", first), ("b", "Os", second), ("b", "O1", first)]
    variants = [Variant("two", compiler, flags, path) for compiler, flags, path in made]
    data = dataset.collect({"one": [first]}, variants, [])
    assert data.splits == ("one", "a", "b", "O1", "Os") and data.compiled == ("a:O1", "b:Os", "b:O1")
    of_first = data.builds == 0b101
    assert of_first.sum() == 3 and (data.builds == 0b010).sum() == 3 and (data.builds == 0).sum() == 3
    assert (data.held_out("a") == of_first).all() and (data.held_out("Os") == (data.builds == 0b010)).all()
    # b makes what a does, so that is not gone when a is; the C library is, for what made it is unknown
    assert (data.training("a") == (data.builds != 0)).all()
    assert (data.training("O1") == data.held_out("Os")).all()
    assert not data.training("b")[data.builds == 0b010].any() and data.training("b")[of_first].all()
    fold = evaluation.fold_of(data, "b")
    assert fold.seen.sum() == 3 and len(fold.new().labels) == 3
    with pytest.raises(UsageError, match="nothing called 'c' in the data; there are one, a, b, O1, Os"):
        data.held_out("c")


def test_more_builds_than_there_are_bits() -> None:
    variants = [Variant("two", "a", str(n), Path("none")) for n in range(dataset.MOST_BUILDS + 1)]
    with pytest.raises(UsageError, match="variants of 65 compilers and flags; at most 64"):
        dataset.collect({}, variants, [])


def test_what_is_the_same_is_kept_for_validation_together() -> None:
    signatures = [bytes([n]) * 8 for n in range(100)]
    kept = dataset.in_validation(signatures + signatures)
    assert (kept[:100] == kept[100:]).all() and 0 < kept.sum() < 50


def test_scores(objects: list[Path]) -> None:
    data = dataset.collect({"one": [objects[0]], "two": [objects[1]]}, [], [])
    fold = evaluation.fold_of(data, "two")
    found = {
        name: evaluation.score(name, p, fold) for name, p in evaluation.policies_of(fold, {}, []).items()
    }
    assert list(found) == ["rule", "table", "random", "oracle"]
    oracle = found["oracle"]
    assert (oracle.recall, oracle.first, oracle.known, oracle.others, oracle.checks) == (1, 1, 2, 1, 2)
    assert oracle.pairs == 3 * NONE and oracle.found[0] == 1 and oracle.found[2] == 0
    assert found["rule"].recall < 1 and found["random"].recall < 1


def test_recall_at_a_precision() -> None:
    hit, sure = np.array([True, True, False, True]), np.array([0.9, 0.8, 0.7, 0.6], np.float32)
    assert evaluation._recall_at(hit, sure, 0.99) == 2 and evaluation._recall_at(hit, sure, 0.75) == 3
    # equally sure answers are taken or left together
    assert evaluation._recall_at(hit, np.full(4, 0.5, np.float32), 0.99) == 0


def test_training_learns(objects: list[Path]) -> None:
    data = dataset.collect({"one": [objects[0]], "two": [objects[1]]}, [], [])
    encoded = encode([data.function(i) for i in range(len(data))])
    sequences = network.sequences_of(encoded, [])
    flat = training.train(sequences, data.labels, 0, 10, lambda *_: None)
    again = training.train(sequences, data.labels, 0, 10, lambda *_: None)
    assert (flat == again).all()
    losses = [training.gradient_of(w, sequences, data.labels)[1] for w in (network.random_weights(0), flat)]
    assert losses[1] < 0.8 * losses[0]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.a"
    path.write_bytes(b"no archive")
    with pytest.raises(UsageError, match="neither an archive"):
        list(functions_in(path))
    with pytest.raises(UsageError, match="No such file"):
        list(functions_in(tmp_path / "none"))
    with pytest.raises(UsageError, match="kvrm data patterns"):
        dataset.load(tmp_path)
    with pytest.raises(UsageError, match="No such file"):
        known.load(tmp_path)


def test_code_has_a_length() -> None:
    assert len(Code(encode([np.array(STRLEN, np.uint32)]), [()])) == 6
