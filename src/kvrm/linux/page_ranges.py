"""What the calls on memory share: ranges of pages, what is mapped in them, and how much more may be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.loader import MMAP_LOW, MMAP_TOP
from kvrm.memory import PAGE, VA_END, Mark, Prot, Region, page_up, untagged

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_U64: Final = (1 << 64) - 1
_REGIONS_LIMIT: Final = 65530


def page_range(address: int, length: int, wrapped: Errno = Errno.EINVAL) -> tuple[int, int]:
    """The pages of a range, its tag removed: EINVAL if it starts inside one, `wrapped` if it passes 2^64."""
    start = untagged(address)
    if start % PAGE:
        raise Failure(Errno.EINVAL)
    end = start + page_up(length)
    if end > _U64:
        raise Failure(wrapped)
    return start, end


def parts(process: Process, start: int, end: int) -> list[Region]:
    """What is mapped between two addresses, clipped to them."""
    return process.memory.between(start, min(end, VA_END)) if start < min(end, VA_END) else []


def require_pages(process: Process, start: int, end: int) -> None:
    """ENOMEM if a range has a hole."""
    if size_of(parts(process, start, end)) != end - start:
        raise Failure(Errno.ENOMEM)


def readable(process: Process, prot: int) -> Prot:
    """The permissions that a mapping gets: what can be written or executed can be read, without EPAN."""
    allowed = prot & abi.PROT_RWX
    if allowed & Prot.R and process.personality & abi.READ_IMPLIES_EXEC:
        allowed |= Prot.X
    return Prot(allowed | (Prot.R if allowed else 0))


def find_room(process: Process, length: int, hint: int = 0) -> int:
    """Where a mapping goes that may go anywhere; ENOMEM if there is no room."""
    found = process.memory.find_free(length, hint, low=MMAP_LOW, high=MMAP_TOP)
    if found is None:
        raise Failure(Errno.ENOMEM)
    return found


# What limits memory


def require_few(process: Process) -> None:
    """ENOMEM if there are as many mappings as there may be."""
    if len(process.memory.regions()) >= _REGIONS_LIMIT:
        raise Failure(Errno.ENOMEM)


def is_data(prot: int, marks: Mark) -> bool:
    """Whether RLIMIT_DATA counts a mapping: private memory that can be written, and no stack."""
    return bool(prot & Prot.W) and not marks & (Mark.SHARED | Mark.GROWSDOWN)


def size_of(regions: Iterable[Region]) -> int:
    """Bytes in regions."""
    return sum(region.end - region.start for region in regions)


def has_data_room(process: Process, more: int) -> bool:
    """Whether RLIMIT_DATA lets there be `more` bytes of data."""
    limit = process.limit(abi.RLIMIT_DATA)[0]
    if limit == abi.RLIM_INFINITY:
        return True
    return size_of(r for r in process.memory.regions() if is_data(r.prot, r.marks)) + more <= limit


def require_room(process: Process, more: int, prot: int, marks: Mark) -> None:
    """ENOMEM unless RLIMIT_AS and RLIMIT_DATA let `more` bytes be mapped with these permissions and marks."""
    limit = process.limit(abi.RLIMIT_AS)[0]
    if limit != abi.RLIM_INFINITY and size_of(process.memory.regions()) + more > limit:
        raise Failure(Errno.ENOMEM)
    if is_data(prot, marks) and not has_data_room(process, more):
        raise Failure(Errno.ENOMEM)


def require_growth(process: Process, more: int, prot: int, marks: Mark) -> None:
    """The same of memory that grows; EAGAIN where it is locked and RLIMIT_MEMLOCK does not let it."""
    if marks & Mark.LOCKED:
        require_lockable(process, more)
    require_room(process, more, prot, marks)


def locked_bytes(process: Process) -> int:
    """Bytes that are locked in memory."""
    return size_of(region for region in process.memory.regions() if region.marks & Mark.LOCKED)


def require_lockable(process: Process, more: int) -> None:
    """EAGAIN if RLIMIT_MEMLOCK does not let `more` bytes of new memory be locked."""
    if locked_bytes(process) + more > process.limit(abi.RLIMIT_MEMLOCK)[0]:
        raise Failure(Errno.EAGAIN)


def may_lock(process: Process) -> bool:
    """Whether a process may lock memory at all."""
    return process.limit(abi.RLIMIT_MEMLOCK)[0] != 0
