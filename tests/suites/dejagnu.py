"""What GCC's test programs say about themselves: DejaGnu directives in comments.

`{ dg-options "-O3 -ffast-math" { target lp64 } }`: a name, Tcl words, and perhaps a selector last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

TRIPLET: Final = "aarch64-unknown-linux-gnu"
UNTRUE: Final = frozenset(
    "ia32 ilp32 big_endian aarch64_big_endian newlib_nano_io default_branch_protection".split()
)
"""Selectors that do not hold for the target; all others that are no triplet do."""

ADDED: Final = {
    "arm_crypto": ("-march=armv8-a+crypto",),
    "arm_v8_1a_neon": ("-march=armv8.1-a",),
    "arm_v8_2a_fp16_scalar": ("-march=armv8.2-a+fp16",),
    "arm_v8_2a_fp16_neon": ("-march=armv8.2-a+fp16",),
    "arm_v8_2a_dotprod_neon": ("-march=armv8.2-a+dotprod",),
    "arm_v8_2a_bf16_neon": ("-march=armv8.2-a+bf16",),
    "arm_v8_2a_i8mm": ("-march=armv8.2-a+i8mm",),
    "arm_v8_3a_complex_neon": ("-march=armv8.3-a",),
}
"""What dg-add-options stands for, where that is anything on AArch64."""

_DIRECTIVE: Final = re.compile(r"\{\s*dg-([a-z-]+)\b[ \t]*(.*?)\s*\}\s*(?:\*/|$)", re.MULTILINE)
_WORD: Final = re.compile(r'"([^"]*)"|\{((?:[^{}]|\{[^{}]*\})*)\}|(\S+)')


def directives(source: Path) -> Iterator[tuple[str, list[str]]]:
    """The directives of a file that apply to the target: names without `dg-`, and their words."""
    for name, rest in _DIRECTIVE.findall(source.read_text(errors="replace")):
        words = [quoted or braced.strip() or bare for quoted, braced, bare in _WORD.findall(rest)]
        kind, _, selector = words[-1].partition(" ") if words else ("", "", "")
        if kind != "target":
            yield name, words
        elif selected(selector):
            yield name, words[:-1]


def selected(selector: str) -> bool:
    """Whether the target is one of a list of triplets and properties; `!` before the list negates it."""
    words = selector.replace("{", " ").replace("}", " ").replace('"', " ").split()
    negated = words[:1] == ["!"]
    found = any(fnmatchcase(TRIPLET, w) if "-" in w else w not in UNTRUE for w in words[negated:])
    return found is not negated


def flags(source: Path) -> tuple[str, ...]:
    """Compiler flags that the program asks for."""
    found: list[str] = []
    for name, words in directives(source):
        if name in ("options", "additional-options") and words:
            found += words[0].replace('"', " ").split()
        elif name == "add-options" and words:
            found += ADDED.get(words[0], ())
    return tuple(found)


def runs(source: Path, default: bool) -> bool:
    """Whether the program is to be run; `default` is the answer where it does not say."""
    answer = default
    for name, words in directives(source):
        if name == "do" and words:
            answer = words[0] == "run"
        elif name == "error":
            return False
    return answer
