"""Kernels: one text as Python, as native code of the host, and as code of a device."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable

import numpy as np
from llvmlite import ir

import device_on_host
from kvrm.backend.gpu.device_abi import GROUP, lane_number, pointer
from kvrm.staging import native
from kvrm.staging.emitter import I64, Emitter
from kvrm.staging.host import add, address, apart, below, load, load_byte, load_four, local, store
from kvrm.staging.kernel import Array
from kvrm.staging.operations import HOST, MEMORY, Emitted, Operations
from kvrm.staging.translation import define

WORDS = 8
REFUSED = -(1 << 63)


class Lane:
    """What the text is given: a few words, kept otherwise by each target."""

    def __init__(self, words: list[int]) -> None:
        self.words = words

    def word(self, index: int) -> int:
        return self.words[index]

    def put(self, index: int, value: int) -> int:
        self.words[index] = (value + (1 << 63)) % (1 << 64) - (1 << 63)
        return value


# -- the text --------------------------------------------------------------------------------------------
def signed(value: int) -> int:
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def unsigned(value: int) -> int:
    return value & 0xFFFFFFFF


def remainder(lane: Lane, value: int, divisor: int) -> int:
    if divisor == 0:
        return REFUSED
    lane.put(6, lane.word(6) + 1)
    return value // divisor if value % 2 else value % divisor


def largest(lane: Lane, a: int, b: int, c: int) -> int:
    return max(a, max(b, c)) if below(a, b) else min(a, -abs(c))


def one_side(lane: Lane, a: int, b: int) -> int:
    """Only one side of an `if` among values is evaluated, and a row of comparisons is all of them."""
    if (total := a + b) > 10 and 0 <= a < b < 1 << 40:
        lane.put(5, total)
    return lane.put(4, total) if a & 1 else lane.put(4, 2)


@apart
def digits(lane: Lane, value: int) -> int:
    """The sum of the bytes that a word is made of, by way of memory; how often is counted."""
    text = local(2)
    text[0] = value
    text[1] = 0
    at = address(text)
    for i in range(8):
        if load_byte(at + i) in (0, 255):
            continue
        add(at + 8, load_byte(at + i))
    store(at, load(at + 8) ^ load_four(at + 8))
    return text[1] + text[0]


def taking(function: Callable[..., int], kinds: tuple[Callable[[int], int], ...]) -> Callable[[Lane], int]:
    def call(lane: Lane) -> int:
        return function(lane, *[convert(lane.word(1 + i)) for i, convert in enumerate(kinds)])

    call.__name__ = f"call_{function.__name__}"
    return call


def namesake(result: int) -> Callable[[Lane], int]:
    def call(lane: Lane) -> int:
        return result

    return call


CALLS = {
    1: taking(one_side, (unsigned, unsigned)),
    8: namesake(8),
    9: namesake(9),
    3: taking(remainder, (unsigned, unsigned)),
    -5: taking(largest, (signed, unsigned, signed)),
    1 << 40: taking(digits, (signed,)),
}


def serve(lane: Lane) -> int:
    if lane.word(0) not in CALLS:
        return REFUSED + 1
    result = CALLS[lane.word(0)](lane)
    if result == REFUSED or not result > -1:
        return lane.put(7, result)
    while result > 1000 and True:
        result = result >> 1
    return result


# -- its targets -----------------------------------------------------------------------------------------
def word_here(t: Array, index: int) -> int:
    return t[index]


def put_here(t: Array, index: int, value: int) -> int:
    t[index] = value
    return value


def word_of_group(t: Array, index: int) -> int:
    return load(t[0] + 8 * (GROUP * index + number()))


def put_in_group(t: Array, index: int, value: int) -> int:
    store(t[0] + 8 * (GROUP * index + number()), value)
    return value


def number() -> int:
    """Which lane a thread is; only a device knows."""
    raise NotImplementedError


ON_HOST: Operations = {**HOST, Lane.word: word_here, Lane.put: put_here}
ON_DEVICE: Operations = {
    **MEMORY,
    Lane.word: word_of_group,
    Lane.put: put_in_group,
    number: Emitted(lane_number),
}


def in_python(rows: np.ndarray) -> tuple[list[int], np.ndarray]:
    lanes = [Lane(row.tolist()) for row in rows]
    results = [serve(lane) for lane in lanes]
    return results, np.array([lane.words for lane in lanes])


def on_host(rows: np.ndarray) -> tuple[list[int], np.ndarray]:
    module = ir.Module(name="test")
    define(module, serve, ON_HOST)
    loader = native.loaded(str(module))
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(loader.address("serve"))
    after = rows.copy()
    return [call(row.ctypes.data) for row in after], after


def on_device(rows: np.ndarray) -> tuple[list[int], np.ndarray]:
    module = ir.Module(name="test")
    fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64, I64]), "run")
    e = Emitter(fn.append_basic_block("entry"))
    lane = e.words(1)
    e.store(fn.args[0], lane)
    result = e.call(define(module, serve, ON_DEVICE), [lane])
    e.store(result, pointer(e, e.add(fn.args[1], e.shl(lane_number(e), ir.Constant(I64, 3)))))
    e.ret_void()
    device = device_on_host.HostDevice()
    kernel = device.load(device.compile(str(module), 0)).function("run")
    words = np.ascontiguousarray(rows.T)
    results = np.zeros(GROUP, np.int64)
    kernel.launch(1, GROUP, [words.ctypes.data, results.ctypes.data])
    return results.tolist(), words.T


def test_a_text_has_one_meaning_as_python_on_the_host_and_on_a_device() -> None:
    rng = random.Random(1)
    for _ in range(20):
        rows = np.array([[rng.getrandbits(64) for _ in range(WORDS)] for _ in range(GROUP)], np.uint64)
        rows[:, 0] = [rng.choice([1, 3, -5, 1 << 40, 7, 8, 9]) % (1 << 64) for _ in range(GROUP)]
        rows[::5, 1:4] &= 0xFF
        rows[::4, 2] = 0
        words = rows.view(np.int64)
        wanted, left = in_python(words)
        for run in (on_host, on_device):
            found, after = run(words)
            assert found == wanted, run.__name__
            assert (after == left).all(), run.__name__


def test_all_of_the_text_has_run() -> None:
    """The three meanings agree on something."""
    words = np.zeros((4, WORDS), np.int64)
    words[:, :4] = [[3, 9, 4, 0], [3, 9, 0, 0], [-5, 1, 2, 3], [1 << 40, 0x01020304, 0, 0]]
    results, left = in_python(words)
    assert results == [2, REFUSED, 3, 10]
    assert left[:, 6].tolist() == [1, 0, 0, 0]
    assert left[:, 7].tolist() == [0, REFUSED, 0, 0]


def test_what_must_not_be_a_part_of_its_callers_is_not() -> None:
    module = ir.Module(name="test")
    define(module, serve, ON_HOST)
    assert "noinline" in define(module, digits, ON_HOST).attributes
    assert "noinline" not in define(module, remainder, ON_HOST).attributes
