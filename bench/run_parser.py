"""Many lanes of a parser on a GPU, each with documents of its own, beside qemu-aarch64 on all cores.

`--program` is programs/json.c with the C library. The machine runs to `main` once and is forked; each lane
gets some JSON documents as standard input, and all that each prints is compared with what Python's json says.
QEMU has the best of it: one process for each core, and all its documents in one file. Peers alternate;
figures are medians of documents per second, from inputs to outputs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import driver_version, note, table, write_results
from run_functions import at_main

from kvrm.backend.gpu.driver import device

TEMPLATES = 2000
"""Documents that differ in more than their number."""
FNV, FNV_PRIME = 2166136261, 16777619


def record(rng: random.Random) -> Any:
    """An order: the same names each time, everything else of any length."""

    def word() -> str:
        return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz ,", k=rng.randrange(3, 20)))

    def item() -> dict[str, Any]:
        return {"sku": word(), "count": rng.randrange(1, 50), "price": rng.randrange(10**5) / 4}

    return {
        "name": word(),
        "active": rng.random() < 0.5,
        "score": rng.randrange(10**6) / 64,
        "tags": [word() for _ in range(rng.randrange(1, 6))],
        "address": {"street": word(), "number": rng.randrange(500), "city": word()},
        "orders": [item() for _ in range(rng.randrange(1, 5))],
    }


def document(rng: random.Random, depth: int = 0) -> Any:
    """Any value, nested a few levels."""
    kind = rng.randrange(8 if depth < 4 else 5) if depth else 7
    if kind < 2:
        return rng.randrange(-(10**6), 10**6)
    if kind == 2:
        return rng.randrange(-(10**6), 10**6) / 64
    if kind == 3:
        return rng.choice([True, False, None])
    if kind == 4:
        return "".join(rng.choices('abcdefghijklmnopqrstuvwxyz ,:{}[]"\\\n', k=rng.randrange(24)))
    if kind == 5:
        return [document(rng, depth + 1) for _ in range(rng.randrange(6))]
    names = (rng.choice("abcdefgh") * rng.randrange(1, 9) + str(i) for i in range(rng.randrange(2, 8)))
    return {name: document(rng, depth + 1) for name in names}


class Answer:
    """What the program prints of a document, computed here."""

    def __init__(self) -> None:
        self.values = self.deepest = self.bytes = 0
        self.sum, self.hash = 0.0, FNV

    def value(self, value: Any, depth: int = 0) -> None:
        """Count a value and what is in it."""
        self.values += 1
        if isinstance(value, dict | list):
            self.deepest = max(self.deepest, depth + 1)
            for name, inner in value.items() if isinstance(value, dict) else ((None, v) for v in value):
                self.text(name or "")
                self.value(inner, depth + 1)
        elif isinstance(value, str):
            self.text(value)
        elif not isinstance(value, bool) and value is not None:
            self.sum += value

    def text(self, text: str) -> None:
        """Count a string."""
        self.bytes += len(text)
        for byte in text.encode():
            self.hash = (self.hash ^ byte) * FNV_PRIME & 0xFFFFFFFF

    def line(self) -> bytes:
        """The line."""
        return f"{self.values} {self.deepest} {self.sum:.4f} {self.bytes} {self.hash:08x}\n".encode()


def documents(count: int, mixed: bool = False) -> tuple[list[bytes], list[bytes]]:
    """`count` lines of JSON and what the program prints of each; one in a hundred is cut off."""
    rng = random.Random(1)
    lines: list[bytes] = []
    answers: list[bytes] = []
    known: list[tuple[bytes, bytes]] = []
    for number in range(count):
        if number < TEMPLATES:
            value = {"number": number, "body": document(rng) if mixed else record(rng)}
            text = json.dumps(value, ensure_ascii=True).encode()
            answer = Answer()
            answer.value(value)
            known.append((text[len(b'{"number": ' + str(number).encode()) :], answer.line()))
        tail, line = known[number % TEMPLATES]
        lines.append(
            b'{"number": %d' % (number % TEMPLATES) + b" " * (number // TEMPLATES % 50) + tail + b"\n"
        )
        answers.append(line)
    for number in range(0, count, 100):
        cut = len(lines[number]) // 2
        lines[number] = lines[number][:cut] + b"\n"
        answers[number] = b"error"
    return lines, answers


def right(output: bytes, answers: list[bytes]) -> bool:
    """Whether a lane printed the answers."""
    lines = output.splitlines(keepends=True)
    return len(lines) == len(answers) and all(
        a == b or (b == b"error" and a.startswith(b)) for a, b in zip(lines, answers, strict=True)
    )


def with_qemu(qemu: str, program: Path, lines: list[bytes], cores: int) -> tuple[float, list[bytes]]:
    """Seconds, and the lines printed, of one process for each core."""
    with tempfile.TemporaryDirectory() as directory:
        size = -(-len(lines) // cores)
        files = [Path(directory) / str(i) for i in range(cores)]
        for i, file in enumerate(files):
            file.write_bytes(b"".join(lines[i * size : (i + 1) * size]))
        began = time.perf_counter()
        jobs = [
            subprocess.Popen(
                [qemu, str(program)], stdin=file.open("rb"), stdout=file.with_suffix(".out").open("wb")
            )
            for file in files
        ]
        codes = [job.wait() for job in jobs]
        seconds = time.perf_counter() - began
        assert not any(codes)
        outputs = [file.with_suffix(".out").read_bytes().splitlines(keepends=True) for file in files]
    return seconds, list(itertools.chain.from_iterable(outputs))


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--lanes", type=int, default=100_000)
    parser.add_argument("--documents", type=int, default=4, help="of each lane")
    parser.add_argument("--mixed", action="store_true", help="documents of any shape, not records of one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--qemu", default="qemu-aarch64")
    options = parser.parse_args()
    count, each = options.lanes * options.documents, options.documents
    lines, answers = documents(count, options.mixed)
    stdin = [b"".join(lines[i : i + each]) for i in range(0, count, each)]
    note(f"{count} documents of {sum(map(len, lines)) / count:.0f} bytes")
    began = time.perf_counter()
    lanes = at_main(options.program, "cuda")[0].fork(options.lanes)
    lanes.stdin = stdin
    expected = [answers[i : i + each] for i in range(0, count, each)]
    whole, kernel, peer, total = [], [], [], 0
    cores = len(os.sched_getaffinity(0))
    for turn in range(options.rounds + 1):
        start = time.perf_counter()
        lanes.reset()
        results = lanes.run()
        whole.append(time.perf_counter() - start)
        kernel.append(lanes.device_seconds)
        printed = list(results.stdout)
        wrong = [i for i, own in enumerate(expected) if not right(printed[i], own)]
        if turn == 0:
            first = time.perf_counter() - began
            note(f"first run {first:.1f} s")
        elif shutil.which(options.qemu):
            seconds, peers = with_qemu(options.qemu, options.program, lines, cores)
            if not right(b"".join(peers), answers):
                note("QEMU printed something else")
            peer.append(seconds)
        if wrong:
            note(f"lanes {wrong[:5]} and more, {len(wrong)}, are wrong: {printed[wrong[0]]!r}")
        total += len(wrong)
    retired = int(results.retired.sum())
    found = {
        "card": device().name,
        "driver": driver_version(),
        "lanes": options.lanes,
        "documents": count,
        "mixed": options.mixed,
        "input_bytes": sum(map(len, lines)),
        "wrong": total,
        "stops": {stop.value: n for stop, n in results.stops.items()},
        "on_the_cpu": lanes.left_device,
        "retired": retired,
        "device_bytes_per_lane": lanes.device_bytes / options.lanes,
        "first_run": first,
        "seconds": whole[1:],
        "kernel_seconds": kernel[1:],
        "qemu_seconds": peer,
        "qemu_cores": cores,
        "documents_per_second": count / statistics.median(whole[1:]),
        "kernel_instructions_per_second": retired / statistics.median(kernel[1:]),
        "qemu_documents_per_second": count / statistics.median(peer) if peer else None,
    }
    rows = [[name, f"{value:,.0f}"] for name, value in found.items() if isinstance(value, int | float)]
    table(found["card"], ["what", "figure"], rows)
    write_results("parser", found)


if __name__ == "__main__":
    main()
