# ruff: noqa: E501 - one row per mutation
"""Plants errors in staged system calls, memory and the loop of lanes, and checks that tests find each.

    python tests/support/mutations_of_lanes.py [--only N ...]

Every mutation is a change of source text in a copy of the package. Exit code 1 if one survives.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import NamedTuple

from mutations import planted, tested


class Mutation(NamedTuple):
    """Where a mistake is, the right and the wrong text."""

    file: str
    right: str
    wrong: str


CALLS, FILES = "linux/resident/calls.py", "linux/resident/files.py"
DESCRIPTORS, LENT = "linux/resident/descriptors.py", "linux/lent.py"
ANSWERS = "backend/cpu/answers.py"
MAPPINGS, AREAS = "linux/resident/mappings.py", "linux/resident/areas.py"
ACCESS = "memory/access.py"
SPACE, LOOP, WORKER = "backend/cpu/space.py", "backend/cpu/loop.py", "backend/cpu/worker.py"
TESTS = (
    "tests/linux/test_single_texts.py",
    "tests/linux/test_syscalls.py",
    "tests/linux/test_descriptors.py",
    "tests/linux/test_mappings.py",
    "tests/linux/test_staged_calls.py",
    "tests/linux/test_told.py",
    "tests/backend/cpu",
    "tests/machine/test_lanes_breakpoints.py",
    "tests/machine/test_lanes.py",
    "tests/machine/test_lanes_linux.py",
    "tests/machine/test_lanes_inputs.py",
    "tests/machine/test_lanes_faults.py",
)
GPU = "tests/backend/gpu"
"""Tests there compare lanes of the CPU, too, with what Python's system calls do."""
MORE = {
    CALLS: [f"{GPU}/test_linux.py"],
    FILES: [f"{GPU}/{name}.py" for name in ("test_files", "test_descriptors", "test_linux")],
    DESCRIPTORS: [f"{GPU}/{name}.py" for name in ("test_files", "test_descriptors")],
    LENT: ["tests/backend/cpu/test_answers.py"],
    ANSWERS: ["tests/backend/cpu/test_answers.py"],
    MAPPINGS: [f"{GPU}/test_mappings.py"],
    AREAS: [f"{GPU}/test_mappings.py"],
}

MUTATIONS = [
    Mutation(CALLS, "given[3] &= ~UNBLOCKABLE", "given[3] &= UNBLOCKABLE"),
    Mutation(CALLS, "after = before & ~mask[0]", "after = before & mask[0]"),
    Mutation(CALLS, "ns % BILLION // 1000)", "ns % BILLION)"),
    Mutation(CALLS, "time[0] * BILLION + time[1]", "time[0] * BILLION"),
    Mutation(CALLS, "lane.place(LIMITS + 2 * resource)) else 0", "lane.place(LIMITS + resource)) else 0"),
    Mutation(FILES, ">> 8 * (4 - size)", ">> 0 * (4 - size)"),
    Mutation(DESCRIPTORS, "    fd = least\n", "    fd = least + 1\n"),
    Mutation(FILES, "        new += lane.word(Word.OFFSET + file)", "        new = lane.word(Word.OFFSET + file)"),
    Mutation(FILES, "        if below(room(lane) - used, size):", "        if below(room(lane) - used + 1, size):"),
    Mutation(FILES, "        lane.put(Word.INPUT, at + done)", "        lane.put(Word.INPUT, at)"),
    Mutation(FILES, "    return LEAVE if not is_user(address, size) or give", "    return LEAVE if give"),
    Mutation(MAPPINGS, "(found | examine(lane, end, end + PAGE)) & SOME_MAPPED", "found & SOME_MAPPED"),
    Mutation(MAPPINGS, "lane.change(address, end, allowed(prot) | MAP | KEEP)", "lane.change(address, end, allowed(prot) | MAP)"),
    Mutation(MAPPINGS, "    lane.put(Word.HOLES, lane.word(Word.HOLES) + end - address)", "    lane.put(Word.HOLES, lane.word(Word.HOLES))"),
    Mutation(AREAS, "        store(here + 8 * Area.END, address)\n    return 0", "    return 0"),
    Mutation(AREAS, "load(here + 8 * Area.WHAT) & ~clear | add", "load(here + 8 * Area.WHAT) | add"),
    Mutation(SPACE, "if not origin & kind or (kind == W_BIT and origin & X_BIT):", "if not origin & kind:"),
    Mutation(ACCESS, "space.give(entry, offset, data + done, here)", "space.give(entry, offset, data, here)"),
    Mutation(SPACE, "        origin = load(at) & ~OWN\n        store(at, origin)", "        origin = load(at)\n        store(at, origin)"),
    Mutation(SPACE, "        move(t[Field.MOVE], mine, origin & ADDRESS, PAGE)\n", ""),
    Mutation(SPACE, "            t[Field.PAGES_LEFT] -= 1", "            t[Field.PAGES_LEFT] -= 0"),
    Mutation(LOOP, "    state = t[Field.STATE]\n    reset(t)\n", "    state = t[Field.STATE]\n"),
    Mutation(LOOP, "    t[Field.LEFT] += left\n", "    t[Field.LEFT] += 0\n"),
    Mutation(LOOP, "counted + retired - t[Field.REPORTED])", "counted + retired)"),
    Mutation(ANSWERS, "    if load(state + layout.REMAINING) == 0:\n        return LEAVE\n", ""),
    Mutation(FILES, "        if goes_on and below(", "        if 0 and below("),
    Mutation(LENT, "        process.task.blocked = self._words[_BLOCKED]\n", ""),
    Mutation(LENT, "            self._file.offset = self._words[Word.OFFSET + _FILE]\n", ""),
    Mutation(LENT, "if self._answering is None or task.seccomp:", "if self._answering is None:"),
    Mutation(LENT, "        self._block[_PENDING] = process.pending_signals\n", ""),
    Mutation(WORKER, "            self._loop.reset(self._table.address)\n\n    def _run_resident", "            pass\n\n    def _run_resident"),
]  # fmt: skip


def finder(m: Mutation) -> str | None:
    """The first test that fails with the mistake in place."""
    with planted(m.file, m.right, m.wrong) as environment:
        done = tested([*TESTS, *MORE.get(m.file, [])], environment)
    if done.returncode == 0:
        return None
    named = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if named is None:
        raise SystemExit(f"{m.file}, {m.wrong!r}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return named[1]


def main() -> int:
    """Plant each mistake and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="numbers of mutations")
    chosen = parser.parse_args().only
    survivors = 0
    for number, m in enumerate(MUTATIONS):
        if chosen is None or number in chosen:
            test = finder(m)
            survivors += test is None
            print(f"{number:3} {m.file}: {m.wrong.strip()!r}: {test or 'SURVIVES'}", flush=True)
    print(f"{survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
