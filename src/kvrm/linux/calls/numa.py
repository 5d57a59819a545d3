"""Where memory lies, and barriers between processors: there is one node, and one processor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvrm.linux import abi
from kvrm.linux.calls.sched import require_process
from kvrm.linux.errno import Errno, Failure
from kvrm.linux.layout import DOUBLEWORD, INT
from kvrm.linux.page_ranges import page_range, parts, size_of
from kvrm.memory import PAGE, untagged

if TYPE_CHECKING:
    from kvrm.linux.process import Process

_MODE_FLAGS: Final = abi.MPOL_F_STATIC_NODES | abi.MPOL_F_RELATIVE_NODES
_WORD_BITS: Final = 64
_REGISTERED_BY: Final = {
    abi.MEMBARRIER_PRIVATE_EXPEDITED: abi.MEMBARRIER_REGISTER_PRIVATE_EXPEDITED,
    abi.MEMBARRIER_PRIVATE_EXPEDITED_SYNC_CORE: abi.MEMBARRIER_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE,
}

Policy = tuple[int, int]
"""Mode and set of nodes, bit n for node n."""
NO_POLICY: Final[Policy] = (abi.MPOL_DEFAULT, 0)


def get_mempolicy(process: Process, mode: int, nodes: int, count: int, address: int, flags: int) -> int:
    """The memory policy, the allowed nodes, or the node of an address: 0."""
    if (nodes and not count) or flags & ~(abi.MPOL_F_NODE | abi.MPOL_F_ADDR | abi.MPOL_F_MEMS_ALLOWED):
        raise Failure(Errno.EINVAL)
    found, mask = process.task.memory_policy
    of_node, of_address = flags & abi.MPOL_F_NODE, flags & abi.MPOL_F_ADDR
    if flags & abi.MPOL_F_MEMS_ALLOWED:
        if of_node or of_address:
            raise Failure(Errno.EINVAL)
        found, mask = 0, 1
    elif of_address:
        start = untagged(address) & -PAGE
        if not parts(process, start, start + PAGE):
            raise Failure(Errno.EFAULT)
        found, mask = NO_POLICY
    elif address or (of_node and found & ~_MODE_FLAGS != abi.MPOL_INTERLEAVE):
        raise Failure(Errno.EINVAL)
    if mode:
        process.memory.write(mode, INT.pack(0 if of_node else found))
    if nodes:
        size = (count - 1 + _WORD_BITS - 1) // _WORD_BITS * 8
        if size > PAGE:
            raise Failure(Errno.EINVAL)
        process.memory.write(nodes, DOUBLEWORD.pack(mask)[:size].ljust(size, b"\0"))
    return 0


def set_mempolicy(process: Process, mode: int, nodes: int, count: int) -> int:
    """Set the memory policy, which is given back."""
    process.task.memory_policy = _policy(process, mode, nodes, count)
    return 0


def mbind(process: Process, start: int, length: int, mode: int, nodes: int, count: int, flags: int) -> int:
    """Set the memory policy of a range: all of it lies on the one node anyhow."""
    _policy(process, mode, nodes, count)
    if flags & ~abi.MPOL_MF_VALID:
        raise Failure(Errno.EINVAL)
    if flags & abi.MPOL_MF_MOVE_ALL:
        raise Failure(Errno.EPERM)
    first, end = page_range(start, length, Errno.EFAULT)
    if size_of(parts(process, first, end)) != end - first:
        raise Failure(Errno.EFAULT)
    return 0


def migrate_pages(process: Process, pid: int, count: int, old: int, new: int) -> int:
    """Move pages to other nodes: there are none."""
    _nodes(process, old, count)
    wanted = _nodes(process, new, count)
    require_process(process, pid, change=True)
    if wanted & ~1:
        raise Failure(Errno.EPERM)
    return 0


def move_pages(
    process: Process, pid: int, count: int, pages: int, nodes: int, status: int, flags: int
) -> int:
    """Ask on which node pages are, or move them there: 0, or that nothing is mapped."""
    if flags & ~(abi.MPOL_MF_MOVE | abi.MPOL_MF_MOVE_ALL):
        raise Failure(Errno.EINVAL)
    if flags & abi.MPOL_MF_MOVE_ALL:
        raise Failure(Errno.EPERM)
    require_process(process, pid, change=True)
    memory = process.memory
    for n in range(count):
        address = untagged(DOUBLEWORD.unpack(memory.read(pages + 8 * n, 8))[0]) & -PAGE
        if nodes:
            node = INT.unpack(memory.read(nodes + 4 * n, 4))[0]
            if node != 0:
                raise Failure(Errno.ENODEV)
        found = parts(process, address, address + PAGE)
        absent = -Errno.EFAULT if not found else -Errno.ENOENT
        there = found and (found[0].backing or memory.private(address, address + PAGE))
        memory.write(status + 4 * n, INT.pack(0 if there else absent))
    return 0


def _policy(process: Process, mode: int, pointer: int, count: int) -> Policy:
    """A policy that there can be with one node; EINVAL if it is none."""
    kind, flags, nodes = mode & ~_MODE_FLAGS, mode & _MODE_FLAGS, _nodes(process, pointer, count)
    if not 0 <= kind <= abi.MPOL_PREFERRED_MANY or flags == _MODE_FLAGS:
        raise Failure(Errno.EINVAL)
    if kind == abi.MPOL_PREFERRED and not nodes:
        kind = abi.MPOL_LOCAL
    if kind == abi.MPOL_LOCAL and flags:
        raise Failure(Errno.EINVAL)
    if bool(nodes) == (kind in (abi.MPOL_DEFAULT, abi.MPOL_LOCAL)) or nodes & ~1:
        raise Failure(Errno.EINVAL)
    return (kind | flags, nodes) if nodes else (kind, 0)


def _nodes(process: Process, pointer: int, count: int) -> int:
    """The set of nodes at a guest address; `count` is one more than its bits, as in Linux."""
    bits = count - 1
    if bits <= 0 or not pointer:
        return 0
    if bits > PAGE * 8:
        raise Failure(Errno.EINVAL)
    size = (bits + _WORD_BITS - 1) // _WORD_BITS * 8
    return int.from_bytes(process.memory.read(pointer, size), "little") & (1 << bits) - 1


# Barriers


def membarrier(process: Process, command: int, flags: int, cpu: int) -> int:
    """Memory barriers on all threads: there is one. Those of a process must be registered."""
    if flags or command & ~abi.MEMBARRIER_ALL or command.bit_count() > 1:
        raise Failure(Errno.EINVAL)
    if command == abi.MEMBARRIER_QUERY:
        return abi.MEMBARRIER_ALL
    if command in _REGISTERED_BY and not process.barriers & _REGISTERED_BY[command]:
        raise Failure(Errno.EPERM)
    process.barriers |= command
    return 0
