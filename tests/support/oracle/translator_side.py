"""KVRM's translator in the oracles' terms: every word in a compiled region, and proof that it was there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest import mock

from kvrm.engine.translator import compilers, planner
from kvrm.engine.translator.background import Background, Job
from kvrm.engine.translator.compile import Compiled
from kvrm.engine.translator.engine import Translator
from kvrm.engine.translator.forced import ForcedTranslator
from kvrm.engine.translator.paths import Paths
from kvrm.engine.translator.region import Region
from kvrm.engine.translator.store import Store
from kvrm.memory import AccessKind

from .case import DATA_BASE, DATA_END, ENTRY, PAGE, Case, Outcome
from .kvrm_side import KvrmSide

UNFILLED: Final = 4
"""One case in this many starts with an empty page table, so that its accesses leave the region."""


class MemoryStore(Store):
    """Keeps regions in memory only: tests neither find those of earlier runs nor leave any."""

    def __init__(self) -> None:
        super().__init__(Path())
        self.background = AtOnce(self)
        self._use_disk = False
        self._made: dict[str, Compiled] = {}

    def make(self, region: Region) -> Compiled:
        """As the store, once for each key."""
        if region.key not in self._made:
            self._made[region.key] = super().make(region)
        return self._made[region.key]


def region_around(words: tuple[int, ...], features: frozenset[str], place: int = ENTRY) -> Region:
    """The region that `ForcedTranslator` makes of words at their first."""
    region = Paths(lambda pc: words[(pc - place) // 4 :] if pc >= place else (), features).around(place)
    assert region is not None
    return region


class AtOnce(Background):
    """Plans and compiles while the engine waits, so that what is tested does not depend on time."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store, self._planner = store, planner.Planner()

    def submit(self, job: Job, deliver: Callable[[Compiled], None]) -> None:
        """Deliver all regions of a job."""
        ours = {"store": lambda: self._store}
        with mock.patch.multiple(planner, **ours), mock.patch.multiple(compilers, **ours):
            for region in self._planner.regions(job):
                deliver(region)


def use_memory_store(machine: Any) -> Any:
    """Give the translators of a machine a store in memory; the machine."""
    store = MemoryStore()
    for engine in (machine.lane.engine, *getattr(machine.lane.engine, "_native", ())):
        if isinstance(engine, Translator):
            engine._store = store
    return machine


def was_interpreted(engine: ForcedTranslator, pc: int) -> bool:
    """Whether the interpreter has run the word at `pc` since its page was last predecoded.

    Its handler is then decoded, in its slot or beside a region that stands there.
    """
    base = engine._slots.get(pc >> 12)
    if base is None:
        return False
    slot, plain = engine._places(base, pc)
    library = engine._library
    return (plain.value or slot.value) not in (library.undecoded, library.untranslated)


class TranslatorSide(KvrmSide):
    """Answers cases by `ForcedTranslator`, with all features.

    After `run`, `interpreted` tells for each case how many of its words were left to the interpreter, and
    `filled` whether the page table knew the data area from the start.
    """

    def __init__(self, step_limit: int | None = None) -> None:
        super().__init__("translator", step_limit=step_limit)
        engine = use_memory_store(self._machine).lane.engine
        assert isinstance(engine, ForcedTranslator)
        self._native = engine
        self.interpreted: list[int] = []
        self.filled: list[bool] = []

    def _load(self, case: Case) -> None:
        super()._load(case)
        if ENTRY >> 12 in self._native._slots:
            self._native._reset(ENTRY >> 12)  # what was decoded for the case before is forgotten
        self.filled.append(len(self.filled) % UNFILLED != UNFILLED - 1)
        if self.filled[-1]:
            for page in range(DATA_BASE, DATA_END, PAGE):
                self._machine.lane.memory.resolve(page, AccessKind.WRITE)

    def _run_one(self, case: Case) -> Outcome:
        outcome = super()._run_one(case)
        pcs = range(ENTRY, ENTRY + 4 * len(case.words), 4)
        self.interpreted.append(sum(was_interpreted(self._native, pc) for pc in pcs))
        return outcome
