"""What lanes of a warp do together: the driver's `warp` emits it, so that kernels can run without a GPU."""

from __future__ import annotations

from typing import Protocol

from llvmlite import ir

from kvrm.staging.emitter import I1, I32, Emitter

ALL_LANES = ir.Constant(I32, (1 << 32) - 1)
"""The lanes of a whole warp, one bit each."""


class Warp(Protocol):
    """Emits the operations between lanes. Values have 32 bits, or one where they are conditions."""

    def present(self, e: Emitter) -> ir.Value:
        """A bit for each lane that is here."""

    def least(self, e: Emitter, value: ir.Value, among: ir.Value) -> ir.Value:
        """The least value of these lanes, unsigned; all of them come here."""

    def every(self, e: Emitter, condition: ir.Value) -> ir.Value:
        """Whether the condition holds in all lanes of the warp; all of them come here."""

    def meet(self, e: Emitter) -> None:
        """Wait until all threads of the block are here; what each has written, the others see."""


class NvidiaWarp:
    """The operations that NVIDIA's GPUs have."""

    def present(self, e: Emitter) -> ir.Value:
        return e.external("llvm.nvvm.activemask", I32)

    def least(self, e: Emitter, value: ir.Value, among: ir.Value) -> ir.Value:
        return e.external("llvm.nvvm.redux.sync.umin", I32, value, among)

    def every(self, e: Emitter, condition: ir.Value) -> ir.Value:
        return e.external("llvm.nvvm.vote.all.sync", I1, ALL_LANES, condition)

    def meet(self, e: Emitter) -> None:
        e.external("llvm.nvvm.barrier.cta.sync.all", ir.VoidType(), ir.Constant(I32, 0))
