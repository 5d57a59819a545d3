"""Where single-block loops are: a conditional branch back, and no other branch on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvrm.loops.iteration import MOST_WORDS


def branches(word: int) -> bool:
    """Whether a word is a branch, an exception, or in a class of those."""
    return word >> 26 & 0x7 == 0b101 and word >> 22 & 0x3FF != 0b1101010100


def offset_back(word: int) -> int | None:
    """How many words before it a conditional branch leads; None for anything else."""
    top = word >> 24
    if (top == 0x54 and not word & 0x10 and word & 0xF < 14) or top & 0x7E == 0x34:
        width = 19
    elif top & 0x7E == 0x36:
        width = 14
    else:
        return None
    offset = word >> 5 & (1 << width) - 1
    back = (1 << width) - offset
    return back if offset >> width - 1 else None


def loop_at(words: Sequence[int], index: int) -> tuple[int, int] | None:
    """The first and the last word of the single-block loop that the word at `index` is in."""
    for last in range(index, min(index + MOST_WORDS, len(words))):
        if branches(words[last]):
            back = offset_back(words[last])
            first = last - (back or 0)
            inside = back is not None and 0 <= first <= index and back < MOST_WORDS
            if inside and not any(branches(word) for word in words[first:last]):
                return first, last
            return None
    return None


def loops_in(words: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first and the last word of each single-block loop."""
    before = -1
    for last, word in enumerate(words):
        if not branches(word):
            continue
        back = offset_back(word)
        if back is not None and back < MOST_WORDS and last - back > before:
            yield last - back, last
        before = last
