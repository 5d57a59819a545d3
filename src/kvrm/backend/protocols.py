"""What lanes need of a backend, and the GPU's backend of a driver.

`kvrm.backend.cpu.workers` and `kvrm.backend.gpu.runner` have the two backends, `kvrm.backend.gpu.driver` has
CUDA's driver, and the tests have one on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kvrm.backend.gpu.arrays import OnDevice
    from kvrm.backend.gpu.warp import Warp
    from kvrm.machine.lanes_job import Job
    from kvrm.machine.runner import Plan


class Backend(Protocol):
    """Runs lanes, one job after another. It is made with the lane that they begin as, and an `EngineKind`.

    `takes_device_arrays`: inputs may be in a GPU's memory. `empty(shape, dtype)` makes room for results, with
    anything in it; None: numpy's zeros do. Of the last run, `device_seconds` is the time that kernels took,
    and `left_device` how many lanes of a GPU's the CPU went on with.
    """

    takes_device_arrays: bool
    empty: Callable[[tuple[int, ...], Any], Any] | None
    device_seconds: float
    left_device: int

    @property
    def retired(self) -> int:
        """Instructions of all lanes since the backend was made; any thread may ask."""

    @property
    def ended(self) -> int:
        """Lanes that have ended in the run that goes on, before outputs say how; any thread may ask."""

    @property
    def device_bytes(self) -> int:
        """Device memory that the lanes have."""

    @property
    def on_device(self) -> OnDevice:
        """Registers and memory of the lanes, where they are. Raises UsageError."""

    def copied(self, array: Any) -> Any:
        """A copy of what lanes are to begin with."""

    def on_host(self, job: Job) -> Job:
        """The job with all that lanes begin with in the host's memory."""

    def run(self, job: Job, plan: Plan, breakpoints: Set[int], threads: int) -> None:
        """Run all lanes that have not ended, until `job.cancel`, and fill the job's outputs.

        Lanes in `job.again` were at a breakpoint that is no more. `threads` share what the CPU does.
        """


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
