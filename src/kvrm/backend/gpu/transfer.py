"""Kernels that copy between guest memory of all lanes and arrays with a row for each lane.

`put(params, address, length, rows)` gives each lane its own copy of the pages and its row of bytes there,
permitted or not; a lane for which the pool has no page left stops before it begins.
`collect(params, address, length, rows)` copies to rows; what is not mapped reads as zeros. `put_words` and
`collect_words` do the same by 8 bytes, which address and length must be multiples of.
`begin(params, words, _, _)` gives each lane the words in `words`; `put_column(params, offset, _, column)` one
word of the lane at that offset, and `get_column` reads it back.
`ready(params, addresses, count, _)`, if the module has it, makes copies of pages for all lanes.
Those of `kvrm.backend.gpu.outcome` and `kvrm.backend.gpu.gather` are built here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from llvmlite import ir

from kvrm.backend.gpu import gather
from kvrm.backend.gpu.device_abi import LANE_WORDS, PAGES_LEFT, begin_kernel, pointer
from kvrm.backend.gpu.group_memory import MAPPED, OWN, make_ready, offset_of, own_function
from kvrm.backend.gpu.outcome import outcome
from kvrm.backend.gpu.thread import Thread
from kvrm.lane.stops import Reason
from kvrm.machine import state as layout
from kvrm.memory import AccessKind
from kvrm.staging.emitter import I1, I8, I32, I64, Emitter


def _c(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


def _begin(e: Emitter, t: Thread, params: ir.Value, words: ir.Value, *_: ir.Value) -> None:
    source, to = pointer(e, words), pointer(e, t.state)
    with e.repeat(LANE_WORDS) as i:
        value = e.load_at(source, e.shl(i, _c(3)), I64)
        e.store_at(value, to, e.shl(i, _c(8)))


def _put_column(
    e: Emitter, t: Thread, params: ir.Value, offset: ir.Value, _: ir.Value, column: ir.Value
) -> None:
    value = e.load_at(pointer(e, column), e.shl(t.number, _c(3)), I64)
    e.store_at(value, pointer(e, t.state), e.shl(offset, _c(5)))


def _get_column(
    e: Emitter, t: Thread, params: ir.Value, offset: ir.Value, _: ir.Value, column: ir.Value
) -> None:
    value = e.load_at(pointer(e, t.state), e.shl(offset, _c(5)), I64)
    e.store_at(value, pointer(e, column), e.shl(t.number, _c(3)))


def _ready(
    e: Emitter, t: Thread, params: ir.Value, addresses: ir.Value, count: ir.Value, _: ir.Value
) -> None:
    a = t.access(e)
    with e.repeat(count) as i:
        entry = a.entry(e.load_at(pointer(e, addresses), e.shl(i, _c(3)), I64))
        make_ready(e, t.params, entry, t.lane)


def _put(
    e: Emitter,
    thread: Thread,
    params: ir.Value,
    address: ir.Value,
    length: ir.Value,
    rows: ir.Value,
    t: ir.Type,
) -> None:
    a, row, end = thread.access(e), e.add(rows, e.mul(thread.number, length)), e.append_basic_block("end")
    with _steps(e, length, t) as i:
        at = e.add(address, i)
        entry = a.entry(at)
        left = pointer(e, e.add(thread.state, _c(32 * PAGES_LEFT)))
        got = e.call(own_function(e.module), [params, thread.lane, entry, left])
        none, good = e.append_basic_block("none"), e.append_basic_block("good")
        e.cbranch(got, good, none)
        e.position_at_end(none)
        stop = (
            (layout.ADDRESS, at),
            (layout.KIND, _c(AccessKind.WRITE)),
            (layout.REASON, _c(Reason.MEMORY)),
        )
        for where, value in stop:
            e.store_at(value, pointer(e, thread.state), 32 * where)
        e.branch(end)
        e.position_at_end(good)
        here = a.place(entry, ir.Constant(I1, 1), offset_of(e, at))
        e.store(e.load(pointer(e, e.add(row, i)), typ=t), pointer(e, here))
    e.branch(end)
    e.position_at_end(end)


def _collect(
    e: Emitter,
    thread: Thread,
    params: ir.Value,
    address: ir.Value,
    length: ir.Value,
    rows: ir.Value,
    t: ir.Type,
) -> None:
    a, row = thread.access(e), e.add(rows, e.mul(thread.number, length))
    with _steps(e, length, t) as i:
        at = e.add(address, i)
        entry = a.entry(at)
        mapped = a.bit(e.load_at(entry, MAPPED, I32))
        read, zero, step = (e.append_basic_block(n) for n in ("read", "zero", "step"))
        e.cbranch(mapped, read, zero)
        e.position_at_end(read)
        here = a.place(entry, a.bit(e.load_at(entry, OWN, I32)), offset_of(e, at))
        found = e.load(pointer(e, here), typ=t)
        e.branch(step)
        e.position_at_end(zero)
        e.branch(step)
        e.position_at_end(step)
        value = e.phi(t)
        value.add_incoming(found, read)
        value.add_incoming(ir.Constant(t, 0), zero)
        e.store(value, pointer(e, e.add(row, i)))


@contextmanager
def _steps(e: Emitter, length: ir.Value, t: ir.Type) -> Iterator[ir.Value]:
    """What is emitted inside runs with the offset of each `t` below `length`."""
    shift = _c((t.width // 8).bit_length() - 1)
    with e.repeat(e.lshr(length, shift)) as i:
        yield e.shl(i, shift)


_BODIES: dict[str, Callable[..., None]] = {
    "put": partial(_put, t=I8),
    "put_words": partial(_put, t=I64),
    "collect": partial(_collect, t=I8),
    "collect_words": partial(_collect, t=I64),
    "begin": _begin,
    "put_column": _put_column,
    "get_column": _get_column,
    "outcome": outcome,
    **gather.BODIES,
}
KERNELS = tuple(_BODIES)
READY_KERNELS: dict[str, Callable[..., None]] = {"ready": _ready}


def build(module: ir.Module) -> None:
    """Emit the kernels."""
    for name, body in (_BODIES | READY_KERNELS if module.readies else _BODIES).items():
        e, arguments = begin_kernel(module, name, 4)
        thread = Thread(e, arguments[0])
        work, done = e.append_basic_block("work"), e.append_basic_block("done")
        e.cbranch(thread.exists, work, done)
        e.position_at_end(work)
        body(e, thread, *arguments)
        e.branch(done)
        e.position_at_end(done)
        e.ret_void()
