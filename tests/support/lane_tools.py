"""A bare function that does what its first argument says, for lanes and for a machine to compare with."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

import kvrm
from kvrm.machine.lanes import Lanes

CODE, OWN, DATA, FIXED = 0x1_0000, 0x1_8000, 0x2_0000, 0x1C_0000
"""The function, a page of code that it may write to, its data, a page that it may only read."""
DATA_PAGES = 320
LAST = CODE + 0xFF8
"""Where it returns to: a breakpoint."""


class Do(IntEnum):
    """x0: what to do; x1 is a number for it."""

    COUNT = 0
    """x1 rounds of arithmetic and a store."""
    READ = 1
    """Load from x1 + 1."""
    WRITE = 2
    """Store x1 to its data, then to the page that it may only read."""
    LOOP = 3
    """Store x1 for ever."""
    BREAK = 4
    UNDEFINED = 5
    CALL = 6
    """SVC."""
    STRADDLE = 7
    """x0 becomes the sum of 16 bytes around a page's end and what it reads back of x1, stored across it."""
    MODIFY = 8
    """Write `mov x0, #x1` into its own code, announce it and run it."""
    LOST = 9
    """Branch to x1."""
    MANY = 10
    """Write to 300 pages."""
    SNEAK = 11
    """As MODIFY, but announce nothing."""


WORDS = (
    0x10000089,  # adr x9, table
    0xB860792A,  # ldr w10, [x9, x0, lsl #2]
    0x8B2AC129,  # add x9, x9, w10, sxtw
    0xD61F0120,  # br x9
    *(0x30, 0x48, 0x54, 0x60, 0x68, 0x70, 0x78, 0x80, 0xA4, 0xCC, 0xD0, 0xEC),  # table
    0xD2800000,  # COUNT: mov x0, #0
    0x9B010400,  # 1: madd x0, x0, x1, x1
    0xF9000440,  # str x0, [x2, #8]
    0xF1000421,  # subs x1, x1, #1
    0x54FFFFA1,  # b.ne 1b
    0xD65F03C0,  # ret
    0x91000421,  # READ: add x1, x1, #1
    0xF9400020,  # ldr x0, [x1]
    0xD65F03C0,  # ret
    0xF9000041,  # WRITE: str x1, [x2]
    0xF9000061,  # str x1, [x3]
    0xD65F03C0,  # ret
    0xF9000041,  # LOOP: str x1, [x2]
    0x17FFFFFF,  # b LOOP
    0xF9000041,  # BREAK: str x1, [x2]
    0xD42000E0,  # brk #7
    0xF9000041,  # UNDEFINED: str x1, [x2]
    0x00000000,  # udf #0
    0xF9000041,  # CALL: str x1, [x2]
    0xD4000061,  # svc #3
    0x913FF049,  # STRADDLE: add x9, x2, #4092
    0xF9400120,  # ldr x0, [x9]
    0xF948004A,  # ldr x10, [x2, #4096]
    0x8B0A0000,  # add x0, x0, x10
    0xF9000121,  # str x1, [x9]
    0x3CDFD120,  # ldur q0, [x9, #-3]
    0x9E66000B,  # fmov x11, d0
    0xCA0B0000,  # eor x0, x0, x11
    0xD65F03C0,  # ret
    0x18000129,  # MODIFY: ldr w9, patch
    0x0B011529,  # add w9, w9, w1, lsl #5
    0xB9000089,  # str w9, [x4]
    0xD50B7524,  # ic ivau, x4
    0xD5033FDF,  # isb
    0xAA1E03EC,  # mov x12, x30
    0xD63F0080,  # blr x4
    0xAA0C03FE,  # mov x30, x12
    0xD65F03C0,  # ret
    0xD2800000,  # patch: mov x0, #0
    0xD61F0020,  # LOST: br x1
    0xD2802589,  # MANY: mov x9, #300
    0x9140044A,  # add x10, x2, #4096
    0xF9000149,  # 2: str x9, [x10]
    0x9140054A,  # add x10, x10, #4096
    0xF1000529,  # subs x9, x9, #1
    0x54FFFFA1,  # b.ne 2b
    0xD65F03C0,  # ret
    0x18FFFEE9,  # SNEAK: ldr w9, patch
    0x0B011529,  # add w9, w9, w1, lsl #5
    0xB9000089,  # str w9, [x4]
    0xAA1E03EC,  # mov x12, x30
    0xD63F0080,  # blr x4
    0xAA0C03FE,  # mov x30, x12
    0xD65F03C0,  # ret
)
RET = 0xD65F03C0
REGISTERS = (*(f"x{i}" for i in range(31)), "sp", "nzcv", "v0")
SPANS = (slice(DATA, DATA + 0x2010), slice(OWN, OWN + 16))


