"""A task: what Linux keeps of one thread."""

from __future__ import annotations

from copy import copy
from typing import Final

from kvrm.lane.state import State
from kvrm.linux import abi
from kvrm.linux.calls.numa import NO_POLICY
from kvrm.linux.calls.sched import Scheduling
from kvrm.linux.calls.seccomp import Seccomp
from kvrm.linux.signals import Pending


class Task:
    """One thread of a process: its registers (`state`), and what is its own and not the process's.

    `blocked` is a mask of signals, `pending` are those sent to the task alone. `alternate_stack` is (address,
    flags, size) as sigaltstack has it. `robust_list` and `clear_tid` are guest addresses, 0 if not set.
    """

    SAVED: Final = (
        "name",
        "blocked",
        "alternate_stack",
        "robust_list",
        "clear_tid",
        "scheduling",
        "seccomp",
        "memory_policy",
    )
    LINKED: Final = ("pending",)

    def __init__(self, state: State, tid: int, name: bytes) -> None:
        self.state = state
        self.tid = tid
        self.name = name
        self.blocked = 0
        self.pending: Pending = Pending()
        self.alternate_stack: tuple[int, int, int] = (0, abi.SS_DISABLE, 0)
        self.robust_list = self.clear_tid = 0
        self.scheduling: Scheduling = Scheduling()
        self.seccomp: Seccomp = Seccomp()
        self.memory_policy = NO_POLICY

    def twin(self, state: State) -> Task:
        """The same with other registers, for a snapshot to be restored to."""
        other = copy(self)
        other.state = state
        return other
