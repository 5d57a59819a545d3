"""The benchmark of lanes: its random inputs, and one small run of it beside QEMU."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

import cross
from places import REPOSITORY


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(REPOSITORY / "bench")
    import run_lanes

    return run_lanes


@pytest.mark.parametrize("program", ["words", "lua", "sqlite", "zlib", "json"])
def test_inputs_differ_from_lane_to_lane_and_not_from_run_to_run(bench: ModuleType, program: str) -> None:
    texts = bench.inputs(program, 12)
    assert len(set(texts)) == 12
    assert max(map(len, texts)) > 1.5 * min(map(len, texts))
    assert not any(b"$[" in text for text in texts)
    assert bench.inputs(program, 3) == texts[:3]
    assert bench.inputs(program, 3, seed=2) != texts[:3]


def test_all_ways_run_the_same_and_figures_are_kept(bench: ModuleType, qemu: str, tmp_path: Path) -> None:
    if reason := cross.missing():
        pytest.skip(reason)
    few = [
        "--programs",
        "json",
        "--lanes",
        "4",
        "--threads",
        "2",
        "--repeat",
        "1",
        "--seconds",
        "0",
        "--warm-up",
        "0",
    ]
    bench.main([*few, "--qemu", qemu, "--built", str(tmp_path), "--json", str(tmp_path / "figures")])
    kept = json.loads((tmp_path / "figures").read_text())
    found = kept["programs"]["json"]
    assert (kept["seed"], kept["lanes"]) == (bench.SEED, 4)
    assert found["instructions_per_run"] > 100_000
    assert list(found["peers"]) == ["1 thread", "2 threads", "qemu"]
    for its in found["peers"].values():
        assert its["runs"] == 4
        assert its["runs_per_second"] == pytest.approx(4 / its["seconds"]["wall"][0])


def test_another_output_ends_the_run_with_code_1(bench: ModuleType) -> None:
    checked = bench.Checked("json")
    checked.check("1 thread", [(0, b"a"), (0, b"b")])
    checked.check("2 threads", [(0, b"a"), (0, b"b")] * 3)
    for wrong in ((0, b"c"), (1, b"b")):
        with pytest.raises(SystemExit, match=r"json, input 1: 1 thread returned 0 and printed b'b', qemu"):
            checked.check("qemu", [(0, b"a"), (0, b"b"), (0, b"a"), wrong])


def test_a_program_that_cannot_be_built_is_one_line(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit) as ended:
        bench.main(["--programs", "words", "--qemu", "qemu-aarch64", "--built", str(tmp_path)])
    assert ended.value.code == 2
    assert "apt-get install g++-aarch64-linux-gnu" in capsys.readouterr().err.splitlines()[-1]
