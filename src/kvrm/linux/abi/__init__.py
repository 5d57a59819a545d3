"""Constants of the Linux user interface on arm64 (the generic ABI: asm-generic/*.h and asm/*.h).

What does not depend on the architecture and is in Python's `stat` module (S_IFREG, ...) comes from there.
"""

from kvrm.linux.abi.fcntl import *  # noqa: F403
from kvrm.linux.abi.mman import *  # noqa: F403
from kvrm.linux.abi.sched import *  # noqa: F403
from kvrm.linux.abi.signal import *  # noqa: F403
from kvrm.linux.abi.socket import *  # noqa: F403
