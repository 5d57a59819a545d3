"""Dispatch-10,279: its layout and arithmetic, and the proof that it is right for all 2^32 words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import device_on_host
import kvrm
from kvrm.cli import archived, networks
from kvrm.cli.networks import certificate_text
from kvrm.engine.interpreter.dispatch import oracle, rule
from kvrm.errors import UsageError
from kvrm.isa.execution import CELLS, CLASS_BITS, allocated_words, classes, execution_of, words_of
from kvrm.neural import dispatch_baseline as baseline
from kvrm.neural import dispatch_device as device
from kvrm.neural import dispatch_evaluation as evaluation
from kvrm.neural import dispatch_network as network
from kvrm.neural import dispatch_proof as proof
from kvrm.neural import dispatch_training as training
from kvrm.neural.dispatch_host import HostNetwork
from kvrm.neural.weights import SHIPPED, Floats, hash_of, load
from kvrm.staging import native
from kvrm.staging.ptx import compile_ptx
from patience import SECONDS
from ptx_tools import assemble

WORDS = words_of(np.arange(CELLS, dtype=np.uint32))
CERTIFICATE = SHIPPED / f"{network.NAME}.proof.json"


@pytest.fixture(scope="module")
def flat() -> Floats:
    return load(network.NAME, network.COUNT)


@pytest.fixture(scope="module")
def proved(flat: Floats) -> proof.Certificate:
    return proof.prove(flat)


def cli(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kvrm", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=SECONDS)


# -- shape and arithmetic ----------------------------------------------------------------------------------


def test_the_flat_layout_is_that_of_the_design() -> None:
    assert network.COUNT == 10279 and baseline.COUNT == 135
    assert network.places() == [(8192, 9600), (9632, 10144), (10160, 10272)]
    flat = np.arange(network.COUNT, dtype=np.float32)
    assert network.embedding_of(flat)[1, 0] == 32
    (first, biases), *_, (last, last_biases) = network.layers_of(flat)
    assert first.shape == (32, 44) and first[1, 0] == 8192 + 44 and biases[0] == 9600
    assert last.shape == (7, 16) and last_biases.tolist() == [*range(10272, 10279)]


def test_it_reads_the_top_byte_and_twelve_bits() -> None:
    flat = np.zeros(network.COUNT, np.float32)
    network.embedding_of(flat)[:, 0] = np.arange(256)
    inputs = network.inputs_of(np.array([0xD4F9FC00, 0x0006_03FF], np.uint32), flat)
    assert inputs[0].tolist() == [0xD4, *[0] * 31, *[1] * 12]
    assert inputs[1].tolist() == [0] * 44


def fma(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    """Exact in float64 but for the sum, which is then rounded once more: right where that is no tie."""
    return np.float32(np.float64(a) * np.float64(b) + np.float64(c))


@pytest.mark.parametrize("seed", range(3))
def test_the_sums_have_the_order_that_is_told(seed: int) -> None:
    """By the same steps in Python, to the last bit."""
    flat = network.random_weights(seed)
    words = np.random.default_rng(seed).integers(0, 1 << 32, 20, np.uint32)
    chosen, leads = HostNetwork(flat).decide(words)
    for word, work, lead in zip(words, chosen, leads, strict=True):
        values = network.inputs_of(np.array([word]), flat)[0]
        for number, (weights, biases) in enumerate(network.layers_of(flat)):
            sums = []
            for row, total in zip(weights, biases, strict=True):
                for value, weight in zip(values, row, strict=True):
                    total = fma(value, weight, total)
                sums.append(total)
            values = np.array(sums if number == 2 else np.maximum(sums, 0), np.float32)
        second, best = np.sort(values)[-2:]
        assert work == values.argmax() and lead == best - second


def test_any_number_of_words(flat: Floats) -> None:
    host = HostNetwork(flat)
    whole = host.decide(WORDS[:100])
    for count in (0, 1, 15, 16, 17):
        for part, all_of_it in zip(host.decide(WORDS[:count]), whole, strict=True):
            assert (part == all_of_it[:count]).all()


def test_parameters_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="10279 parameters of float32"):
        HostNetwork(np.zeros(10278, np.float32))


# -- proof -------------------------------------------------------------------------------------------------


def test_the_shipped_weights_are_proved(proved: proof.Certificate) -> None:
    assert proved.holds and proved.wrong == proved.undecided == 0
    assert proved.words == 1 << 32 and sum(proved.histogram.values()) == 1 << 32
    assert proved.least_lead > 1 > proved.largest_error


@pytest.mark.slow
def test_every_single_word(flat: Floats, proved: proof.Certificate) -> None:
    """Without any argument about bits: all 2^32 words through the code that ships."""
    host, counts, wrong, least = HostNetwork(flat), np.zeros(7, np.int64), 0, np.inf
    for first in range(0, 1 << 32, 1 << 20):
        words = np.arange(first, first + (1 << 20), dtype=np.uint64).astype(np.uint32)
        chosen, leads = host.decide(words)
        wrong += int((chosen != execution_of(words)).sum())
        counts += np.bincount(chosen, minlength=7)
        least = min(least, float(leads.min()))
    assert wrong == 0 and least == proved.least_lead
    assert counts.tolist() == list(proved.histogram.values())


def test_the_certificate_is_that_of_the_shipped_weights(proved: proof.Certificate) -> None:
    told = json.loads(CERTIFICATE.read_text())
    mine = json.loads(certificate_text(proved))
    error = told.pop("largest_error"), mine.pop("largest_error")
    assert told == mine and error[0] == pytest.approx(error[1])


def test_the_manifests_are_those_of_the_shipped_weights(proved: proof.Certificate) -> None:
    for name, count in ((network.NAME, network.COUNT), (baseline.NAME, baseline.COUNT)):
        manifest = json.loads((SHIPPED / f"{name}.json").read_text())
        assert manifest["weights_sha256"] == hash_of(load(name, count))
        assert manifest["data"]["classes_sha256"] == proved.classes_sha256
        assert manifest["parameters"] == count and len(manifest["commit"]) == 40


@pytest.mark.parametrize("place", [0x9A * 32, 8192, 10272])
def test_a_wrong_weight_is_found(flat: Floats, place: int) -> None:
    """In the embedding, in a layer, in a bias."""
    broken = flat.copy()
    broken[place] += 64
    found = proof.prove(broken)
    assert found.wrong and not found.holds and found.least_lead <= 0


def test_a_lead_that_rounding_could_undo_proves_nothing(flat: Floats) -> None:
    """All outputs as they were, but a thousandth of the size: the bias of one class decides."""
    tied = flat.copy()
    tied[10160:] = 0
    found = proof.prove(tied)
    assert found.undecided == 1 << 32 and not found.holds


def test_a_network_that_reads_other_bits_proves_nothing() -> None:
    answer = (classes(), np.ones(CELLS, np.float32))
    proof.require_same(answer, answer)
    with pytest.raises(AssertionError, match="reads bits"):
        proof.require_same(answer, (classes(), np.full(CELLS, 1.5, np.float32)))


def test_errors_are_bounded(flat: Floats) -> None:
    """What float32 in another order gives is within the bound of what float64 gives."""
    words = WORDS[:: CELLS // 4096]
    outputs, errors = proof.exact_outputs(flat, words)
    values = network.inputs_of(words, flat)
    for number, (weights, biases) in enumerate(network.layers_of(flat)):
        values = values @ weights.T + biases
        values = values if number == 2 else np.maximum(values, 0)
    assert values.dtype == np.float32 and (np.abs(values - outputs) <= errors).all()


def test_a_certificate_holds_only_if_nothing_is_wrong(proved: proof.Certificate) -> None:
    assert not replace(proved, wrong=1).holds and not replace(proved, undecided=1).holds


# -- the GPU's kernel --------------------------------------------------------------------------------------


def test_the_device_finds_what_the_host_finds(flat: Floats, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel on the host, over stretches of words; once with weights that are wrong there."""
    monkeypatch.setattr(device, "compile_ptx", lambda text, arch: text)
    gpu = device_on_host.HostDevice()
    for first, weights in ((0x9AC00000, flat), (0xFFFF0000, flat), (0x12340000, network.random_weights(0))):
        found = device.verify(gpu, weights, first, 1 << 16, blocks=2, threads=4)
        words = np.arange(first, first + (1 << 16), dtype=np.uint64).astype(np.uint32)
        chosen, leads = HostNetwork(weights).decide(words)
        right = chosen == execution_of(words)
        assert found.wrong == int((~right).sum())
        assert list(found.histogram.values()) == np.bincount(chosen, minlength=7).tolist()
        assert found.least_lead == (leads[right].min() if right.any() else np.inf)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_kernel_assembles(flat: Floats, arch: str, ptxas: str, tmp_path: Path) -> None:
    assemble(ptxas, compile_ptx(device.device_text(flat), arch), arch, tmp_path)


