"""Where the text or verdict of a word that capstone or objdump has may differ from KVRM's, and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kvrm.isa.a64.system_registers import READ, WRITE, register_name
from kvrm.isa.definition import Decoded

Rule = Callable[[Decoded, str, str], object]
"""Whether KVRM's text and the other one, which is empty for a word that is not allocated, may differ."""
NOT_OF_THE_A_PROFILE = re.compile(
    r"\b(dfb|prbar|prlar|prenr|prselr|mpuir|csr|cntscale|cntiscale|cntvfrq|cpm)"
)
UNKNOWN_TO_CAPSTONE = re.compile(
    r"\b(id_dfr1_el1|allint|icc_nmiar1_el1|amcg1idr_el0|hafgrtr_el2)\b"
    r"|^(cfp|dvp|cpp) rctx|^dc (cvadp|cgvadp|cgdvadp|cipapa|cigdpapa)"
)
UNNAMED_REGISTER = re.compile(r"\bs\d_\d_c\d+_c\d+_\d\b")
UNNAMED = re.compile(rf"sys |.*{UNNAMED_REGISTER.pattern}")


def divergence(d: Decoded, mine: str, other: str | None, rules: Mapping[str, Rule]) -> str | None:
    """Why the two texts may differ, if they may."""
    return next((reason for reason, applies in rules.items() if applies(d, mine, other or "")), None)


def is_unpredictable(d: Decoded, mine: str, other: str) -> bool:
    return not other and d.definition.unpredictable is not None and d.definition.unpredictable(d)


def names_what_is_not_there(d: Decoded, mine: str, other: str) -> bool:
    return bool(NOT_OF_THE_A_PROFILE.search(other) and (UNNAMED.match(mine) or mine.startswith("dsb")))


def loses_a_register(d: Decoded, mine: str, other: str) -> bool:
    return d.definition.key == "sys" and d.Rt != 31 and bool(re.fullmatch(r"(ic|tlbi) \w+", other))


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


def is_newer(d: Decoded, mine: str, other: str) -> bool:
    return bool(UNKNOWN_TO_CAPSTONE.search(mine) and UNNAMED.match(other))


def shifts_nothing(d: Decoded, mine: str, other: str) -> bool:
    return other.endswith(", #0") and mine == re.sub(r"^([su])shll(2?)(.*), #0$", r"\1xtl\2\3", other)


def goes_the_other_way(d: Decoded, mine: str, other: str) -> bool:
    """Objdump names a register that MRS cannot read, or MSR cannot write."""
    names = [register_name(d.word >> 5 & 0xFFFF, direction) for direction in (READ, WRITE)]
    return bool(UNNAMED.match(mine)) and other == UNNAMED_REGISTER.sub(names[mine.startswith("mrs")], mine)


def is_another_hint(d: Decoded, mine: str, other: str) -> bool:
    return d.definition.key == "hint" and d.CRm << 3 | d.op2 in (6, 22)


CAPSTONE: dict[str, Rule] = {
    "CONSTRAINED UNPREDICTABLE words are allocated; capstone rejects some of them": is_unpredictable,
    "capstone rejects LDTR and STTR of the base register, which do not write back": is_unprivileged_with_base,
    "the manual prefers ORR where MOVZ or MOVN can make the immediate; capstone prints MOV": prefers_orr,
    "capstone prints BFXIL of the zero register from bit 0 as BFC": extracts_zero,
    "capstone prints nothing for prefetch operations without a name": has_no_name,
    "capstone does not know these names, of extensions that it does not ask for": is_newer,
    "capstone has names of the R profile, of one vendor and of drafts": names_what_is_not_there,
    "capstone leaves out Rt of IC and TLBI that take none, so that 32 words have one text": loses_a_register,
    "capstone prints SSHLL and USHLL by 0, for which the manual prefers SXTL and UXTL": shifts_nothing,
}
OBJDUMP: dict[str, Rule] = {
    "CONSTRAINED UNPREDICTABLE words are allocated; objdump rejects some of them": is_unpredictable,
    "objdump has names of the R profile and of drafts": names_what_is_not_there,
    "objdump names registers in the direction too in which they cannot be accessed": goes_the_other_way,
    "objdump leaves out Rt of IC and TLBI that take none, so that 32 words have one text": loses_a_register,
    "objdump does not know DGH, and has a name for HINT #22": is_another_hint,
    "objdump takes MSR SPSel of more than 1 for an unknown register": (
        lambda d, *_: d.definition.key == "msr_spsel" and d.CRm > 1
    ),
    "the manual prefers ORR where MOVZ could make the immediate, also for SP, which MOVZ cannot write": (
        lambda d, mine, other: prefers_orr(d, mine, other) and d.Rd == 31
    ),
    "objdump does not know BRB": lambda d, mine, other: mine.startswith("brb ") and UNNAMED.match(other),
}
