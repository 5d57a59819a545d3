"""Why a lane stopped: numbers, stops and what derives from them."""

from __future__ import annotations

import pickle

import pytest

from kvrm.backend.cpu.table import NOT_AN_END
from kvrm.backend.cpu.worker import ENDS as CPU_ENDS
from kvrm.backend.gpu.runner import ENDS as GPU_ENDS
from kvrm.lane.stops import STOPS, Reason, Stop
from kvrm.linux import Exited, Killed, Stopped


def test_a_byte_has_room_for_every_reason_and_stop() -> None:
    assert {int(reason) for reason in Reason} == set(range(1, len(Reason) + 1))
    assert len(STOPS) < len(Reason) < NOT_AN_END


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_is_its_number(reason: Reason) -> None:
    assert Reason(int(reason)) is reason is pickle.loads(pickle.dumps(reason))


def test_what_targets_end_lanes_by_has_a_stop() -> None:
    for ends in CPU_ENDS, GPU_ENDS:
        stops = [reason.stop for reason in ends]
        assert None not in stops and len(set(stops)) == len(stops)


def test_every_stop_but_those_of_a_run_and_of_linux_has_a_reason() -> None:
    linux = {end.stop for end in (Exited, Killed, Stopped)}
    assert linux == {Stop.EXIT, Stop.SIGNAL, Stop.SYSCALL}
    assert set(STOPS) - {reason.stop for reason in Reason} == {Stop.SIGNAL, Stop.CANCELLED}
