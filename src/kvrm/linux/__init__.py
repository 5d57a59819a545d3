"""Linux for one guest process: ELF programs, system calls, files, virtual time.

`Process` is what a machine uses. `syscall_table` lists every system call; the handlers are in `calls`, by
topic, and what they work on is in `files`.
"""

from kvrm.linux.outcome import Exited, Killed, Outcome, Stopped
from kvrm.linux.process import Process

__all__ = ["Exited", "Killed", "Outcome", "Process", "Stopped"]
