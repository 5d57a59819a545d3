"""What proposes the structure of loops: rule, table and network, their data and their commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kvrm.loops import table
from kvrm.loops.oracle import oracle
from kvrm.loops.rule import rule
from kvrm.neural import loops_data as data
from kvrm.neural import loops_network as network
from kvrm.neural.loops_evaluation import policies_of, rows
from kvrm.neural.loops_network import COUNT, SHAPES, Network, batch_of, labels_of, parts_of, structure_of
from kvrm.neural.loops_training import gradient_of, names_registers, rename
from kvrm.neural.weights import SHIPPED, hash_of, load
from loop_cases import COPY, FILL, LENGTH, MEMCPY, MEMSET, SIEVE, SUM, TIGHT
from loop_tools import encode
from patience import SECONDS
from places import GUESTS

CHECKED = (
    "bits.weight",
    "word.bias",
    "fields",
    "lstm0.backward.states",
    "lstm1.forward.inputs",
    "heads.weight",
)
CHECKED += ("context.weight", "pointers.bias", "lstm0.forward.input_bias", "lstm1.backward.state_bias")
"""Parts whose gradient is compared with differences."""
BODIES = [tuple(body) for body in (TIGHT, FILL, COPY, SUM, LENGTH, MEMSET, MEMCPY, SIEVE)]


def test_the_rule_knows_the_usual_loops() -> None:
    assert rule(BODIES[:-2]) == oracle(BODIES[:-2])


def test_the_network_that_ships_knows_the_usual_loops() -> None:
    proposed = network.shipped()(BODIES)
    assert sum(one == other for one, other in zip(proposed, oracle(BODIES), strict=True)) >= len(BODIES) // 2


def test_the_table_knows_a_loop_with_other_registers_and_numbers() -> None:
    rows = table.learn(zip(BODIES, oracle(BODIES), strict=True))
    other = [encode("add_shift", sf=1, Rm=9, Rn=11, Rd=11), encode("sub_imm", sf=1, imm12=4, Rn=7, Rd=7)]
    body = (*other, TIGHT[-1] & ~31 | 7)
    assert table.Table(rows)([body]) == oracle([body]) != [None]
    assert table.Table(rows)([body[1:]]) == [None]


def test_labels_and_structures_are_the_same() -> None:
    for structure in (*oracle(BODIES), None):
        assert structure_of(labels_of(structure)) == structure


# -- the network ---------------------------------------------------------------------------------------------
def batch() -> tuple[network.Batch, np.ndarray]:
    labels = np.array([labels_of(s) for s in oracle(BODIES)])
    return batch_of(BODIES), labels


def test_the_shape() -> None:
    assert COUNT == 1_082_958
    assert sum(int(np.prod(shape)) for name, shape in SHAPES.items() if "lstm" in name) == 659_456


def test_every_part_has_a_say() -> None:
    b, labels = batch()
    gradient = np.zeros(COUNT, np.float32)
    gradient_of(parts_of(network.random_weights(0)), b, labels, parts_of(gradient))
    for name, part in parts_of(gradient).items():
        assert (part != 0).mean() > (0.1 if name == "fields" else 0.2), name


def test_the_gradient_is_that_of_the_loss() -> None:
    bodies = [tuple(LENGTH), tuple(TIGHT)]
    b, labels = batch_of(bodies), np.array([labels_of(s) for s in oracle(bodies)])
    flat, gradient = network.random_weights(1).astype(np.float64), np.zeros(COUNT)
    gradient_of(parts_of(flat), b, labels, parts_of(gradient))
    at, unused = 0, np.zeros(COUNT)
    for name, shape in SHAPES.items():
        size = int(np.prod(shape))
        if name in CHECKED:
            i = at + int(np.abs(gradient[at : at + size]).argmax())
            losses = []
            for change in (1e-5, -1e-5):
                moved = flat.copy()
                moved[i] += change
                losses.append(gradient_of(parts_of(moved), b, labels, parts_of(unused)))
            assert gradient[i] == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=0.01), name
        at += size


def test_padding_changes_nothing() -> None:
    policy = Network(network.random_weights(2))
    together = policy(BODIES)
    assert together == [policy([body])[0] for body in BODIES]


def test_renamed_registers_have_the_labels_that_the_analyser_gives() -> None:
    b, labels = batch()
    words, wanted = rename(b.words, names_registers(b.words), labels, np.random.default_rng(0))
    assert (words != b.words).any()
    bodies = [tuple(row[: len(body)].tolist()) for row, body in zip(words, BODIES, strict=True)]
    assert [labels_of(s) for s in oracle(bodies)] == wanted.tolist()


def test_the_weights_that_ship_are_those_of_their_manifest() -> None:
    told = json.loads((SHIPPED / f"{network.NAME}.json").read_text())
    flat = load(network.NAME, COUNT)
    assert told["weights_sha256"] == hash_of(flat) and told["parameters"] == COUNT
    best = max(told["scores"].items(), key=lambda item: sum(item[1]["validation"].values()))
    assert best[0] == str(told["seed"]) and len(told["scores"]) == 5 and len(told["commit"]) == 40
    known = json.loads((table.SHIPPED / f"{table.NAME}.json").read_text())
    assert known["sha256"] == hash_of(table.read()) and known["data"] == told["data"]


# -- data and commands ---------------------------------------------------------------------------------------
def test_parts_have_no_body_in_common(tmp_path: Path) -> None:
    collected = data.collect(sorted(GUESTS.iterdir()))
    parts = [set(collected.bodies(part)) for part in range(3)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == len(collected.words) > 20
    data.save(collected, tmp_path / "loops.npz")
    again = data.read(tmp_path / "loops.npz")
    assert [again.hash_of(p) for p in range(3)] == [collected.hash_of(p) for p in range(3)]


def test_addresses_are_masked() -> None:
    adr, literal = encode("adr_", immlo=1, immhi=77, Rd=3), encode("ldr_x_literal", imm19=5, Rt=2)
    masked = encode("adr_", Rd=3), encode("ldr_x_literal", Rt=2)
    assert data.masked((adr, literal, *FILL)) == (*masked, *FILL)


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "kvrm", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=SECONDS)


def test_commands(tmp_path: Path) -> None:
    guests = sorted(GUESTS.iterdir())
    made = tmp_path / "loops.npz"
    told = command("data", "loops", *guests, "--out", str(made))
    assert told.returncode == 0 and "test part: SHA-256" in told.stdout
    out = tmp_path / "weights"
    trained = command("train", "loops", "--data", str(made), "--steps", "2", "--out", str(out))
    assert trained.returncode == 0 and "validation: recall" in trained.stdout
    written = json.loads((out / f"{network.NAME}.json").read_text())
    assert set(written["scores"]) == {"0"} and set(written["scores"]["0"]) == {"test", "validation"}
    shown = command(
        "evaluate", "loops", str(GUESTS / "hello"), "--data", str(made), "--plots", tmp_path / "p"
    )
    assert shown.returncode == 0 and all(name in shown.stdout for name in policies_of(None))
    drawn = {path.name for path in (tmp_path / "p").iterdir()}
    assert drawn == {"loops-policies.svg", "loops-cost.svg", "loops-skipped.svg"}
    assert command("evaluate", "loops").returncode == command("train", "loops").returncode == 2


def test_the_oracle_is_right_about_all() -> None:
    collected = data.collect(sorted(GUESTS.iterdir()))
    by_name = {row.name: row for row in rows(collected, policies_of(None))}
    assert by_name["oracle"].recall == by_name["oracle"].acceptance == 1 and by_name["oracle"].wanted
    assert by_name["random"].acceptance < 0.5
