"""What a gate remembers does not grow with the events and commands that it has seen."""

from __future__ import annotations

import pytest
from tests.gate.app import EVENTS, PASSED, gated

from tidegate import App
from tidegate.gate import step
from tidegate.gate.formats import GATE_WIDE, InForce
from tidegate.gate.step import GateStep
from tidegate.runtime.task.timers import Timers
from tidegate.testing import Driver


def step_of(driver: Driver) -> GateStep:
    [found] = [gate.step for task in driver._tasks() for gate in task.gates.all]
    return found


def test_what_is_committed_is_not_kept_to_be_taken_back() -> None:
    """Records of a source that stops at errors are not begun one by one, so nothing else forgets it."""
    app = App("gated")
    app.stream(EVENTS).gate("door").to(PASSED)
    with Driver(app, partitions=1) as driver:
        driver.gate("door").pause("ada")
        driver.run()
        for _ in range(3):
            driver.send(EVENTS, "ada", *range(20))
            driver.run()
            assert step_of(driver)._undo == []
        assert step_of(driver).buffer.count == 60


@pytest.mark.parametrize("gate_wide", [False, True])
def test_ends_of_pauses_that_were_replaced_are_not_kept(
    gate_wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "SPARE", 10)  # sixty pauses exceed it
    with Driver(gated(), partitions=1) as driver:
        gate = driver.gate("door")
        now = driver.clock.now()
        gate.pause("bob", expires_at=now + 5000)
        for number in range(60):
            if gate_wide:
                gate.pause_all(expires_at=now + 10_000 - number)
            else:
                gate.pause("ada", expires_at=now + 10_000 - number)
            driver.run()
            assert len(step_of(driver)._ends) <= 2 * 2 + 10
        driver.send(EVENTS, "ada", 1)
        driver.send(EVENTS, "bob", 2)
        driver.run()
        assert driver.by_key(PASSED) == {}
        driver.advance(5000)
        driver.run()
        assert driver.by_key(PASSED) == ({} if gate_wide else {"bob": [2]})
        driver.advance(5000 - 59)
        driver.run()
        assert driver.by_key(PASSED) == {"ada": [1], "bob": [2]}


def test_the_end_of_a_pause_whose_replacement_is_taken_back_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "SPARE", -10)  # every chance to forget is taken
    with Driver(gated(), partitions=1) as driver:
        gate = driver.gate("door")
        now = driver.clock.now()
        gate.pause_all(expires_at=now + 1000)
        gate.pause("ada", expires_at=now + 500)
        driver.run()
        found = step_of(driver)
        before = sorted(set(found._ends))
        for key in (GATE_WIDE, b"ada"):
            found.begin_record()
            found._apply(key, InForce("PAUSED", 7, now, expires_at=now + 9000))
            assert sorted(set(found._ends)) != before
            found.roll_back()
            assert set(before) <= set(found._ends)


def test_timers_that_were_cancelled_are_not_kept() -> None:
    timers = Timers()
    for _ in range(50):
        timers.schedule(10, lambda _: None, "stream").cancel()
        timers.due(0, 0)
    assert (timers._scheduled_by_record, timers._stream) == ([], [])
