"""Functions of a static program on a GPU, each lane on data of its own, and what divergence costs.

`--program` is programs/functions.c with the C library. The machine runs to `main`, and lanes of a fork call
one function each; all results are compared with hashlib, zlib and numpy. Rates are guest instructions of all
lanes together by the time of the kernels, and calls by the time from inputs to results in Python.

For divergence, lanes go round a loop whose body is one of 32 copies of the same code: 1 to 32 copies for the
lanes of a warp.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import struct
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from elftools.elf.elffile import ELFFile
from measure import driver_version, on_device, table, write_results

import kvrm
from kvrm.backend.gpu.driver import device

SIZE = 1024
Bytes = npt.NDArray[np.uint8]
CONSTANTS = (  # SHA-256's: the first 32 bits of the fractions of cube roots of primes
    b"".join(
        struct.pack("<I", int(prime ** (1 / 3) % 1 * 2**32))
        for prime in (n for n in range(2, 312) if all(n % k for k in range(2, n)))
    )
)


def letters(rng: np.random.Generator, lanes: int) -> tuple[Bytes, Bytes]:
    """Strings of 1,023 letters, and the same but for the cases and the last letter."""
    one = rng.integers(ord("a"), ord("z") + 1, (lanes, SIZE), np.uint8)
    other = one ^ rng.choice(np.array([0, 32], np.uint8), (lanes, SIZE))
    other[:, -2] = rng.integers(ord("A"), ord("Z") + 1, lanes, np.uint8)
    one[:, -1] = other[:, -1] = 0
    return one, other


@dataclass(frozen=True)
class Call:
    """A function: its second argument, whether x0 and what it wrote are right, and where it writes."""

    name: str
    count: int
    right: Callable[[Bytes, Bytes, Any, Bytes], bool]
    writes: tuple[str, int] | None = None


def _crc(one: Bytes, other: Bytes, x0: Any, written: Bytes) -> bool:
    return all(int(x) & 0xFFFFFFFF == zlib.crc32(row) for x, row in zip(x0, one, strict=True))


def _sha256(one: Bytes, other: Bytes, x0: Any, written: Bytes) -> bool:
    return all(w.tobytes() == hashlib.sha256(row).digest() for w, row in zip(written, one, strict=True))


def _sort(one: Bytes, other: Bytes, x0: Any, written: Bytes) -> bool:
    found = np.ascontiguousarray(written).view(np.uint32)
    return bool((found == np.sort(one.view(np.uint32), axis=1)).all())


def _strcasecmp(one: Bytes, other: Bytes, x0: Any, written: Bytes) -> bool:
    want = one[:, -2].astype(np.int32) - (other[:, -2] | 32)
    return bool((x0.astype(np.uint32).view(np.int32) == want).all())


CALLS = (
    Call("crc", SIZE, _crc),
    Call("sha256", SIZE, _sha256, ("output", 32)),
    Call("sort", SIZE // 4, _sort, ("input", SIZE)),
    Call("strcasecmp", 0, _strcasecmp),
)


def at_main(program: Path, target: str) -> tuple[kvrm.Machine, dict[str, int]]:
    """A machine that is about to run `main`, and the addresses of the program's symbols."""
    with program.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".symtab")
        at = {s.name: s["st_value"] for s in symbols.iter_symbols()}
    m = kvrm.Machine(program, target=target)
    m.breakpoints.add(at["main"])
    m.run()
    m.breakpoints.clear()
    return m, at


