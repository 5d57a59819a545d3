"""Patterns: what the network computes, its weights, the data set, scores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import cross
from kvrm import UsageError
from kvrm.binary.archives import functions_in
from kvrm.binary.encoding import encode
from kvrm.binary.labels import NONE
from kvrm.neural import patterns_dataset as dataset
from kvrm.neural import patterns_evaluation as evaluation
from kvrm.neural import patterns_network as network
from kvrm.neural import patterns_training as training
from kvrm.neural.patterns_dataset import Variant
from kvrm.neural.weights import SHIPPED, hash_of, load

STRLEN = [0xAA0003E1, 0x38401422, 0x35FFFFE2, 0xCB000020, 0xD1000400, 0xD65F03C0]
ADRP, ADD, LDR, RET = 0x90000000, 0x91000000, 0xF9400000, 0xD65F03C0


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


# -- weights -----------------------------------------------------------------------------------------------


def test_weights_are_what_their_manifest_says() -> None:
    told = json.loads((SHIPPED / f"{network.NAME}.json").read_text())
    flat = load(network.NAME, network.COUNT)
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
            network.vocabulary_of(tmp_path)
    with pytest.raises(UsageError, match="No such file"):
        network.vocabulary_of(tmp_path / "not")


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
        other = found["other"].words
        masked = encode([other]).masked
        where = [i for i, word in enumerate(other.tolist()) if word & 0x9F000000 == 0x90000000]
        assert where and all(masked[i] & ~np.uint32(31) == 0x90000000 for i in where)


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


def test_data_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="kvrm data patterns"):
        dataset.load(tmp_path)
