"""Where capstone's text or verdict of a word may differ from KVRM's, and why."""

from __future__ import annotations

import re

from kvrm.isa.definition import Decoded


def divergence(d: Decoded, mine: str, other: str | None) -> str | None:
    """Why the two texts may differ, if they may."""
    return next((reason for reason, applies in DIVERGENCES.items() if applies(d, mine, other or "")), None)


def is_unpredictable(d: Decoded, mine: str, other: str) -> bool:
    return not other and d.definition.unpredictable is not None and d.definition.unpredictable(d)


def is_unprivileged_with_base(d: Decoded, mine: str, other: str) -> bool:
    return not other and d.definition.key.endswith("_unprivileged") and d.Rn == d.Rt


def prefers_orr(d: Decoded, mine: str, other: str) -> bool:
    return d.definition.key == "orr_imm" and d.Rn == 31 and other.startswith("mov ")


def extracts_zero(d: Decoded, mine: str, other: str) -> bool:
    return (
        mine.startswith("bfxil")
        and d.Rn == 31
        and other == mine.replace("bfxil", "bfc").replace(", xzr" if d.sf else ", wzr", "")
    )


def has_no_name(d: Decoded, mine: str, other: str) -> bool:
    return mine.startswith("prf") and re.sub(r" #\w+,", " ,", mine, count=1) == other


def has_no_alias(d: Decoded, mine: str, other: str) -> bool:
    return d.definition.key == "dc_cvadp" and other.startswith("sys #3, c7, c13, #1")


DIVERGENCES = {
    "CONSTRAINED UNPREDICTABLE words are allocated; capstone rejects some of them": is_unpredictable,
    "capstone rejects LDTR and STTR of the base register, which do not write back": is_unprivileged_with_base,
    "the manual prefers ORR where MOVZ or MOVN can make the immediate; capstone prints MOV": prefers_orr,
    "capstone prints BFXIL of the zero register from bit 0 as BFC": extracts_zero,
    "capstone prints nothing for prefetch operations without a name": has_no_name,
    "capstone does not know DC CVADP": has_no_alias,
}
