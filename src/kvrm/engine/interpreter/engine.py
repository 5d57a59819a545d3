"""The interpreter as an engine: runs one lane's state over its memory until something needs the host."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Set
from dataclasses import replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING

from kvrm.engine.exits import OUT_OF_BUDGET, SIMPLE, SYSTEM_CALL, Exit
from kvrm.engine.interpreter.library import library
from kvrm.engine.interpreter.slot_pool import SlotPool
from kvrm.engine.interpreter.slots import PAGE_BYTES, SLOT, SLOT_PER_PC
from kvrm.isa.context import System
from kvrm.isa.features import CORTEX_A76
from kvrm.lane import words as layout
from kvrm.lane.state import State
from kvrm.lane.stops import Reason
from kvrm.memory import PAGE, AccessKind, GuestFault, Memory, PageTable, Prot, untagged
from kvrm.observe.account import Account
from kvrm.observe.observer import Watched

if TYPE_CHECKING:
    from kvrm.engine.interpreter.dispatch import Dispatch, Policy
    from kvrm.engine.interpreter.skipping import Skipping
    from kvrm.engine.reference import Reference
    from kvrm.observe.observer import RunObserver, StagedObserver

SLICE = 10_000_000
"""Instructions between two samples, and two looks at the host's signals: some 10 ms, a Ctrl-C's delay."""
SHORT_SLICE = 5_000_000
"""The same where samples tell which loops to skip."""

REASONS = {int(reason): reason for reason in Reason}
_SVC = int(Reason.SVC)
_REASON, _IP, _PC, _ADDRESS, _REMAINING, _HORIZON, _CODE_TABLE, _REGION = (
    int(getattr(layout, name)) >> 3
    for name in ("REASON", "IP", "PC", "ADDRESS", "REMAINING", "HORIZON", "CODE_TABLE", "REGION")
)
"""Indices of the state's words that every entry or exit uses."""


