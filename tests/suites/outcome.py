"""What a program did on one of the two sides."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

EXIT_0: Final = "exit 0"
TAIL: Final = 200
"""Characters of the last words that are kept."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended.

    `ended` is "exit N", "signal N" or the stop reason; `output` a hash of its standard output; `wrong` the
    numbers (from 1) of the lines of standard output that are not those of the expectation; `detail` its last
    words, `retired` instructions (KVRM only) and `seconds` of wall time.
    """

    ended: str
    output: str = ""
    wrong: tuple[int, ...] = ()
    detail: str = ""
    retired: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of a program gave; `words` is text whose end says why it ended like this."""

    ended: str
    stdout: bytes = b""
    words: str = ""
    retired: int = 0
    seconds: float = 0.0

    def outcome(self, expected: Path | None) -> Outcome:
        """What is kept of it; `expected` is the file that standard output should equal."""
        return Outcome(
            self.ended,
            hashlib.blake2b(self.stdout, digest_size=8).hexdigest(),
            differing_lines(self.stdout, expected.read_bytes()) if expected is not None else (),
            self.words.strip()[-TAIL:],
            self.retired,
            round(self.seconds, 3),
        )


def differing_lines(got: bytes, expected: bytes) -> tuple[int, ...]:
    """Numbers of the lines, from 1, where the two texts differ, the missing ones of either included."""
    left, right = got.splitlines(), expected.splitlines()
    common = min(len(left), len(right))
    differing = [n + 1 for n in range(common) if left[n] != right[n]]
    return (*differing, *range(common + 1, max(len(left), len(right)) + 1))
