"""Traces of memory accesses: made to order, and those of the carried guests."""

from __future__ import annotations

import numpy as np

import kvrm
from kvrm.caches.cache import Shape
from kvrm.caches.traces import Recording, Trace
from kvrm.staging.kernel import Array
from places import GUESTS

PROGRAMS = {"hello": [], "primes": ["1000"], "sha256": [], "expression": [], "mandelbrot": ["20", "50"]}
STDIN = "(1 + 2) * 3\n"
SMALL = Shape(l1_bytes=1024, l1_ways=2, l2_bytes=8192, l2_ways=4)


def run(program: str, policy: object | None, **more: object) -> kvrm.Result:
    policies = {} if policy is None else {"memory": policy}
    machine = kvrm.Machine(
        GUESTS / program, args=PROGRAMS[program], stdin=STDIN.encode(), policies=policies, **more
    )
    return machine.run(max_instructions=20_000_000)


def recorded(program: str) -> Trace:
    recording = Recording()
    run(program, recording)
    return recording.trace()


def bare(code: str, policy: object) -> kvrm.Machine:
    machine = kvrm.Machine(policies={"memory": policy})
    machine.write_memory(0x1000, bytes.fromhex(code))
    machine.set_pc(0x1000)
    return machine


def synthetic(addresses: list[int] | Array, site: int = 0, gap: int = 10, word: int = 0xF9400020) -> Trace:
    """One site that loads, every `gap` instructions."""
    n = len(addresses)
    return Trace(
        np.array([0x1000], np.uint64),
        np.array([word], np.uint32),
        np.full(n, site, np.int32),
        np.array(addresses, np.int64),
        np.arange(n) * gap,
        np.full(n, 8, np.uint8),
        np.zeros(n, bool),
    )