@pytest.mark.gpu
def test_a_gpu_finds_the_same_for_every_word(flat: Floats, proved: proof.Certificate) -> None:
    from kvrm.backend.gpu.driver import device as gpu

    found = device.verify(gpu(), flat)
    assert (found.wrong, found.histogram) == (0, proved.histogram)
    assert found.least_lead == pytest.approx(proved.least_lead, rel=1e-6)


# -- training and evaluation -------------------------------------------------------------------------------


def test_training_begins_to_learn() -> None:
    told: list[tuple[int, int, float]] = []
    flat = training.train(0, 500, lambda *now: told.append(now))
    assert [step for step, _, _ in told] == [0, 500]
    assert told[1][1] < told[0][1] / 10 and (training.leads(flat) <= 0).sum() == told[1][1]
    assert (training.train(0, 20, lambda *_: None) == training.train(0, 20, lambda *_: None)).all()


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    words, wanted = rng.integers(0, 1 << 32, 64, np.uint32), rng.integers(0, 7, 64).astype(np.uint8)
    flat = network.random_weights(1)
    gradient = training.gradient_of(flat, words, wanted)

    def loss(at: int, by: float) -> float:
        moved = flat.copy()
        moved[at] += by
        outputs, _ = proof.exact_outputs(moved, words)
        return float((np.log(np.exp(outputs).sum(axis=1)) - outputs[np.arange(64), wanted]).mean())

    for at in (int(words[0] >> 24) * 32, 8200, 9601, 9700, 10150, 10161, 10275):
        slope = (loss(at, 1e-3) - loss(at, -1e-3)) / 2e-3
        assert gradient[at] == pytest.approx(slope, rel=0.02, abs=1e-5)


