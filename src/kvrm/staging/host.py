"""The operations on memory that kernels have (`kvrm.staging.kernel`): what each does, as Python.

Addresses are the host's there. A kernel that is given a wrong one reads or writes whatever is there, as C
would.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from ctypes import (
    CFUNCTYPE,
    Array,
    addressof,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_void_p,
    memmove,
    string_at,
)
from typing import TypeVar

U64 = (1 << 64) - 1
Text = TypeVar("Text", bound=Callable[..., int])
_RUN = CFUNCTYPE(None, c_void_p)
_BYTES = memoryview((c_uint8 * (sys.maxsize & -8)).from_address(0)).cast("B")
_WORDS, _SIGNED = _BYTES.cast("Q"), _BYTES.cast("q")
"""All of the host's memory by index: an item costs a quarter of an object of `ctypes` at its address."""


def apart(kernel: Text) -> Text:
    """Have a kernel compiled on its own, never as a part of its callers."""
    kernel.apart = True  # type: ignore[attr-defined]
    return kernel


def local(count: int) -> Array[c_int64]:
    """An array of as many words, for the call of the kernel; they begin as whatever was there."""
    return (c_int64 * count)()


def address(words: Array[c_int64]) -> int:
    """Where an array of the kernel's own is."""
    return addressof(words)


def load(address: int) -> int:
    """The 64-bit word at an address that is a multiple of 8, signed."""
    return _SIGNED[address >> 3]


def load_byte(address: int) -> int:
    """The byte at an address."""
    return c_uint8.from_address(address).value


def load_four(address: int) -> int:
    """The 32 bits at an address, unsigned."""
    return c_uint32.from_address(address).value


def store(address: int, value: int) -> int:
    """Write a word at an address that is a multiple of 8."""
    _WORDS[address >> 3] = value & U64
    return value


def store_byte(address: int, value: int) -> int:
    """Write the low byte."""
    c_uint8.from_address(address).value = value & 0xFF
    return value


def store_half(address: int, value: int) -> int:
    """Write the low 16 bits."""
    c_uint16.from_address(address).value = value & 0xFFFF
    return value


def add(address: int, value: int) -> int:
    """Add to a word at an address, at once for all that do; what was there before."""
    before = load(address)
    store(address, before + value)
    return before


def move(function: int, to: int, source: int, size: int) -> int:
    """Copy bytes, where `function` is the address of the C library's memmove.

    It is an argument because native code refers to no symbol outside: llvmlite's loader may put an object too
    far from the C library for its relocations.
    """
    memmove(to, source, size)
    return to


def position(function: int, start: int, byte: int, count: int) -> int:
    """How many of `count` bytes are before the first that is that one, `count` if none is.

    `function` is the address of the C library's memchr.
    """
    found = string_at(start, count).find(byte)
    return count if found < 0 else found


def run(function: int, argument: int) -> int:
    """Call the function at an address with an address."""
    _RUN(function)(argument)
    return argument


def below(a: int, b: int) -> int:
    """Whether a is less than b, both unsigned."""
    return int(a & U64 < b & U64)
