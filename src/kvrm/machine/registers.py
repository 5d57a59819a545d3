"""The registers of a machine, as Python reads and assigns them."""

from __future__ import annotations

from typing import Any

from kvrm.lane.state import State


class Registers:
    """The registers of `state` but pc. They take integers, of which they keep the bits that they have."""

    state: State

    @property
    def x(self) -> Any:
        """x[0] to x[30], 64-bit ints, assignable."""
        return self.state.x

    @property
    def v(self) -> Any:
        """v[0] to v[31], 128-bit ints, assignable."""
        return self.state.v

    @property
    def sp(self) -> int:
        """Stack pointer."""
        return self.state.sp

    @sp.setter
    def sp(self, value: int) -> None:
        self.state.sp = value

    @property
    def nzcv(self) -> int:
        """N, Z, C, V as four bits, N highest."""
        return self.state.nzcv

    @nzcv.setter
    def nzcv(self, value: int) -> None:
        self.state.nzcv = value

    @property
    def fpcr(self) -> int:
        """Floating-point control register."""
        return self.state.fpcr

    @fpcr.setter
    def fpcr(self, value: int) -> None:
        self.state.fpcr = value

    @property
    def fpsr(self) -> int:
        """Floating-point status register."""
        return self.state.fpsr

    @fpsr.setter
    def fpsr(self, value: int) -> None:
        self.state.fpsr = value