def machine(engine: str = "tiered", **options: Any) -> kvrm.Machine:
    """The function, ready to be called."""
    m = kvrm.Machine(engine=engine, **options)
    m.write_memory(CODE, struct.pack(f"<{len(WORDS)}I", *WORDS), prot="rx")
    m.write_memory(OWN, struct.pack("<2I", 0xD2800000, RET), prot="rwx")
    m.write_memory(DATA, bytes(range(1, 251)) * 20, prot="rw")
    m.write_memory(DATA, bytes(range(1, 251)), prot="rw")
    m.lane.memory.map(DATA + 0x2000, (DATA_PAGES - 2) * 0x1000, kvrm.Prot.R | kvrm.Prot.W)
    m.write_memory(FIXED, b"constant", prot="r")
    m.x[2], m.x[3], m.x[4], m.x[30] = DATA, FIXED, OWN, LAST
    m.set_pc(CODE)
    m.breakpoints.add(LAST)
    return m


def mixture(lanes: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """x0 and x1 for lanes that do everything, in random order."""
    rng = np.random.default_rng(seed)
    what = rng.integers(0, len(Do), lanes, np.uint64)
    number = rng.integers(1, 60, lanes, np.uint64)
    number[what == Do.LOST] = rng.choice([0, 2, CODE + 0x40, DATA, 1 << 40], lanes)[what == Do.LOST]
    places = [DATA, FIXED - 1, 1 << 34, FIXED + 0xFFB]
    number[what == Do.READ] = rng.choice(places, lanes)[what == Do.READ]
    return what, number


def facts(results: Any, number: int) -> dict[str, Any]:
    """All that is known of lane `number`."""
    r = results.lane(number)
    return {
        "result": (r.stop, r.retired, r.pc, r.exit_code, r.signal, r.fault, r.stdout, r.stderr),
        "registers": {name: results.registers[name][number].tolist() for name in results.registers},
        "memory": [results.memory[span][number].tobytes() for span in SPANS],
    }


def facts_of_one(m: kvrm.Machine, budgets: Sequence[int | None]) -> dict[str, Any]:
    """The same of a machine of one lane, which it runs, several times until it stops."""
    before = m.retired
    for budget in budgets:
        r = m.run(max_instructions=budget)
        if r.stop is not kvrm.Stop.BUDGET:
            break
    values = {f"x{i}": m.x[i] for i in range(31)}
    values |= {"sp": m.sp, "nzcv": m.nzcv, "v0": [m.v[0] & (1 << 64) - 1, m.v[0] >> 64]}
    return {
        "result": (r.stop, m.retired - before, r.pc, r.exit_code, r.signal, r.fault, r.stdout, r.stderr),
        "registers": values,
        "memory": [m.memory[span] for span in SPANS],
    }


def one_by_one(
    m: kvrm.Machine, what: Sequence[int], number: Sequence[int], *budgets: int | None
) -> list[dict[str, Any]]:
    """What the machine, always brought back to its present state, makes of each pair of arguments."""
    start = m.snapshot()
    found = []
    for x0, x1 in zip(what, number, strict=True):
        m.restore(start)
        m.x[0], m.x[1] = int(x0), int(x1)
        found.append(facts_of_one(m, budgets))
    m.restore(start)
    return found


def lanes_of(m: kvrm.Machine, what: Any, number: Any, threads: int = 1) -> Lanes:
    lanes = m.fork(len(what), threads)
    lanes.registers["x0"], lanes.registers["x1"] = what, number
    lanes.keep = (*REGISTERS, *SPANS)
    return lanes


def endless() -> kvrm.Machine:
    m = machine("interpreter")
    m.x[0], m.x[1] = Do.LOOP, 5
    return m


def endless_lanes() -> Lanes:
    lanes = endless().fork(5, 2)
    lanes.registers["x0"] = [Do.LOOP, Do.COUNT, Do.LOOP, Do.READ, Do.LOOP]
    lanes.registers["x1"] = [1, 2, 3, 4, 5]
    lanes.keep = (*REGISTERS, *SPANS)
    return lanes
