"""The decision of a gate, over everything that it can meet."""

from __future__ import annotations

from itertools import product

import pytest

from tidegate.gate.decide import (
    Decision,
    EventReceived,
    Known,
    StatusRequested,
    Tick,
    Triggered,
    decide,
    is_held,
    is_over,
)
from tidegate.gate.formats import GateState, InForce, RequestedStatus, StatusCause, Trigger

NOW = 100
STATES: list[GateState] = ["ACTIVE", "PAUSED"]
CAUSES: list[StatusCause] = ["status", "trigger"]
EPOCHS = range(4)
ENDS = (None, NOW - 1, NOW, NOW + 1)
STATUSES = [
    None,
    *(
        InForce(state, epoch, 0, "ada", "why", end, cause)
        for state, epoch, end, cause in product(STATES, EPOCHS, ENDS, CAUSES)
    ),
    *(InForce("ACTIVE", epoch, 0, cause="expiry") for epoch in EPOCHS),
    *(InForce("PAUSED", 3, 0, earlier=earlier) for earlier in ((0,), (1,), (0, 2))),
]


def lasts(status: InForce | None) -> bool:
    """Whether a pause is in force at NOW."""
    if status is None or status.state == "ACTIVE":
        return False
    return status.expires_at is None or status.expires_at > NOW


@pytest.mark.parametrize("own", STATUSES)
def test_a_key_is_held_by_its_own_or_a_gate_wide_pause_unless_it_was_resumed_later(
    own: InForce | None,
) -> None:
    for gate_wide in STATUSES:
        freed = (
            own is not None
            and own.state == "ACTIVE"
            and own.cause == "status"
            and gate_wide is not None
            and own.epoch >= gate_wide.epoch
        )
        expected = lasts(own) or (lasts(gate_wide) and not freed)
        assert is_held(Known(own, gate_wide), NOW) == expected
        for buffered in (False, True):
            found = decide(Known(own, gate_wide, buffered), EventReceived(), NOW)
            assert found is (Decision.HELD if expected or buffered else Decision.PASSES)


@pytest.mark.parametrize("own", STATUSES)
def test_a_requested_status_counts_if_it_is_newer(own: InForce | None) -> None:
    for state, epoch in product(STATES, EPOCHS):
        found = decide(Known(own), StatusRequested(RequestedStatus(state, "bob", "now", 7), epoch), NOW)
        if own is not None and own.epoch >= epoch:
            assert found is Decision.STALE
        else:
            earlier = () if own is None else (*own.earlier, own.epoch)
            assert found == InForce(state, epoch, NOW, "bob", "now", 7, "status", earlier)


@pytest.mark.parametrize("own", STATUSES)
def test_a_trigger_ends_the_pause_of_its_epoch_and_no_other(own: InForce | None) -> None:
    for epoch, read, more in product(EPOCHS, range(5), range(3)):
        found = decide(Known(own), Triggered(Trigger(epoch, "bob", "now"), read, read + more), NOW)
        if epoch >= read + more:
            assert found is Decision.BAD, "there is no such status"
        elif epoch >= read:
            assert found is Decision.NOT_YET
        elif own is None or epoch not in (own.epoch, *own.earlier):
            assert found is Decision.BAD, "the status of that offset was another key's"
        elif own.epoch == epoch and own.state == "PAUSED":
            assert found == InForce("ACTIVE", epoch, NOW, "bob", "now", None, "trigger", own.earlier)
        else:
            assert found is Decision.STALE


@pytest.mark.parametrize("own", STATUSES)
def test_time_ends_a_pause_once(own: InForce | None) -> None:
    found = decide(Known(own), Tick(), NOW)
    if own is None or not is_over(own, NOW):
        assert found is Decision.NOTHING
        return
    assert own.state == "PAUSED"
    assert not lasts(own)
    assert found == InForce("ACTIVE", own.epoch, NOW, own.actor, own.reason, None, "expiry", own.earlier)
    assert isinstance(found, InForce)
    assert decide(Known(found), Tick(), NOW + 1000) is Decision.NOTHING