class Interpreter:
    """Predecodes pages on first use, runs handlers, and serves what they leave for.

    `run(budget, breakpoints)` returns an `Exit`; `retired` counts since the engine was made. Pages that
    `memory` remaps or the guest invalidates with IC IVAU are predecoded again.

    While `trace` is a list, the addresses of all instructions that retire are added to it.

    With `dispatch_by`, a policy is asked for the class of each word when its page is predecoded, and only
    handlers of that class can run the word. One that they cannot run is an exit. With `skip_by`, loops that
    samples find may be skipped (`kvrm.engine.interpreter.skipping`).

    Handlers are those that the `observer` was staged with, if there is one; then only `run` enters them.

    `on_code_write(start, end)` is called instead of `invalidate` for code that the guest says it has written:
    an engine that has this one sets it, to forget what it has derived itself.

    `slice`, `ready`, `chunks`, `ran`, `resume` and `follow` are for another loop that enters native code
    (`kvrm.backend.cpu.loop`), and returns when native code leaves for what that loop does not know.
    """

    enterable = True
    """Whether another loop may enter its native code."""

    def __init__(
        self,
        state: State,
        memory: Memory,
        features: frozenset[str] = CORTEX_A76,
        observer: StagedObserver | None = None,
    ) -> None:
        self._state, self._memory, self._features = state, memory, features
        self._words = state.words
        self.account: RunObserver = Account()
        self.trace: list[int] | None = None
        self.on_code_write: Callable[[int, int], None] | None = None
        self._ran, self._ran_seconds = 0, 0.0
        self._library = library(observer.stage if observer else "")
        self._dispatch: Dispatch | None = None
        self._skipping: Skipping | None = None
        self._code = PageTable()
        self._slots, self._pool = dict[int, int](), SlotPool()
        self._breaks: Set[int] = frozenset()
        self._version = 0
        self._first = self._library.undecoded
        state.set(layout.PAGE_TABLE, memory.table_address)
        self._observer, self._most = observer, SLICE
        if observer is not None:
            self.enterable, self._most = False, min(SLICE, observer.most)
            observer.attach(Watched(state, memory.peek, self._pool.pc_of))

    def dispatch_by(self, policy: Policy) -> None:
        """Have a policy decide which handlers may run a word; before anything runs."""
        from kvrm.engine.interpreter.dispatch import Dispatch

        self._dispatch = Dispatch(policy, self._memory, self._features)

    def skip_by(self, skipping: Skipping) -> None:
        """Have `skipping` put handlers that skip loops where samples find them."""
        self._skipping, self._most = skipping, min(self._most, SHORT_SLICE)

    def prepare(self) -> list[str]:
        """Compile the handlers of all code that is mapped now, rather than one by one as they are met.

        Returns a hash of each mapping's code.
        """
        return [
            self._library.ensure_text(self._memory.peek(region.start, self._memory.filled(region)))
            for region in self._memory.regions()
            if region.prot & Prot.X
        ]

    @cached_property
    def _reference(self) -> Reference:
        """Steps what has no handler; few programs need it."""
        from kvrm.engine.reference import Reference

        return Reference(self._state, self._memory, self._features)

    @property
    def retired(self) -> int:
        """Instructions retired so far."""
        return self._words[_HORIZON] - self._words[_REMAINING]

    @retired.setter
    def retired(self, value: int) -> None:
        self._words[_HORIZON] = value + self._words[_REMAINING]

    def run(self, budget: int, breakpoints: Set[int] = frozenset()) -> Exit:
        """Run at most `budget` instructions; a breakpoint at the starting pc is passed over."""
        words = self._words
        ahead, end = budget, self.retired + budget
        words[_CODE_TABLE] = self._code.address
        if breakpoints != self._breaks:
            self._set_breakpoints(breakpoints)
        if budget and self._state.pc in breakpoints:
            left = self._step()
            if left is not None:
                return left
            ahead = end - self.retired
        while ahead > 0:
            self._stretch(min(ahead, self._most))
            if words[_REASON] == _SVC and not words[_ADDRESS]:
                return SYSTEM_CALL
            left = self._serve_until(end)
            if left is not None:
                return left
            ahead = end - self.retired
        return OUT_OF_BUDGET

    @property
    def slice(self) -> int:
        """Instructions after which another loop that enters native code should call `resume`."""
        return 1 << 62 if self._skipping is None else SHORT_SLICE

    @property
    def chunks(self) -> list[int]:
        """Where predecoded pages are, `CHUNK_PAGES` one after another from each address on."""
        return self._pool.chunks

    def follow(self, budget: int) -> bool:
        """Record what the program does next, at most `budget` instructions, if an engine wants to know.

        True if it did; the state says for what reason native code has left then.
        """
        return False

    def ran(self, instructions: int, seconds: float) -> None:
        """Count what native code did."""
        self._ran += instructions
        self._ran_seconds += seconds
        self.account.ran(instructions, seconds)

    def resume(self, end: int) -> Exit | None:
        """Serve what native code left for that another loop entered; an Exit if the caller must act.

        `end` is the retired count at which the run's budget ends.
        """
        self._locate()
        return self._serve_until(end)

    def _serve_until(self, end: int) -> Exit | None:
        """`_serve`, in a run that ends at that retired count."""
        reason, s = REASONS[self._words[_REASON]], self._state
        if reason is Reason.BUDGET:
            self.account.sample(self._words[_REGION], s.pc, s.system(System.FPCR))
            if self._skipping is not None:
                self._skipping.sampled(s.pc)
        # whether the target of a run's last branch can be executed is for the next run to find out
        if reason is Reason.CODE and self.retired == end:
            return OUT_OF_BUDGET
        return self._serve(reason)

    def poll(self) -> None:
        """Nothing goes on in the background."""

    def learn_from(self, leader: Interpreter) -> None:
        """Take no samples, and use what those of another engine find, which runs the same program.

        Without it each of many threads would stop for samples, and have the same code translated again.
        """

    def _stretch(self, budget: int) -> None:
        """Native code once, watched by the observer if there is one."""
        if self._observer is not None:
            self._observer.enter()
        self._enter(budget)
        if self._observer is not None:
            self._observer.leave()

    def _enter(self, budget: int) -> None:
        if self.trace is not None:
            self.trace += self.record(budget)
            return
        s, words = self._state, self._words
        self.ready()
        words[_HORIZON] += budget - words[_REMAINING]
        words[_REMAINING] = budget
        words[_PC] = s.pc
        words[_REGION] = 0
        began = perf_counter()
        self._library.enter(s.address)
        self.ran(budget - words[_REMAINING], perf_counter() - began)
        self._locate()

    def _locate(self) -> None:
        words = self._words
        ip = words[_IP]
        self._state.pc = self._pool.pc_of(ip) if ip else words[_PC]

    def record(self, count: int) -> list[int]:
        """Run at most `count` instructions, one by one; the addresses of those that retired.

        Fewer than `count`: the state says for what reason native code left, as after `_enter`.
        """
        s = self._state
        self.ready()
        s.set(layout.HORIZON, self.retired)
        s.set(layout.REMAINING, 0)
        s.set(layout.PC, s.pc)
        first = s.pc
        following = array("Q", bytes(8 * count))
        began = perf_counter()
        done = self._library.record(s.address, following.buffer_info()[0], count)
        self.ran(done, perf_counter() - began)
        slots = following[:done].tolist()
        pc_of = {slot: self._pool.pc_of(slot) if slot else 0 for slot in set(slots)}
        self._locate()
        return [first, *(pc_of[slot] for slot in slots[:-1])] if done else []

    def ready(self) -> None:
        """Point the state at the newest decode tables, for whatever enters native code next."""
        s = self._state
        if self._version != self._library.version:
            self._version = self._library.version
            self._tables = self._library.tables(self._features, self._dispatch is not None)
            for offset, address in self._tables.addresses.items():
                s.set(offset, address)

    def _serve(self, reason: Reason) -> Exit | None:
        """Do what the handler left for; an Exit if the caller must act, None to go on."""
        if reason in SIMPLE:
            value = self._words[_ADDRESS]
            return replace(SIMPLE[reason], value=value) if value else SIMPLE[reason]
        s = self._state
        try:
            if reason is Reason.MEMORY:
                self._memory.resolve(s.get(layout.ADDRESS), AccessKind(s.get(layout.KIND)))
            elif reason is Reason.CODE:
                self._predecode(s.pc)
            elif reason is Reason.HANDLER:
                return self._new_handler(s.get(layout.WORD))
            elif reason is Reason.CODE_WRITE:
                self._code_written(s.get(layout.ADDRESS))
            elif reason is Reason.STEP:
                return self._step()
        except GuestFault as fault:
            if reason is Reason.CODE and s.pc in self._breaks:
                return SIMPLE[Reason.BREAKPOINT]
            return Exit(Reason.FAULT, fault=fault)
        return None

    def _step(self) -> Exit | None:
        """One instruction on the reference engine."""
        if self._dispatch is not None and (left := self._dispatch.refused(self._state.pc)) is not None:
            return left
        pc, fpcr, began = self._state.pc, self._state.system(System.FPCR), perf_counter()
        left = self._reference.step()
        retires = left is None or left.kind.retires
        self.retired += retires
        self.account.stepped(pc, retires, perf_counter() - began, fpcr)
        if left is not None and left.kind is Reason.CODE_WRITE:
            self._code_written(left.value)
            return None
        return left

    def _new_handler(self, word: int) -> Exit | None:
        self._library.ensure_words([word])
        # compared with what this engine used, because another thread may have added the handler meanwhile
        if self._library.version != self._version:
            return None
        return Exit(Reason.UNDEFINED) if self._dispatch is None else self._refused(self._dispatch)

    def _refused(self, dispatch: Dispatch) -> Exit | None:
        """Why the word at pc does not run; None if it was written after its page was predecoded."""
        left = dispatch.refused(self._state.pc)
        if left is None:
            self._code_written(self._state.pc)
        return left

    # -- predecoded pages ------------------------------------------------------------------------------------
    def _require_code(self, pc: int) -> int:
        """Go to `pc`, without its tag, which is returned; GuestFault if it cannot be executed."""
        self._state.pc = pc = untagged(pc)
        if pc & 3:
            raise self._memory.misaligned(pc, AccessKind.FETCH)
        self._memory.resolve(pc, AccessKind.FETCH)
        return pc

    def _predecode(self, pc: int) -> None:
        """Give the page of `pc` its slots, all undecoded; GuestFault if it cannot be executed."""
        page = self._require_code(pc) >> 12
        if page in self._slots:
            return
        base = self._slots[page] = self._pool.take(page)
        self._reset(page)
        self._code.entries[page] = base

    def _reset(self, page: int) -> None:
        base = self._slots[page]
        ctypes.memset(base, 0, PAGE_BYTES)
        self._library.lay_out(base, page << 12, self._first, self._library.next_page)
        if self._dispatch is not None:
            self._dispatch.place(page, base)
        if self._skipping is not None:
            self._skipping.forget(page)
        for address in self._breaks:
            if address >> 12 == page:
                slot = ctypes.c_uint64.from_address(base + (address & PAGE - 1) * SLOT_PER_PC)
                slot.value = self._library.breakpoint

    def _set_breakpoints(self, breakpoints: Set[int]) -> None:
        changed = {a >> 12 for a in self._breaks ^ breakpoints}
        self._breaks = frozenset(breakpoints)
        for page in changed & self._slots.keys():
            self._reset(page)

    def _code_written(self, address: int) -> None:
        (self.on_code_write or self.invalidate)(untagged(address), untagged(address) + 1)

    def invalidate(self, start: int, end: int) -> None:
        """Forget what was predecoded in [start, end)."""
        first, last = start >> 12, (end + PAGE - 1) >> 12
        pages = range(first, last) if last - first < len(self._slots) else list(self._slots)
        for page in pages:
            if first <= page < last and page in self._slots:
                self._code.entries[page] = 0
                self._pool.give_back(self._slots.pop(page))
                if self._skipping is not None:
                    self._skipping.forget(page)

    @property
    def pages(self) -> Set[int]:
        """The numbers of the pages that are predecoded."""
        return self._slots.keys()

    # -- a page's slots once more: skipped loops run their last iterations there -----------------------------
    def slot_at(self, pc: int) -> int | None:
        """Host address of the slot of an address; None if its page is not predecoded."""
        base = self._slots.get(pc >> 12)
        return None if base is None else base + (pc & PAGE - 1) * SLOT_PER_PC

    def runs_plainly(self, pc: int) -> bool:
        """Whether nothing stops in front of the instruction at `pc`."""
        return pc not in self._breaks and (self._dispatch is None or self._dispatch.refused(pc) is None)

    def copy_page(self, page: int) -> int:
        """More slots for a page: all of them go on in its own ones. Their host address."""
        base = self._pool.take(page)
        ctypes.memset(base, 0, PAGE_BYTES)
        self._library.lay_out(base, page << 12, self._library.next_page, self._library.next_page)
        if self._dispatch is not None:
            self._dispatch.place(page, base)
        return base

    def decode_again(self, copy: int, pc: int, count: int) -> int:
        """Have `count` instructions from `pc` on run in a copy of their page; host address of the first."""
        first = copy + (pc & PAGE - 1) * SLOT_PER_PC
        for slot in range(first, first + count * SLOT, SLOT):
            ctypes.c_uint64.from_address(slot).value = self._first
        return first

    def drop_copy(self, copy: int) -> None:
        """Give the slots of a copy back."""
        self._pool.give_back(copy)
