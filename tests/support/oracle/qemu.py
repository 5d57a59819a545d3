"""The QEMU oracle: cases run in `harness.c` under `qemu-aarch64`, thousands in one process."""

from __future__ import annotations

import itertools
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import cross

from .case import ADDRESS_MASK, BROKEN, MAX_WORDS, Case, Kind, Outcome, check_case
from .harness import build_harness

PROGRAMS: Final = ("qemu-aarch64", "qemu-aarch64-static")
CASES_PER_PROCESS: Final = 4096
SECONDS_PER_PROCESS: Final = 300
HARNESS_ERRORS: Final = range(10, 20)
"""Exit codes by which the harness says that it could not work at all (see `leave` in harness.c)."""

# struct request and struct answer of harness.c.
_REQUEST: Final = struct.Struct(f"<2I{MAX_WORDS}I31Q4Q2I512s")
_ANSWER: Final = struct.Struct("<2I2Q31Q3Q2I512s")
_CHANGE: Final = struct.Struct("<2Q")
_NO_WORDS: Final = (0,) * MAX_WORDS


def _pack(case: Case) -> bytes:
    count = len(case.words)
    return _REQUEST.pack(
        count,
        0,
        *case.words,
        *_NO_WORDS[count:],
        *case.x,
        case.sp,
        case.tpidr,
        case.nzcv,
        case.data_seed,
        case.fpcr,
        case.fpsr,
        b"".join([v.to_bytes(16, "little") for v in case.v]),
    )


def _unpack(answers: bytes, at: int) -> tuple[Outcome, int]:
    """The outcome that starts at `at`, and where the next one starts. struct.error if it is cut short."""
    kind, changes, pc, address, *x, sp, tpidr, nzcv, fpcr, fpsr, vectors = _ANSWER.unpack_from(answers, at)
    data_at = at + _ANSWER.size
    end = data_at + changes * _CHANGE.size
    if end > len(answers):
        raise struct.error("cut short")
    halves = struct.unpack("<64Q", vectors)
    v = tuple([low | high << 64 for low, high in zip(halves[::2], halves[1::2], strict=True)])
    data = dict(_CHANGE.iter_unpack(answers[data_at:end])) if changes else {}
    where = _fault_address(kind, address)
    return Outcome(Kind(kind), pc, where, tuple(x), sp, v, nzcv, fpcr, fpsr, tpidr, data), end


def _fault_address(kind: int, reported: int) -> int | None:
    """None where an x86 host hid it: an address that is not canonical there is reported as zero."""
    return reported & ADDRESS_MASK or None if kind in (Kind.FAULT, Kind.ALIGNMENT) else None


class QemuOracle:
    """Answers cases as `qemu-aarch64 -cpu CPU` does. Raises RuntimeError if `unavailable()`.

    What callers must allow for: QEMU 7.2 does not check the alignment of sp, a store pair that faults
    part-way has written its first part, and DC ZVA clears 512 bytes on "max" (64 on real models).
    """

    def __init__(self, cpu: str = "max", cache: Path | None = None) -> None:
        reason = self.unavailable()
        if reason:
            raise RuntimeError(reason)
        self.cpu = cpu
        self._qemu = next(path for name in PROGRAMS if (path := shutil.which(name)))
        self._harness = build_harness(_REQUEST.size, _ANSWER.size, cache)

    @staticmethod
    def unavailable() -> str | None:
        """Why this oracle cannot run on this machine (to skip tests with), or None."""
        if not any(map(shutil.which, PROGRAMS)):
            return f"{PROGRAMS[0]} not found (Debian: qemu-user)"
        return cross.missing()

    def run(self, cases: Sequence[Case]) -> list[Outcome]:
        """The outcome of each case, in order. ValueError if one has no, too many, or SVC words."""
        for case in cases:
            check_case(case)
        outcomes: list[Outcome] = []
        while len(outcomes) < len(cases):
            batch = list(itertools.islice(cases, len(outcomes), len(outcomes) + CASES_PER_PROCESS))
            answered = self._run_process(batch)
            outcomes += answered
            if len(answered) < len(batch):
                outcomes.append(BROKEN)
        return outcomes

    def _run_process(self, batch: Sequence[Case]) -> list[Outcome]:
        """The outcomes up to the first case that kills or hangs QEMU itself."""
        with tempfile.TemporaryFile() as requests, tempfile.TemporaryFile() as answers:
            requests.writelines(map(_pack, batch))
            requests.seek(0)
            command = [self._qemu, "-cpu", self.cpu, str(self._harness)]
            try:
                done = subprocess.run(
                    command,
                    stdin=requests,
                    stdout=answers,
                    stderr=subprocess.PIPE,
                    timeout=SECONDS_PER_PROCESS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                pass
            else:
                if done.returncode in HARNESS_ERRORS or done.returncode == 1:
                    message = done.stderr.decode(errors="replace")
                    raise RuntimeError(f"{' '.join(command)} exited with {done.returncode}: {message}")
            answers.seek(0)
            return self._unpack_all(answers.read(), len(batch))

    @staticmethod
    def _unpack_all(answers: bytes, limit: int) -> list[Outcome]:
        outcomes: list[Outcome] = []
        at = 0
        while len(outcomes) < limit:
            try:
                outcome, at = _unpack(answers, at)
            except struct.error:
                break
            outcomes.append(outcome)
        return outcomes