def test_policies_side_by_side() -> None:
    rows = {row.name: row for row in evaluation.rows(SHIPPED)}
    assert list(rows) == ["rule", "table", baseline.NAME, network.NAME, "random weights", "oracle"]
    for name in ("table", network.NAME, "oracle"):
        assert rows[name].wrong == 0 and rows[name].right == rows[name].right_allocated == 1
    assert 0.9 < rows["rule"].right_allocated < 1 and rows["random weights"].right < 0.5
    best = sum(np.bincount(row).max() for row in classes().reshape(256, -1)) / CELLS
    assert 0.9 < rows[baseline.NAME].right <= best < 1


def test_the_oracle_is_the_decoder() -> None:
    words = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, np.uint32)
    assert (oracle(words) == execution_of(words)).all()
    # add, madd, and udiv, which needs more than the rule looks at
    assert rule(np.array([0x8B020020, 0x9B020C20, 0x9AC20820], np.uint32)).tolist() == [0, 4, 0]


def test_allocated_words_are_counted() -> None:
    counts = allocated_words()
    free = 32 - len(CLASS_BITS)
    assert counts.max() == 1 << free
    assert counts[(0xD503201F >> 19 << 7) | (0xD503201F >> 10 & 0x7F)] < 1 << free


# -- the command line --------------------------------------------------------------------------------------


def test_prove_from_the_command_line(tmp_path: Path) -> None:
    done = cli("prove", "dispatch", "--certificate", tmp_path / "proof.json")
    assert done.returncode == 0, done.stderr
    assert "0 of 4,294,967,296 words wrong" in done.stdout and "proved in" in done.stdout
    assert json.loads((tmp_path / "proof.json").read_text())["wrong"] == 0


def test_what_is_not_proved_says_so(tmp_path: Path) -> None:
    np.save(tmp_path / f"{network.NAME}.npy", network.random_weights(0))
    done = cli("prove", "dispatch", "--weights", tmp_path)
    assert done.returncode == 1 and "not proved" in done.stdout


