"""Inputs and outputs of lanes as arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvrm
from device_on_host import PLACES, use
from kvrm.backend.gpu import driver
from kvrm.backend.gpu.arrays import DeviceArray
from kvrm.backend.gpu.locked import MOST, LockedMemory
from kvrm.machine.lanes_job import Job

LINES = [b"1 + 2\n", b"30 * 4\n7\n", b"", b"1 / 0\n"]
PACKED = np.frombuffer(b"".join(LINES), np.uint8)
LENGTHS = [len(line) for line in LINES]


def rows() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The lines, each in a row of its own, with what must not be read after."""
    out = np.full((4, 12), ord("9"), np.uint8)
    for row, line in zip(out, LINES, strict=True):
        row[: len(line)] = np.frombuffer(line, np.uint8)
    return out


def test_texts_are_sequences() -> None:
    for texts in (kvrm.Texts.of(LINES), kvrm.Texts(PACKED, LENGTHS), kvrm.Texts(rows(), LENGTHS)):
        assert list(texts) == LINES and len(texts) == 4 and texts[1] == texts[-3] == LINES[1]
        assert texts[1:3] == LINES[1:3] and texts == LINES and texts == kvrm.Texts.of(LINES)
        assert texts != LINES[:3] and texts != [*LINES[:3], b"1 / 1\n"] and repr(texts) == repr(LINES)
        with pytest.raises(IndexError):
            texts[4]
    assert kvrm.Texts(rows())[0] == b"1 + 2\n999999"
    assert kvrm.Texts.of([]) == [] and not kvrm.Texts.of([])


@pytest.mark.parametrize(
    ("data", "lengths"),
    [
        (PACKED, None),
        (PACKED, [1, 2]),
        (PACKED, [len(PACKED) + 1, -1]),
        (PACKED, [[len(PACKED)]]),
        (PACKED, [float(len(PACKED))]),
        (rows(), [1, 2, 3]),
        (rows(), [1, 2, 3, 13]),
        (rows(), [1, 2, 3, -1]),
        (rows().view(np.uint16), None),
        (rows()[None], None),
    ],
)
def test_what_texts_are_not(data: Any, lengths: Any) -> None:
    with pytest.raises(kvrm.UsageError, match="texts"):
        kvrm.Texts(data, lengths)


@pytest.mark.parametrize("target", ["cpu", *PLACES])
def test_lanes_read_arrays(target: str, examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if target != "cpu":
        use(target, monkeypatch)
    where = {"target": "cpu" if target == "cpu" else "cuda"}
    expected = kvrm.Machine(examples / "expression", lanes=4, stdin=LINES).run()
    assert expected.stdout[:2] == [b"3\n", b"120\n7\n"]
    inputs: list[Any] = [kvrm.Texts(PACKED, LENGTHS), kvrm.Texts(rows(), LENGTHS)]
    if target != "cpu":
        there = driver.device().upload(rows())
        inputs.append(kvrm.Texts(DeviceArray(there.address, (4, 12), np.uint8, there), LENGTHS))
    for stdin in inputs:
        results = kvrm.Machine(examples / "expression", lanes=4, stdin=stdin, **where).run()
        assert results.stdout == expected.stdout and results.stderr == expected.stderr
        assert results.stdout.lengths.tolist() == list(map(len, expected.stdout))
        assert (results.retired == expected.retired).all()


@pytest.mark.parametrize("place", PLACES)
def test_texts_on_a_device_are_seen_by_lanes_that_leave_it(
    place: str, examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(place, monkeypatch)
    there = driver.device().upload(rows())
    stdin = kvrm.Texts(DeviceArray(there.address, (4, 12), np.uint8, there), LENGTHS)
    with pytest.raises(kvrm.UsageError, match="on a GPU"):
        kvrm.Machine(examples / "expression", lanes=4, stdin=stdin, target="cpu")
    with pytest.raises(kvrm.UsageError, match="GPU's memory"):
        stdin[0]
    m = kvrm.Machine(examples / "expression", lanes=4, stdin=stdin, target="cuda")
    m.lanes.keep = ("stdout", "stderr")
    first = m.run(max_instructions=20)
    monkeypatch.setattr(Job, "is_resident", False)
    m.lanes.reset()
    on_cpu = m.run()
    assert m.lanes.left_device == 4 and first.stops == {kvrm.Stop.BUDGET: 4}
    assert on_cpu.stdout == kvrm.Machine(examples / "expression", lanes=4, stdin=LINES).run().stdout


def test_an_array_may_change_after_it_was_set(examples: Path) -> None:
    data = rows()
    m = kvrm.Machine(examples / "expression", lanes=4, stdin=kvrm.Texts(data, LENGTHS))
    data[:] = 0
    assert m.run().stdout[0] == b"3\n"
    with pytest.raises(kvrm.UsageError, match="takes 4 texts"):
        m.lanes.stdin = rows()[:3]


def test_locked_memory_is_used_again_and_bounded() -> None:
    kept: dict[int, Any] = {}

    def lock(size: int) -> int:
        block = np.zeros(size, np.uint8)
        kept[block.ctypes.data] = block
        return block.ctypes.data

    locked = LockedMemory(lock, kept.__delitem__)
    data = np.arange(1000, dtype=np.uint32).reshape(10, 100)
    first, second = locked.copied(data), locked.copied(data[:, ::-1])
    assert (first == data).all() and (second == data[:, ::-1]).all() and len(kept) == 2
    view = first[2:]
    del first
    third = locked.copied(data)
    assert len(kept) == 3 and (view == data[2:]).all()
    del view, second, third
    again = locked.copied(data)
    assert len(kept) == 3 and (again == data).all()
    locked._bytes += MOST
    assert (locked.copied(data[1:]) == data[1:]).all() and len(kept) == 1
    assert locked.copied(data[:0]).shape == (0, 100) and locked.empty((3, 2), np.uint16).shape == (3, 2)
    nothing = LockedMemory(lambda size: 0, kept.__delitem__)
    assert (nothing.copied(data) == data).all() and nothing._bytes == 0