def measure(
    program: Path, call: Call, lanes: int, rounds: int, engine: str, place: Callable[[Bytes], Any]
) -> dict[str, Any]:
    """Call a function in every lane, some times over, with inputs where `place` puts them."""
    m, at = at_main(program, "cpu")
    m.breakpoints.add(at["main"])
    m.x[0], m.x[1], m.x[2], m.x[30] = at["input"], call.count, at["other"], at["main"]
    if call.name == "sha256":
        m.write_memory(at["other"], CONSTANTS)
    elif call.name == "strcasecmp":
        m.x[1] = at["other"]
    m.set_pc(at[call.name])
    m.target, m.engine = "cuda", engine
    many = m.fork(lanes)
    rng = np.random.default_rng(1)
    if call.name == "strcasecmp":
        one, other = letters(rng, lanes)
        many.memory[at["other"] : at["other"] + SIZE] = place(other)
    else:
        one = other = rng.integers(0, 256, (lanes, SIZE), np.uint8)
    many.memory[at["input"] : at["input"] + SIZE] = place(one)
    start, size = (at[call.writes[0]], call.writes[1]) if call.writes else (at["input"], 1)
    many.keep = ("x0", slice(start, start + size))
    whole, kernel = [], []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        many.reset()
        results = many.run()
        whole.append(time.perf_counter() - began)
        kernel.append(many.device_seconds)
    retired = int(results.retired.sum())
    return {
        "lanes": lanes,
        "engine": engine,
        "instructions_per_lane": retired / lanes,
        "rate": retired / statistics.median(kernel[1:]),
        "calls_per_second": lanes / statistics.median(whole[1:]),
        "calls_per_second_of_kernel": lanes / statistics.median(kernel[1:]),
        "first_run": whole[0],
        "stops": {stop.value: n for stop, n in results.stops.items()},
        "right": call.right(one, other, results.registers["x0"], results.memory[start : start + size]),
    }


PATHS, ROUNDS = 32, 1000
HEAD, JOIN = 0x1_0000, 0x1_000C
LOOP = (0x10000809, 0x8B002129, 0xD61F0120, 0xF1000463, 0x54FFFF81, 0xD42000E0)
"""adr x9, paths; add x9, x9, x0, lsl #8; br x9; join: subs x3, x3, #1; b.ne; brk #7"""
BODY = (0x8B020021, 0xCA010042)
"""add x1, x1, x2; eor x2, x2, x1"""


def diverging(paths: int, lanes: int, rounds: int, engine: str) -> dict[str, Any]:
    """Lanes of a warp on that many different paths."""
    code = bytearray(struct.pack(f"<{len(LOOP)}I", *LOOP).ljust(256, b"\0"))
    for path in range(PATHS):
        back = (JOIN - HEAD - (256 * path + 508)) // 4 & 0x3FFFFFF
        code += struct.pack("<64I", *(BODY * 32)[:63], 0x14000000 | back)
    m = kvrm.Machine(target="cuda", engine=engine)
    m.write_memory(HEAD, bytes(code), prot="rx")
    m.x[1], m.x[2], m.x[3] = 1, 2, ROUNDS
    m.set_pc(HEAD)
    many = m.fork(lanes)
    many.registers["x0"] = np.arange(lanes) % paths
    many.keep = ("x1",)
    kernel = []
    for _ in range(rounds + 1):
        many.reset()
        results = many.run()
        kernel.append(many.device_seconds)
    same = bool((results.registers["x1"] == results.registers["x1"][0]).all())
    return {"rate": int(results.retired.sum()) / statistics.median(kernel[1:]), "same": same}


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--lanes", type=int, default=1 << 17)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--on-device", action="store_true", help="inputs are in the GPU's memory (CuPy)")
    options = parser.parse_args()
    place = on_device if options.on_device else np.asarray
    found: dict[str, Any] = {"card": device().name, "driver": driver_version()}
    found["inputs_on_device"] = options.on_device
    rows = []
    for call in CALLS:
        for engine in ("tiered", "interpreter"):
            one = measure(options.program, call, options.lanes, options.rounds, engine, place)
            found[f"{call.name} {engine}"] = one
            rows.append(
                [
                    call.name,
                    engine,
                    f"{one['instructions_per_lane']:,.0f}",
                    f"{one['rate'] / 1e9:,.1f}",
                    f"{one['calls_per_second']:,.0f}",
                    str(one["right"]),
                ]
            )
            print(rows[-1], flush=True)
    table(found["card"], ["function", "engine", "instructions", "G/s", "calls/s", "right"], rows)
    curve = []
    for paths in (1, 2, 4, 8, 16, 32):
        both = [
            diverging(paths, options.lanes, options.rounds, engine) for engine in ("tiered", "interpreter")
        ]
        found[f"{paths} paths"] = {"tiered": both[0], "interpreter": both[1]}
        curve.append([str(paths), *(f"{one['rate'] / 1e9:,.1f}" for one in both)])
        print(curve[-1], both, flush=True)
    table("paths in a warp", ["paths", "regions, G/s", "interpreted, G/s"], curve)
    write_results("functions", found)


if __name__ == "__main__":
    main()