def test_train_from_the_command_line(tmp_path: Path) -> None:
    done = cli("train", "dispatch", "--out", tmp_path / "new", "--steps", 10, "--seeds", 2)
    assert done.returncode == 1, done.stderr
    assert "seed 1: " in done.stdout
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        f"{name}.{kind}" for name in (network.NAME, baseline.NAME) for kind in ("npy", "json")
    }
    load(network.NAME, network.COUNT, tmp_path / "new")


def test_evaluate_from_the_command_line(tmp_path: Path) -> None:
    done = cli("evaluate", "dispatch", "--plots", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "dispatch-10279" in done.stdout and "random weights" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"dispatch-right.svg", "dispatch-cost.svg"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("prove", "memory"), "No such command 'memory'"),
        (("train", "nothing"), "No such command 'nothing'"),
        (("evaluate", "--weights"), "No such option"),
        (("prove", "dispatch", "--target", "tpu"), "no target 'tpu'; there are cpu, cuda"),
        (("prove", "dispatch", "--weights", "{empty}"), "dispatch-10279.npy: No such file or directory"),
        (("prove", "dispatch", "--weights", "{short}"), "(3,) of float32, not (10279,) of float32"),
        (("prove", "dispatch", "--weights", "{text}"), "not a NumPy array"),
        (("prove", "dispatch", "--weights", "{nan}"), "not all of its numbers are finite"),
        (("run", "--policy", "dispatch", "x"), "--policy dispatch: it is QUESTION=NAME"),
        (("run", "--policy", "dispatch=best", "{hello}"), "no policy dispatch=best; there are rule, table"),
        (("run", "--engine", "tiered", "--policy", "dispatch=rule", "{hello}"), "for engine interpreter"),
    ],
)
def test_complaints(arguments: tuple[str, ...], message: str, tmp_path: Path, examples: Path) -> None:
    places = {name: tmp_path / name for name in ("empty", "short", "text", "nan")}
    for place in places.values():
        place.mkdir()
    np.save(places["short"] / f"{network.NAME}.npy", np.zeros(3, np.float32))
    np.save(places["nan"] / f"{network.NAME}.npy", np.full(network.COUNT, np.nan, np.float32))
    (places["text"] / f"{network.NAME}.npy").write_text("no array")
    done = cli(*(a.format(**places, hello=examples / "hello") for a in arguments))
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and len(lines) == 1 and message in lines[0], done.stderr


def test_run_with_a_policy(examples: Path) -> None:
    done = cli("run", "--policy", "dispatch=network", examples / "hello")
    assert (done.returncode, done.stdout) == (0, "Hello from AArch64.\n")
    done = cli("run", "--policy", "dispatch=random", examples / "hello")
    assert done.returncode == 71 and done.stdout == "" and "the dispatch policy takes" in done.stderr


def test_weights_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load(network.NAME, network.COUNT, tmp_path)


def test_compiled_code_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second start compiles nothing."""
    from kvrm.neural import dispatch_host as host

    monkeypatch.setenv("KVRM_CACHE", str(tmp_path))
    host._compiled.__wrapped__()
    monkeypatch.setattr(native, "compile_object", lambda *_: pytest.fail("compiled again"))
    host._compiled.__wrapped__()


# -- what manifests say of the program ---------------------------------------------------------------------


def test_the_commit_of_a_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the repository that has the package's files, of an archive of it, or else the version."""
    package = tmp_path / "kvrm" / "__init__.py"
    package.parent.mkdir()
    package.touch()
    monkeypatch.setattr(kvrm, "__file__", str(package))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    git = ["git", "-C", tmp_path, "-c", "user.name=n", "-c", "user.email=e"]
    assert networks.commit() == kvrm.__version__
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "another project's"], check=True)
    assert networks.commit() == kvrm.__version__
    monkeypatch.setattr(archived, "COMMIT", "0" * 40)
    assert networks.commit() == "0" * 40
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "the package"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert networks.commit() == head.stdout.strip()
    package.write_text("changed\n")
    assert networks.commit() == head.stdout.strip() + "-dirty"


def test_an_archive_has_its_commit() -> None:
    root = Path(networks.__file__).parents[3]
    path = "src/kvrm/cli/archived.py"
    asked = ["git", "-C", root, "check-attr", "export-subst", path]
    done = subprocess.run(asked, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not in a repository")
    assert done.stdout == f"{path}: export-subst: set\n" and archived.COMMIT.startswith("$Format:")
