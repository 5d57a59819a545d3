"""The operations on the host's memory that kernels have (`kvrm.staging.kernel`): what each does, as Python.

Addresses are the host's. A kernel that is given a wrong one reads or writes whatever is there, as C would.
"""

from __future__ import annotations

from ctypes import CFUNCTYPE, c_int64, c_uint8, c_uint16, c_uint64, c_void_p, memmove

U64 = (1 << 64) - 1
_RUN = CFUNCTYPE(None, c_void_p)


def load(address: int) -> int:
    """The 64-bit word at an address that is a multiple of 8, signed."""
    return c_int64.from_address(address).value


def load_byte(address: int) -> int:
    """The byte at an address."""
    return c_uint8.from_address(address).value


def store(address: int, value: int) -> int:
    """Write a word at an address that is a multiple of 8."""
    c_uint64.from_address(address).value = value & U64
    return value


def store_byte(address: int, value: int) -> int:
    """Write the low byte."""
    c_uint8.from_address(address).value = value & 0xFF
    return value


def store_half(address: int, value: int) -> int:
    """Write the low 16 bits."""
    c_uint16.from_address(address).value = value & 0xFFFF
    return value


def move(function: int, to: int, source: int, size: int) -> int:
    """Copy bytes, where `function` is the address of the C library's memmove.

    It is an argument because native code refers to no symbol outside: llvmlite's loader may put an object too
    far from the C library for its relocations.
    """
    memmove(to, source, size)
    return to


def run(function: int, argument: int) -> int:
    """Call the function at an address with an address."""
    _RUN(function)(argument)
    return argument


def below(a: int, b: int) -> int:
    """Whether a is less than b, both unsigned."""
    return int(a & U64 < b & U64)
