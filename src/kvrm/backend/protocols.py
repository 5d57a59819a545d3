"""What the GPU code needs of a driver: `kvrm.backend.gpu.driver` has CUDA's, the tests one on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kvrm.backend.gpu.warp import Warp


class Buffer(Protocol):
    """`size` bytes of device memory from `address` on, which are free again when the object is gone."""

    address: int
    size: int

    def write(self, data: Any, offset: int = 0) -> None:
        """Copy `data` (bytes or an array) to the buffer. What does not fit is a ValueError."""

    def read(self, out: Any, offset: int = 0) -> Any:
        """Copy to `out`, a writable contiguous array, and give it back."""

    def repeat(self, size: int) -> None:
        """Fill the buffer with copies of its first `size` bytes."""

    def fill(self, byte: int) -> None:
        """Set all bytes."""


class Kernel(Protocol):
    """A function that can be launched. `registers` and `stack_bytes` are what the compiler gave a thread."""

    registers: int
    stack_bytes: int

    def allow_shared(self, size: int) -> None:
        """Launches may give a block that many bytes of shared memory."""

    def launch(self, blocks: int, threads: int, arguments: Sequence[int], shared: int = 0) -> None:
        """Queue the kernel; arguments are 64-bit words. A block gets `shared` bytes more than it declares."""


class Module(Protocol):
    """Machine code on the device."""

    def function(self, name: str) -> Kernel:
        """One of its kernels."""


class Driver(Protocol):
    """One device: its memory, its code and its clock. Every failure is a `DeviceError` that says why.

    `arch` is what code is compiled for, `compiler` tells compilers apart whose code may differ, and `warp`
    emits what the lanes of a warp do together.
    """

    name: str
    arch: str
    compiler: str
    warp: Warp

    @property
    def free_bytes(self) -> int:
        """Free device memory."""

    def use(self) -> None:
        """Make the device current in the calling thread: each thread that does anything with it must."""

    def compile(self, ptx: str, registers: int) -> bytes:
        """Machine code of PTX text, with that many registers for a thread at most."""

    def load(self, cubin: bytes) -> Module:
        """A module of machine code."""

    def allocate(self, size: int, zero: bool = False) -> Buffer:
        """`size` bytes of device memory."""

    def upload(self, data: Any) -> Buffer:
        """A buffer with a copy of `data` (bytes or an array)."""

    def copied(self, array: Any) -> Any:
        """A copy of an array in the host's memory that is quick to upload."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array in the host's memory, to which it is quick to copy."""

    def view(self, array: Any) -> Buffer:
        """The bytes of an array in device memory of another library (`__cuda_array_interface__`)."""

    def event(self) -> Any:
        """A moment in the device's stream, to be recorded."""

    def record(self, event: Any) -> None:
        """The moment is when all that was queued before has been done."""

    def seconds(self, start: Any, end: Any) -> float:
        """Seconds between two recorded moments."""

    def synchronize(self) -> None:
        """Wait until the device is idle."""
