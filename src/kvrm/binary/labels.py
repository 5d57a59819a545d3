"""The library functions that patterns knows, and which names of symbols stand for them."""

from __future__ import annotations

import re
from collections.abc import Iterable

LABELS = (
    "memmove memcpy memset memcmp memchr memrchr strlen strnlen strcpy strncpy stpcpy strcat strncat strcmp "
    "strncmp strchr strchrnul strrchr strcasecmp strncasecmp strspn strcspn strpbrk strstr strtol atoi qsort "
    "bsearch abs labs"
).split()
"""By number; of two that share their code, the first says more."""
NONE = len(LABELS)
"""Instead of a label: another function."""
OUTPUTS = NONE + 1
"""What a policy gives for each function: a number for each label, and for NONE."""
NUMBER = {name: number for number, name in enumerate(LABELS)}

ALIASES = {
    "bcmp": "memcmp",
    "index": "strchr",
    "rindex": "strrchr",
    "strtoll": "strtol",
    "strtoq": "strtol",
    "strtoimax": "strtol",
    "llabs": "labs",
    "imaxabs": "labs",
}
"""Names for the same thing where `long` has 64 bits."""
VARIANT = re.compile(r"_(generic|asimd|mte|nomte|simd|thunderx2?|falkor|kunpeng|emag|a64fx|sve|mops|nosimd)$")
"""What glibc appends to the name of a version for some processors."""


def label_of(names: Iterable[str]) -> int:
    """The number of the function that these names of one address stand for, or NONE."""
    plain = (VARIANT.sub("", name.lstrip("_")) for name in names)
    return min((NUMBER.get(ALIASES.get(name, name), NONE) for name in plain), default=NONE)


def labels_of(names: Iterable[str]) -> set[int]:
    """All the functions that these names stand for."""
    return {number for name in names if (number := label_of([name])) != NONE}
