"""Lanes that leave the device, for the CPU to go on with them: fetched many at a time.

A batch is as many lanes as the device's buffer for rows has room for, and one that needs more alone: how
often the host reads grows with the bytes that lanes hold, not with the lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kvrm.backend.gpu.device_abi import LANE_WORDS
from kvrm.backend.gpu.device_lanes import DeviceLanes, Numbers
from kvrm.backend.gpu.device_process import DeviceProcess
from kvrm.backend.gpu.gather import ROW_WORDS
from kvrm.machine.lanes_inputs import Words


@dataclass(frozen=True, slots=True)
class Leaver:
    """A lane as it leaves: all its words, and the pages that it has its own copy of, by their numbers.

    Of a program, `areas` and `actions` are what it has mapped and set for signals, `stdout` and `stderr`
    what it wrote since lanes began, and `stdin` what it was given, if that is in device memory.
    """

    lane: int
    words: Words
    pages: dict[int, bytes]
    areas: bytes = b""
    actions: bytes = b""
    stdout: bytes = b""
    stderr: bytes = b""
    stdin: bytes = b""


def batches(device: DeviceLanes, process: DeviceProcess | None, which: Numbers) -> Iterator[list[Leaver]]:
    """The lanes with these numbers, in ascending order."""
    parts = process.parts(device.get) if process else []
    owned = device.owned()
    sizes = 8 * (LANE_WORDS + ROW_WORDS * owned) + sum(lengths for _, lengths in parts)
    ends = np.cumsum(sizes[which])
    first = 0
    while first < len(which):
        full = ends[first] - sizes[which[first]] + device.room
        end = max(first + 1, int(np.searchsorted(ends, full, side="right")))
        yield _fetch(device, parts, owned, which[first:end])
        first = end


def _fetch(
    device: DeviceLanes, parts: list[tuple[Words, Words]], owned: Words, which: Numbers
) -> list[Leaver]:
    rows = device.words(which)
    numbers, contents = device.pages(which, owned[which])
    texts = [device.gather(sources, device.of_some(which, lengths[which])) for sources, lengths in parts]
    found, at = [], 0
    for lane, words in zip(which.tolist(), rows, strict=True):
        end = at + int(owned[lane])
        pages = {int(numbers[i]): contents[i].tobytes() for i in range(at, end)}
        found.append(Leaver(lane, words, pages, *(text[lane] for text in texts)))
        at = end
    return found
