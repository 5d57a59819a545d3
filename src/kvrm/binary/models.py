"""What the standard says that the known functions do, over an arena of guest memory.

Each model takes the arena and the function's arguments, changes the arena as the function must, and gives its
result (None: it has none). Addresses are those of the guest; integers are as the function sees them, so an
`int` argument is taken from its low 32 bits. From ISO C17 7.22 and 7.24, POSIX.1-2017, and for memrchr and
strchrnul the GNU C Library's manual.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import Enum

from kvrm.binary.arena import Arena
from kvrm.values.primitives import signed

ELEMENT_KEY = 4
"""Bytes at the start of an element that the comparison function of sorts and searches looks at."""
LOWER = bytes(range(65)) + bytes(range(97, 123)) + bytes(range(91, 256))
"""`tolower` in the POSIX locale."""
SPACES = b" \t\n\v\f\r"
DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyz"

Model = Callable[..., "int | None"]


class Returns(Enum):
    """How a result is compared."""

    WORD = "64 bits"
    INT = "the low 32 bits"
    SIGN = "the sign of the low 32 bits"
    NOTHING = "not at all"


def _byte(c: int) -> int:
    return c & 0xFF


def memmove(a: Arena, to: int, source: int, n: int) -> int:
    """Also memcpy, where the two do not overlap."""
    a.write(to, a.read(source, n))
    return to


def memset(a: Arena, to: int, c: int, n: int) -> int:
    a.write(to, bytes([_byte(c)]) * n)
    return to


def memcmp(a: Arena, one: int, other: int, n: int) -> int:
    return _order(a.read(one, n), a.read(other, n))


def _order(one: bytes, other: bytes) -> int:
    return (one > other) - (one < other)


def memchr(a: Arena, s: int, c: int, n: int) -> int:
    found = a.find(s, _byte(c), n)
    return 0 if found is None else found


def memrchr(a: Arena, s: int, c: int, n: int) -> int:
    at = a.read(s, n).rfind(_byte(c))
    return 0 if at < 0 else s + at


def strlen(a: Arena, s: int) -> int:
    return len(a.string(s))


def strnlen(a: Arena, s: int, n: int) -> int:
    return len(a.string(s, n))


def strcpy(a: Arena, to: int, source: int) -> int:
    a.write(to, a.string(source) + b"\0")
    return to


def stpcpy(a: Arena, to: int, source: int) -> int:
    strcpy(a, to, source)
    return to + strlen(a, source)


def strncpy(a: Arena, to: int, source: int, n: int) -> int:
    a.write(to, a.string(source, n).ljust(n, b"\0"))
    return to


def strcat(a: Arena, to: int, source: int) -> int:
    strcpy(a, to + strlen(a, to), source)
    return to


def strncat(a: Arena, to: int, source: int, n: int) -> int:
    a.write(to + strlen(a, to), a.string(source, n) + b"\0")
    return to


def strcmp(a: Arena, one: int, other: int) -> int:
    return _order(a.string(one), a.string(other))


def strncmp(a: Arena, one: int, other: int, n: int) -> int:
    return _order(a.string(one, n), a.string(other, n))


def strcasecmp(a: Arena, one: int, other: int) -> int:
    return _order(a.string(one).translate(LOWER), a.string(other).translate(LOWER))


def strncasecmp(a: Arena, one: int, other: int, n: int) -> int:
    return _order(a.string(one, n).translate(LOWER), a.string(other, n).translate(LOWER))


def strchr(a: Arena, s: int, c: int) -> int:
    at = (a.string(s) + b"\0").find(_byte(c))
    return 0 if at < 0 else s + at


def strchrnul(a: Arena, s: int, c: int) -> int:
    return strchr(a, s, c) or s + strlen(a, s)


def strrchr(a: Arena, s: int, c: int) -> int:
    at = (a.string(s) + b"\0").rfind(_byte(c))
    return 0 if at < 0 else s + at


def strspn(a: Arena, s: int, accept: int) -> int:
    text, wanted = a.string(s), a.string(accept)
    return next((i for i, byte in enumerate(text) if byte not in wanted), len(text))


def strcspn(a: Arena, s: int, reject: int) -> int:
    text, wanted = a.string(s), a.string(reject)
    return next((i for i, byte in enumerate(text) if byte in wanted), len(text))


def strpbrk(a: Arena, s: int, accept: int) -> int:
    at = s + strcspn(a, s, accept)
    return at if a.read(at, 1) != b"\0" else 0


def strstr(a: Arena, s: int, part: int) -> int:
    at = a.string(s).find(a.string(part))
    return 0 if at < 0 else s + at


def strtol(a: Arena, s: int, end: int, base: int) -> int:
    value, used = _number(a.string(s), base & 0xFFFFFFFF)
    if end:
        a.write(end, (s + used).to_bytes(8, "little"))
    return value


def atoi(a: Arena, s: int) -> int:
    return _number(a.string(s), 10)[0]


def _number(text: bytes, base: int) -> tuple[int, int]:
    """The value of the longest number at the start of a text, and how many bytes it takes."""
    at = len(text) - len(text.lstrip(SPACES))
    negative = text[at : at + 1] == b"-"
    at += text[at : at + 1] in (b"-", b"+") and at < len(text)
    lower = text.translate(LOWER)
    prefixed = lower[at : at + 2] == b"0x" and _value(lower[at + 2 : at + 3], 16) is not None
    if base == 0:
        base = 16 if prefixed else 8 if lower[at : at + 1] == b"0" else 10
    first = at = at + 2 if base == 16 and prefixed else at
    value = 0
    while (digit := _value(lower[at : at + 1], base)) is not None:
        value, at = value * base + digit, at + 1
    return (-value if negative else value), at if at > first else 0


def _value(letter: bytes, base: int) -> int | None:
    digit = DIGITS.find(letter) if letter else -1
    return digit if 0 <= digit < base else None


def qsort(a: Arena, base: int, n: int, size: int, _: int) -> None:
    raw = a.read(base, n * size)
    elements = [raw[i : i + size] for i in range(0, n * size, size)]
    elements.sort(key=_key)
    a.write(base, b"".join(elements))


def bsearch(a: Arena, key: int, base: int, n: int, size: int, _: int) -> int:
    wanted = _key(a.read(key, ELEMENT_KEY))
    places = (base + i * size for i in range(n))
    return next((at for at in places if _key(a.read(at, ELEMENT_KEY)) == wanted), 0)


def _key(element: bytes) -> int:
    return int.from_bytes(element[:ELEMENT_KEY], "little", signed=True)


def absolute(bits: int, _: Arena, value: int) -> int:
    """abs of 32 bits, labs of 64."""
    return abs(signed(bits, value & (1 << bits) - 1))


_WORDS: dict[str, Model] = {
    f.__name__: f
    for f in (memmove, memset, memchr, memrchr, strlen, strnlen, strcpy, stpcpy, strncpy, strcat, strncat)
} | {f.__name__: f for f in (strchr, strchrnul, strrchr, strspn, strcspn, strpbrk, strstr, strtol, bsearch)}
_SIGNS: dict[str, Model] = {f.__name__: f for f in (memcmp, strcmp, strncmp, strcasecmp, strncasecmp)}
MODELS: dict[str, tuple[Model, Returns]] = {
    **{name: (f, Returns.WORD) for name, f in _WORDS.items()},
    **{name: (f, Returns.SIGN) for name, f in _SIGNS.items()},
    "memcpy": (memmove, Returns.WORD),
    "atoi": (atoi, Returns.INT),
    "abs": (functools.partial(absolute, 32), Returns.INT),
    "labs": (functools.partial(absolute, 64), Returns.WORD),
    "qsort": (qsort, Returns.NOTHING),
}
"""For each label its model, and how results are compared."""
