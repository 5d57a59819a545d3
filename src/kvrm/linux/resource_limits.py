"""What a process may use before it sets limits of its own."""

from __future__ import annotations

from typing import Final

from kvrm.linux import abi
from kvrm.linux.loader import STACK_SIZE

_LIMITS: Final = {
    abi.RLIMIT_STACK: (STACK_SIZE, abi.RLIM_INFINITY),
    abi.RLIMIT_CORE: (0, abi.RLIM_INFINITY),
    abi.RLIMIT_NPROC: (1024, 1024),
    abi.RLIMIT_NOFILE: (1024, 4096),
    abi.RLIMIT_MEMLOCK: (8 << 20, 8 << 20),
    abi.RLIMIT_SIGPENDING: (1024, 1024),
    abi.RLIMIT_MSGQUEUE: (819200, 819200),
    abi.RLIMIT_NICE: (0, 0),
    abi.RLIMIT_RTPRIO: (0, 0),
}


def initial_limit(resource: int) -> tuple[int, int]:
    """Soft and hard limit of a resource (RLIMIT_...), as a login on Linux has them."""
    return _LIMITS.get(resource, (abi.RLIM_INFINITY, abi.RLIM_INFINITY))
