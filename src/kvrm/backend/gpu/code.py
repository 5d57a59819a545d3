"""A program's code on the device: a kernel that has its handlers and regions, and its pages as slots."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvrm import cache
from kvrm.backend.gpu import kernel, prefetch
from kvrm.backend.gpu.device_abi import CHUNKS, OWN_WORDS, PLAIN, Param
from kvrm.backend.gpu.flow import in_flow_order
from kvrm.backend.gpu.group_memory import CHUNK
from kvrm.backend.gpu.region_plan import fits
from kvrm.backend.gpu.skipping import Skipped
from kvrm.backend.protocols import Buffer, Driver, Kernel
from kvrm.engine.interpreter.dispatch import Policy, misplaced
from kvrm.engine.interpreter.inline import InlinePolicy, inline_or_none
from kvrm.engine.interpreter.library import variants_of
from kvrm.engine.interpreter.slots import OPERANDS, PAGE_SLOTS, SLOT
from kvrm.engine.translator.region import Region
from kvrm.isa.a64 import definition_of, definitions
from kvrm.isa.decoder import decode_many
from kvrm.isa.features import allocates
from kvrm.memory import PAGE
from kvrm.staging import native, objects
from kvrm.staging.objects import Object
from kvrm.staging.ptx import compile_ptx

log = logging.getLogger("kvrm")


@dataclass(frozen=True, slots=True)
class Shape:
    """Threads of a block of `run`, and the device's registers that each may use (docs/use/gpu.md)."""

    threads: int
    registers: int


INTERPRETED, ALONE, TOGETHER, LONE = Shape(128, 64), Shape(256, 128), Shape(512, 128), Shape(32, 255)
"""Without regions; with regions, each warp choosing by itself what it runs, or all of a block together; for
one lane.

More registers spill less, more threads hide more latency. Without regions, lanes' registers are in local
memory, and 1,024 threads of a multiprocessor have 64 of the device's each. With regions they are in shared
memory: 512 threads of 128 ran a parser at 70 G instructions a second, 640 of 96 at 52. One lane shares with
no other.
"""
INLINE = Shape(128, 128)
"""With a network in the loop, the outputs of two layers of which are in registers."""
UNALLOCATED, MISPLACED = -1, -2
"""Instead of a variant's number."""

Ids = npt.NDArray[np.uint32]


