"""What stands for operations of a lane (`kvrm.linux.resident.lane_view.Lane`) wherever it is words."""

from __future__ import annotations

from kvrm.linux.resident.descriptors import descriptor, lowest, refer
from kvrm.linux.resident.lane_view import Lane
from kvrm.linux.resident.layout import ACTION_BYTES, ACTION_WORDS, ACTIONS, ACTIONS_BYTES, Fixed, Word
from kvrm.staging.host import load, store
from kvrm.staging.operations import Operations, standing_for


def own_action(lane: Lane, signal: int) -> int:
    """Where the lane's own action on a signal is, if it has set one."""
    return lane.part(lane.fixed(Fixed.OWN_ACTIONS), ACTIONS_BYTES, ACTION_BYTES * (signal - 1))


def get_action(lane: Lane, signal: int, to: int) -> int:
    """The lane's own, or that which lanes begin with."""
    found = lane.place(ACTIONS) + ACTION_BYTES * (signal - 1)
    if lane.word(Word.OWN_ACTIONS) >> (signal - 1) & 1:
        found = own_action(lane, signal)
    return copy_action(found, to)


def set_action(lane: Lane, signal: int, action: int) -> int:
    """From now on the lane's own."""
    lane.put(Word.OWN_ACTIONS, lane.word(Word.OWN_ACTIONS) | 1 << (signal - 1))
    return copy_action(action, own_action(lane, signal))


def copy_action(source: int, to: int) -> int:
    """Have the same action at another address."""
    for i in range(ACTION_WORDS):
        store(to + 8 * i, load(source + 8 * i))
    return to


OPERATIONS: Operations = standing_for(Lane, descriptor, lowest, refer, get_action, set_action)
