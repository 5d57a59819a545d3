"""What a function is tested with: arguments and memory, edge cases first, then random ones.

Lengths go from 0 over the sizes at which implementations change their way; places lie at the starts and ends
of areas, where the next byte is not mapped, and across page ends, at all alignments. Bytes have their highest
bit set as often as not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from kvrm.binary.arena import AREA, BASE, ONE, OTHER, SIZE
from kvrm.binary.models import ELEMENT_KEY
from kvrm.memory import PAGE

CASES = 128
"""How many a function is tested with."""
LENGTHS = tuple(
    map(int, "0 1 2 3 4 5 7 8 9 15 16 17 23 31 32 33 47 63 64 65 95 96 97 127 128 129 200".split())
)
LONG = (255, 256, 257, 511, 600, 1000, 2047, 3000, 4095, 4096)
EVERYTHING = (1 << 64) - 1
COMPARE = "comparison"
"""Instead of an argument: the address of a guest function that compares the keys of elements."""

Argument = int | str
Random = np.random.Generator


@dataclass(slots=True)
class Case:
    """Arguments for x0 on, and the SIZE bytes of the arena."""

    arguments: tuple[Argument, ...]
    memory: bytearray


class Maker:
    """Makes the memory of one case; `number` chooses the edge that it is about."""

    def __init__(self, number: int, rng: Random) -> None:
        self.number, self.rng = number, rng
        self.memory = bytearray(rng.integers(0, 256, SIZE, np.uint8).tobytes())

    def below(self, end: int) -> int:
        """Any number from 0 on that is less."""
        return int(self.rng.integers(0, end))

    def one_of(self, *values: int) -> int:
        """One of some numbers."""
        return values[self.below(len(values))]

    def length(self, most: int = 2 * PAGE) -> int:
        """A length: small ones in order, then longer ones, then any."""
        if self.number < len(LENGTHS):
            return min(LENGTHS[self.number], most)
        if self.number % 4 == 0:
            return min(self.one_of(*LONG), most)
        return min(self.below(160), most)

    def place(self, area: int, length: int) -> int:
        """Where `length` bytes lie in an area: at its end, at its start, across its page end, or anywhere."""
        kind = self.below(4)
        if kind == 0:
            return area + AREA - length
        if kind == 1:
            return area
        if kind == 2 and 0 < length < PAGE:
            return area + PAGE - self.below(length + 1)
        return area + self.below(AREA - length + 1)

    def put(self, address: int, data: bytes) -> int:
        """Write into memory; gives the address."""
        self.memory[address - BASE : address - BASE + len(data)] = data
        return address

    def text(self, length: int, alphabet: bytes = b"") -> bytes:
        """Bytes other than zero, any or of an alphabet."""
        letters = np.frombuffer(alphabet or bytes(range(1, 256)), np.uint8)
        return self.rng.choice(letters, length).tobytes()

    def string(self, area: int, text: bytes, room: int = 0) -> int:
        """Put a text and its zero somewhere in an area, with `room` bytes after it; gives the address."""
        return self.put(self.place(area, len(text) + 1 + room), text + b"\0")

    def integer(self, value: int) -> int:
        """An `int` argument: the ABI leaves the high half of its register open."""
        return self.below(1 << 32) << 32 | value & 0xFFFFFFFF

    def alphabet(self) -> bytes:
        """Few letters, so that texts have much in common, or all."""
        return (b"ab", b"\x80\xff", b"a\xe1A", b"")[self.below(4)]

    def done(self, *arguments: Argument) -> Case:
        return Case(arguments, self.memory)


def _copies(m: Maker) -> Case:
    n = m.length()
    return m.done(m.place(ONE, n), m.place(OTHER, n), n)


def _moves(m: Maker) -> Case:
    if m.number % 2:
        return _copies(m)
    n = m.length(PAGE)
    to = m.place(ONE, n)
    apart = int(m.rng.integers(-min(n + 1, 130), min(n + 1, 130) + 1))
    source = min(max(to + apart, ONE), ONE + AREA - n)
    return m.done(to, source, n)


def _fills(m: Maker) -> Case:
    n = m.length()
    c = 0 if m.number % 3 == 0 else m.below(1 << 32)
    return m.done(m.place(ONE, n), m.integer(c), n)


def _pairs(m: Maker, n: int) -> tuple[bytes, bytes]:
    """Two blocks of n bytes, the same or first different at one place, some only in the case of a letter."""
    one = m.rng.integers(0, 256, n, np.uint8)
    other = one.copy()
    if n and m.number % 3:
        at = m.one_of(0, n - 1, m.below(n))
        if m.number % 4 == 1:
            one[at] = other[at] = m.one_of(*b"aAzZ")
            other[at] ^= 0x20
        else:
            other[at] ^= m.one_of(1, 0x80, 0xFF)
        if m.number % 2:
            other[at + 1 :] = m.rng.integers(0, 256, n - at - 1, np.uint8)
    return one.tobytes(), other.tobytes()


def _blocks(m: Maker) -> Case:
    n = m.length()
    one, other = _pairs(m, n)
    return m.done(m.put(m.place(ONE, n), one), m.put(m.place(OTHER, n), other), n)


def _search(m: Maker, huge: bool) -> Case:
    n, c = m.length(), m.below(256)
    data = m.text(n).replace(bytes([c]), bytes([c ^ 1 or 2])) if c else m.text(n)
    given = n
    if n and m.number % 3:
        places = (m.one_of(0, n - 1, m.below(n)) for _ in range(2))
        raw = bytearray(data)
        for at in places:
            raw[at] = c
        data = bytes(raw)
        given = EVERYTHING if huge and m.number % 4 == 1 else n
    wild = m.below(1 << 24) << 8
    return m.done(m.put(m.place(ONE, n), data), m.integer(wild | c), given)


def _strings(m: Maker) -> Case:
    return m.done(m.string(ONE, m.text(m.length(AREA - 1))))


def _bounded(m: Maker) -> Case:
    length = m.length(AREA - 1)
    kind = m.number % 4
    if kind == 0:  # no zero within n bytes, and nothing mapped after them
        return m.done(m.put(ONE + AREA - length, m.text(length)), length)
    text = m.text(length)
    n = (EVERYTHING, length, m.below(2 * length + 2))[kind - 1]
    return m.done(m.string(ONE, text), n)


def _string_copies(m: Maker) -> Case:
    text = m.text(m.length(AREA - 1))
    return m.done(m.place(ONE, len(text) + 1), m.string(OTHER, text))


def _bounded_copies(m: Maker) -> Case:
    text = m.text(m.length(PAGE - 1))
    n = m.one_of(0, 1, len(text), len(text) + 1, len(text) + 40, m.below(len(text) + 2))
    if m.number % 5 == 4 and n <= len(text):
        return m.done(m.place(ONE, n), m.put(OTHER + AREA - n, text[:n]), n)
    return m.done(m.place(ONE, n), m.string(OTHER, text), n)


def _appended(m: Maker) -> Case:
    first, second = m.text(m.below(70)), m.text(m.length(PAGE))
    return m.done(m.string(ONE, first, len(second)), m.string(OTHER, second))


def _bounded_appended(m: Maker) -> Case:
    first, second = m.text(m.below(70)), m.text(m.length(PAGE))
    n = m.one_of(0, 1, len(second), len(second) + 9, m.below(len(second) + 2))
    to, source = m.string(ONE, first, min(n, len(second))), m.string(OTHER, second)
    return m.done(to, source, EVERYTHING if n > len(second) and m.number % 2 else n)


def _two_strings(m: Maker) -> Case:
    n = m.length(AREA - 1)
    one, other = (block.replace(b"\0", b"\x01") for block in _pairs(m, n))
    if n and m.number % 5 == 4:
        other = other[: m.below(n)]
    return m.done(m.string(ONE, one), m.string(OTHER, other))


def _two_bounded(m: Maker) -> Case:
    case = _two_strings(m)
    length = m.length(AREA)
    n = (EVERYTHING, length, m.below(length + 2), 0)[m.number % 4]
    return Case((*case.arguments, n), case.memory)


LETTERS = b"abcxyzABCXYZ019 @[`{_"


def _cased(m: Maker) -> Case:
    text = m.text(m.length(PAGE), LETTERS)
    other = bytes(c ^ 32 if chr(c).isalpha() and m.rng.integers(0, 2) else c for c in text)
    if text and m.number % 3:
        at = m.below(len(text))
        other = other[:at] + m.text(1, LETTERS) + other[at + 1 :]
    if text and m.number % 7 == 6:
        other = other[: m.below(len(text))]
    return m.done(m.string(ONE, text), m.string(OTHER, other))


def _cased_bounded(m: Maker) -> Case:
    case = _cased(m)
    n = (EVERYTHING, m.length(AREA), m.below(40), 0)[m.number % 4]
    return Case((*case.arguments, n), case.memory)


def _sought(m: Maker) -> Case:
    text = m.text(m.length(AREA - 1), m.alphabet())
    c = 0 if m.number % 4 == 3 else m.one_of(*(text or b"\7")) if m.number % 2 else m.below(256)
    wild = m.below(1 << 24) << 8
    return m.done(m.string(ONE, text), m.integer(wild | c))


def _sets(m: Maker) -> Case:
    letters = m.text(m.below(12))
    within = m.text(m.length(PAGE), letters)
    text = within if m.number % 2 else within + m.text(m.below(20))
    if m.number % 3 == 2:
        text = m.text(m.length(PAGE))
    return m.done(m.string(ONE, text), m.string(OTHER, letters))


def _parts(m: Maker) -> Case:
    alphabet = m.alphabet()
    text = m.text(m.length(1000), alphabet)
    start, length = m.below(len(text) + 1), m.below(70)
    part = text[start : start + length] if m.number % 3 else m.text(length % 20, alphabet)
    if m.number % 7 == 6:
        part += m.text(1, alphabet)
    return m.done(m.string(ONE, text), m.string(OTHER, part))


NUMBERS = (
    b"0 1 -1 +1 +-1 42 2147483647 -2147483648 007 0x1f 0X1F -0x10 0xg 1e5 12abc zz 7fffffffffffffff 10 "
    b"99999999 -0"
).split(b" ")


def _digits(m: Maker) -> bytes:
    space = m.text(m.below(4), b" \t\n\v\f\r")
    if m.number < 2 * len(NUMBERS):
        return space + NUMBERS[m.number % len(NUMBERS)]
    return space + m.text(1, b"+-0x1") + m.text(m.below(8), b"0123456789") + m.text(2, b"9 fz-")


def _numbers(m: Maker) -> Case:
    base = m.one_of(0, 8, 10, 16, 2, 36, 11)
    text = m.string(OTHER, _digits(m)[: 12 if base > 20 else 19])
    end = ONE + 8 * m.below(AREA // 8)
    return m.done(text, end if m.number % 3 else 0, m.integer(base))


def _small_numbers(m: Maker) -> Case:
    text = _digits(m)
    return m.done(m.string(OTHER, b"7" if text.endswith(b"7fffffffffffffff") else text))


def _elements(m: Maker, distinct: bool) -> tuple[int, int, bytes]:
    """Number and size of elements, and their bytes: keys of which some are the same, unless `distinct`."""
    n = (0, 1, 2, 3)[m.number] if m.number < 4 else int(m.rng.integers(2, 41))
    size = m.one_of(4, 8, 12, 16)
    keys = m.rng.permutation(400)[:n].astype(np.int32) - 200
    raw = np.zeros((n, size // 4), np.int32)
    raw[:, 0] = keys
    raw[:, 1:] = m.rng.integers(-(1 << 31), 1 << 31, (n, size // 4 - 1))
    if not distinct and m.number % 3 == 0 and n:
        raw[:] = raw[m.rng.integers(0, n, n)]
    if m.number % 5 == 4 or distinct:
        raw = raw[np.argsort(raw[:, 0], kind="stable")]
    return n, size, raw.tobytes()


def _sorts(m: Maker) -> Case:
    n, size, raw = _elements(m, False)
    return m.done(m.put(m.place(ONE, len(raw)) & -4, raw), n, size, COMPARE)


def _found(m: Maker) -> Case:
    n, size, raw = _elements(m, True)
    base = m.put(m.place(ONE, len(raw)) & -4, raw)
    key = int(m.rng.integers(-220, 220)).to_bytes(4, "little", signed=True)
    if n and m.number % 3:
        at = size * m.one_of(0, n - 1, m.below(n))
        key = raw[at : at + ELEMENT_KEY]
    return m.done(m.put(OTHER + 16, key), base, n, size, COMPARE)


def _values(m: Maker, bits: int) -> Case:
    edges = (0, 1, -1, 2, -2, (1 << bits - 1) - 1, 1 - (1 << bits - 1), 255, -256)
    value = (
        edges[m.number] if m.number < len(edges) else int(m.rng.integers(1 - (1 << bits - 1), 1 << bits - 1))
    )
    return m.done(m.integer(value) if bits == 32 else value & EVERYTHING)


MAKERS: dict[str, Callable[[Maker], Case]] = {
    "memmove": _moves,
    "memcpy": _copies,
    "memset": _fills,
    "memcmp": _blocks,
    "memchr": lambda m: _search(m, True),
    "memrchr": lambda m: _search(m, False),
    "strlen": _strings,
    "strnlen": _bounded,
    "strcpy": _string_copies,
    "strncpy": _bounded_copies,
    "stpcpy": _string_copies,
    "strcat": _appended,
    "strncat": _bounded_appended,
    "strcmp": _two_strings,
    "strncmp": _two_bounded,
    "strchr": _sought,
    "strchrnul": _sought,
    "strrchr": _sought,
    "strcasecmp": _cased,
    "strncasecmp": _cased_bounded,
    "strspn": _sets,
    "strcspn": _sets,
    "strpbrk": _sets,
    "strstr": _parts,
    "strtol": _numbers,
    "atoi": _small_numbers,
    "qsort": _sorts,
    "bsearch": _found,
    "abs": lambda m: _values(m, 32),
    "labs": lambda m: _values(m, 64),
}
"""For each label what makes its cases."""


def cases(name: str, seed: int = 0) -> Iterator[Case]:
    """The CASES cases of a function."""
    rng = np.random.default_rng([seed, sorted(MAKERS).index(name)])
    for number in range(CASES):
        yield MAKERS[name](Maker(number, rng))