class Code:
    """The code in `pages`, page numbers to contents, for machines with these features.

    Words that the `dispatch` policy has in a class that cannot run them leave for the host, which says so. If
    it is an inline policy, the kernel finds out, each time that one is to run. `ahead` has, for instructions
    that are to prefetch, steps from the addresses that they access; if it is given, pages can be made ready.
    With `skip` loops can be skipped (`skipped`), whose last iterations run in a second copy of all slots.
    `lone`: it is for one lane. `kernels` are the compiled functions by name (`kvrm.backend.gpu.kernel`),
    `sites` how many instructions prefetch. Compiled code is cached on disk, named by a hash of all that it
    depends on.
    """

    def __init__(
        self,
        gpu: Driver,
        pages: Mapping[int, bytes],
        features: frozenset[str],
        regions: Sequence[Region] = (),
        breakpoints: frozenset[int] = frozenset(),
        dispatch: Policy | InlinePolicy | None = None,
        ahead: Mapping[int, Sequence[int]] | None = None,
        lone: bool = False,
        skip: kernel.Skip | None = None,
    ) -> None:
        self._gpu, self._skip = gpu, skip
        self._inline = inline_or_none(dispatch)
        self._pages = sorted(pages)
        self._first = {page: 1 + i * PAGE_SLOTS for i, page in enumerate(self._pages)}
        text = b"".join(pages[page] for page in self._pages)
        self.variants = [
            v
            for v in sorted(variants_of(array("I", text)))
            if allocates(features, definition_of(v[0]).feature or "")
        ]
        self.regions = list(regions)
        self._lone = lone
        code = np.frombuffer(text, np.uint32).reshape(-1, PAGE // 4)
        which = self._variants_of(code)
        steps = {self.slot(pc): prefetch.packed(each) for pc, each in (ahead or {}).items()}
        chosen, sites = self._choose_prefetching(which, steps)
        self._prefetching = None if ahead is None else chosen
        interpreted = INTERPRETED if self._inline is None else INLINE
        self._shape = LONE if lone else (ALONE if fits(regions) else TOGETHER) if regions else interpreted
        self._shared = 8 * OWN_WORDS * self._shape.threads if regions or lone else 0
        self._load(kernel.KERNELS)
        if dispatch is not None and self._inline is None:
            which[misplaced(dispatch, code.reshape(-1)).reshape(code.shape)] = MISPLACED
        copies = 1 if skip is None else 2
        self._lay_out(code, which, copies)
        for slot in sites:
            self._slots[slot, prefetch.IN_SLOT] = np.frombuffer(steps[slot], np.uint8)
        self.sites = len(sites)
        self.words = None if self._inline is None else gpu.upload(_beside(code))
        self.slots = gpu.upload(self._slots)
        self.skipped = None if skip is None else Skipped(gpu, self)
        self.breakpoints: frozenset[int] = frozenset()
        self.set_breakpoints(breakpoints)
        self.table = gpu.upload(self._lookup())
        self.pages = gpu.upload(np.array(self._pages * copies, np.uint64) * np.uint64(PAGE))

    def _load(self, names: Sequence[str]) -> None:
        """Have the compiled functions: kernels with these names, and the host's decoders."""
        cubin, host, self._handlers = self._compiled()
        module = self._gpu.load(cubin)
        self.kernels: dict[str, Kernel] = {name: module.function(name) for name in names}
        self.kernels["run"].allow_shared(self._shared)
        self._loader = native.Loader()
        self._loader.load(host)
        words = [ctypes.c_uint64] * 5
        self._predecode = ctypes.CFUNCTYPE(None, *words)(self._loader.address("predecode"))

    def _lay_out(self, code: Ids, which: npt.NDArray[np.int32], copies: int) -> None:
        """Predecode pages of words whose variants have these numbers; all slots are there `copies` times."""
        # the last is loaded ahead, and never run
        self._slots = np.zeros((1 + copies * code.shape[0] * PAGE_SLOTS + 1, SLOT), np.uint8)
        for page, *rows in zip(self._pages, code, which, strict=True):
            self._fill(page, *rows)
        if copies > 1:
            self._lay_out_copies()

    def _compiled(self) -> tuple[bytes, Object, int]:
        """Machine code of kernels, the host's object code of decoders, and how many handlers there are."""
        parts = [self._gpu.compiler, self._shape, self.variants, self._skip is not None]
        inline = None if self._inline is None else self._inline.name
        regions = [region.key for region in self.regions]
        stamp = repr([*parts, regions, inline, self._prefetching, prefetch.INSTRUCTION]).encode()
        path = native.versioned("cuda") / hashlib.blake2b(stamp, digest_size=16).hexdigest()
        known = None if native.dumps() else cache.read_checked(path)
        if known is not None:
            cubin_name, host_name, handlers = known.decode().split()
            cubin, host = objects.find(cubin_name), objects.find(host_name)
            if cubin is not None and host is not None:
                return cubin.code, host, int(handlers)
        what = f"{len(self.variants)} instruction handlers and {len(self.regions)} regions"
        log.info("compiling a kernel of %s for the GPU (once; it is kept)", what)
        began = time.perf_counter()
        emits = None if self._inline is None else self._inline.emit
        staged = kernel.stage(
            self.variants, self.regions, self._lone, emits, self._prefetching, self._skip, self._gpu.warp
        )
        cubin, host = self._cubin(staged.device), native.compile_object(staged.host)
        cache.write_checked(path, f"{cubin.name} {host.name} {staged.handlers}".encode())
        log.info("compiled it in %.1f s", time.perf_counter() - began)
        return cubin.code, host, staged.handlers

    def _cubin(self, text: str) -> Object:
        """The GPU's machine code of a module given as LLVM text."""
        ptx, registers = compile_ptx(text, self._gpu.arch), self._shape.registers
        native.dump("ptx", ptx)
        return objects.compiled(
            ptx,
            f"{self._gpu.compiler}, {registers} registers",
            lambda: self._gpu.compile(ptx, registers),
            use_disk=not native.dumps(),
        )

    def run(self, lanes: int, arguments: Sequence[int]) -> None:
        """Queue a launch for that many lanes."""
        threads = self._shape.threads
        self.kernels["run"].launch(-(-lanes // threads), threads, arguments, self._shared)

    def use_device(self) -> None:
        """Have the calling thread use the device."""
        self._gpu.use()

    def _ids(self) -> Ids:
        """Of each slot, the number of what runs there, and of its handler."""
        return self._slots[:, :8].view(np.uint32)

    def _variants_of(self, code: Ids) -> npt.NDArray[np.int32]:
        """The number of each word's variant, UNALLOCATED where there is none."""
        numbers = {v: i for i, v in enumerate(self.variants)}
        words, where = np.unique(code, return_inverse=True)
        which = np.full(len(words), UNALLOCATED, np.int32)
        for i, index in enumerate(decode_many(words).tolist()):
            if index >= 0:
                d = definitions[index]
                which[i] = numbers.get((d.key, d.statics_of(int(words[i]))), UNALLOCATED)
        return which[where].reshape(code.shape)

    def _choose_prefetching(
        self, which: npt.NDArray[np.int32], steps: Mapping[int, bytes]
    ) -> tuple[list[int], list[int]]:
        """Have slots that have steps run variants that prefetch, whose numbers come after all others.

        The variants that those are made of, and the slots. What a page holds may have changed since steps
        were chosen for it, so not all have them in the end.
        """
        places = {slot: divmod(slot - 1, PAGE_SLOTS) for slot, each in steps.items() if slot and any(each)}
        sites = {
            slot: place
            for slot, place in places.items()
            if which[place] >= 0 and kernel.can_prefetch(self.variants[which[place]])
        }
        chosen = sorted({int(which[place]) for place in sites.values()})
        for place in sites.values():
            which[place] = len(self.variants) + chosen.index(which[place])
        return chosen, list(sites)

    def _fill(self, page: int, words: Ids, which: npt.NDArray[np.int32]) -> None:
        first = self._first[page]
        mine = self._slots[first : first + PAGE_SLOTS]
        ids = mine[:, :8].view(np.uint32)
        ids[:] = kernel.UNDEFINED
        ids[:-1][which == MISPLACED] = kernel.MISSING
        self._predecode(which.ctypes.data, words.ctypes.data, page * PAGE, mine.ctypes.data, len(words))
        self._go_on(mine[-1:], np.array([(page + 1) * PAGE], np.uint64))

    @staticmethod
    def _go_on(slots: npt.NDArray[np.uint8], pcs: npt.NDArray[np.uint64]) -> None:
        """Have slots lead to the ones of these addresses."""
        slots[:, :8].view(np.uint32)[:] = kernel.NEXT_PAGE
        slots[:, OPERANDS : OPERANDS + 8] = pcs.view(np.uint8).reshape(-1, 8)

    def _lay_out_copies(self) -> None:
        """Slots of all pages once more, which lead back to the first ones."""
        within = 4 * np.arange(PAGE_SLOTS, dtype=np.uint64)
        pcs = (np.array(self._pages, np.uint64)[:, None] * np.uint64(PAGE) + within).reshape(-1)
        self._go_on(self._slots[1 + len(pcs) : 1 + 2 * len(pcs)], pcs)

    def copy(self, pc: int, count: int) -> int:
        """Have `count` instructions from `pc` on run in the copy of their page; the number of the first."""
        at = self.slot(pc)
        to = at + len(self._pages) * PAGE_SLOTS
        part = self._slots[to : to + count]
        part[:] = self._slots[at : at + count]
        part[:, :8].view(np.uint32)[:, 0] = part[:, :8].view(np.uint32)[:, 1]
        self.slots.write(np.ascontiguousarray(part), to * SLOT)
        return to

    def runs(self, pc: int) -> bool:
        """Whether a handler runs the instruction at `pc`, whatever breakpoints there are."""
        return self._ids()[self.slot(pc), 1] not in (kernel.MISSING, kernel.UNDEFINED)

    def _lookup(self) -> Ids:
        """What `Param.CODE` points to."""
        root, rows = np.zeros(CHUNKS, np.uint32), [np.zeros(CHUNK, np.uint32)]
        for page, first in self._first.items():
            if not root[page // CHUNK]:
                root[page // CHUNK] = len(rows)
                rows.append(np.zeros(CHUNK, np.uint32))
            rows[root[page // CHUNK]][page % CHUNK] = first
        return np.concatenate([root, *rows])

    def set_breakpoints(self, breakpoints: frozenset[int]) -> None:
        """Stop lanes at these addresses, and at no others; regions that cover one are not entered."""
        ids = self._ids()
        now = {self.slot(pc): int(ids[self.slot(pc), 1]) for pc in self.breakpoints}
        number = self._handlers
        for region in self.regions:
            whole = not any(map(region.covers, breakpoints))
            for pc in in_flow_order(region):
                at = self.slot(pc)
                now[at] = number if whole else int(ids[at, 1])
                number += 1
        for index, site in enumerate(self.skipped.sites if self.skipped else ()):
            at = self.slot(site.pc)
            enters = not site.rest and not any(site.pc <= pc < site.end for pc in breakpoints)
            now[at] = number + index if enters else int(ids[at, 1])
        now |= {self.slot(pc): kernel.BREAKPOINT for pc in breakpoints}
        for at, number in now.items():
            if at and ids[at, 0] != number:
                ids[at, 0] = number
                self.slots.write(ids[at, :1].copy(), at * SLOT)
        self.breakpoints = breakpoints

    def slot(self, pc: int) -> int:
        """The number of the slot of an address; 0 if it has none."""
        first = self._first.get(pc // PAGE, 0)
        return first + pc % PAGE // 4 if first and not pc & 3 else 0

    def slots_of(self, pcs: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """The slots of addresses, as `slot`."""
        unique, where = np.unique(pcs, return_inverse=True)
        return np.array([self.slot(int(pc)) for pc in unique], np.uint64)[where]

    def firsts(self, slots: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """The slots of the same addresses that are no copies, and no marks in their numbers."""
        count, slots = np.uint64(len(self._pages) * PAGE_SLOTS), slots & np.uint64(PLAIN - 1)
        return np.where(slots > count, slots - count, slots)

    def address(self, slot: int) -> int:
        index, within = divmod(slot - 1, PAGE_SLOTS)
        return self._pages[index % len(self._pages)] * PAGE + 4 * within


def _beside(code: Ids) -> Ids:
    """The word of each slot, of pages x 1,024 of them; 0 for a slot that has none."""
    words = np.zeros(1 + len(code) * PAGE_SLOTS + 1, np.uint32)
    words[1:-1].reshape(-1, PAGE_SLOTS)[:, :-1] = code
    return words


def parameters(
    code: Code, states: Buffer, root: Buffer, tables: Buffer, counters: Buffer
) -> dict[Param, int]:
    """The addresses that every launch is told."""
    return {
        Param.STATES: states.address,
        Param.SLOTS: code.slots.address,
        Param.CODE: code.table.address,
        Param.PAGES: code.pages.address,
        Param.ROOT: root.address,
        Param.TABLES: tables.address,
        Param.COUNTERS: counters.address,
        Param.SLAB_NEXT: counters.address + 16,
        Param.WORDS: code.words.address if code.words else 0,
        Param.SITES: code.skipped.buffer.address if code.skipped else 0,
    }
