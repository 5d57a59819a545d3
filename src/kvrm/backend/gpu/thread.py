"""A thread of a kernel under construction: which lane it is, and where that lane's state and table are."""

from __future__ import annotations

from llvmlite import ir

from kvrm.backend.gpu.device_abi import GROUP, LANE_WORDS, Param, pointer
from kvrm.backend.gpu.group_memory import Access
from kvrm.staging.emitter import I32, I64, Emitter


def _c(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


class Thread:
    """Which lane a thread is, in a kernel under construction: its table, state and numbers."""

    def __init__(self, e: Emitter, params: ir.Value) -> None:
        names = ("ctaid.x", "ntid.x", "tid.x")
        block, size, thread = (e.zext(e.external(f"llvm.nvvm.read.ptx.sreg.{n}", I32), I64) for n in names)
        self.number = e.add(e.mul(block, size), thread)
        self.params = pointer(e, params)
        self.group, self.lane = e.lshr(self.number, _c(5)), e.and_(self.number, _c(GROUP - 1))
        words = (Param.TABLES, Param.TABLE_BYTES, Param.STATES, Param.LANES)
        tables, size, states, lanes = (e.load_at(self.params, 8 * p, I64) for p in words)
        self.table = e.add(tables, e.mul(self.group, size))
        self.state = e.add(
            states, e.add(e.mul(self.group, _c(GROUP * 8 * LANE_WORDS)), e.shl(self.lane, _c(3)))
        )
        first = e.and_(self.number, ir.Constant(I64, -GROUP))
        self.group_exists = e.icmp_unsigned("<", first, lanes)
        self.exists = e.icmp_unsigned("<", self.number, lanes)

    def access(self, e: Emitter) -> Access:
        """Finds the lane's pages."""
        root = pointer(e, e.load_at(self.params, 8 * Param.ROOT, I64))
        return Access(e, root, pointer(e, self.table), self.lane)
