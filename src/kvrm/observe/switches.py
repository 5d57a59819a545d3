"""The value of `KVRM_TRACE`: ``insn,regs,mem,sys[:start]``."""

from __future__ import annotations

import os

from kvrm.errors import UsageError

TOPICS = frozenset(("insn", "regs", "mem", "sys"))


def trace_switch() -> tuple[frozenset[str], int]:
    """Topics and the retired count at which the trace starts; UsageError if the value names others."""
    text = os.environ.get("KVRM_TRACE", "")
    names, _, start = text.partition(":")
    topics = frozenset(t for t in names.split(",") if t)
    if topics - TOPICS or (start and not start.isdecimal()):
        raise UsageError(f"KVRM_TRACE={text}: it is insn,regs,mem,sys in any choice, then optionally :start")
    return topics, int(start or 0)
