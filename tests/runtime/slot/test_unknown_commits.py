"""A slot whose commit was not answered opens again and goes on from the positions, whatever the log did."""

from __future__ import annotations

import threading

import pytest
from tests.runtime.fleet import Fleet, expected, send

from tidegate.errors import LogError
from tidegate.log import faultpoints


class OneCommitOfASlot:
    """Fails once, at a step of the log's commit, where a slot commits its tasks."""

    def __init__(self, point: str, code: str) -> None:
        self._point = point
        self._code = code
        self._committing: set[int] = set()
        self.raised = 0

    def __call__(self, point: str) -> None:
        thread = threading.get_ident()
        if point == "commit.5":
            self._committing.add(thread)
        elif point == self._point and thread in self._committing and not self.raised:
            self.raised += 1
            raise LogError(self._code, "no answer", "read the positions")
        elif point == "commit.6":
            self._committing.discard(thread)


@pytest.mark.parametrize("point", ["log.commit.7", "log.commit.8"], ids=["not there", "there"])
@pytest.mark.parametrize("code", ["commit-unknown", "offset-unknown"])
def test_after_an_unknown_commit_every_word_is_counted_once_and_no_job_fails(
    fleet: Fleet, point: str, code: str
) -> None:
    send(fleet, 0, 40)
    fault = OneCommitOfASlot(point, code)
    driver, launcher = fleet.driver(until_caught_up=True)
    with faultpoints.installed(fault):
        driver.run()
    assert fault.raised == 1
    assert fleet.counts() == expected(40)
    assert not driver.overview.failures
    assert len(launcher.launched) == 2, "each slot was started once"
    assert code in [warned.code for warned in driver.overview.warnings]


@pytest.mark.parametrize("point", ["log.commit.7", "log.commit.8"])
def test_a_driver_writes_an_attempt_again_that_may_be_there(fleet: Fleet, point: str) -> None:
    send(fleet, 0, 10)
    driver, launcher = fleet.driver(until_caught_up=True)
    raised: list[str] = []

    def fail_once(reached: str) -> None:
        in_slot = threading.current_thread().name.startswith("tidegate-slot-")
        if reached == point and in_slot and not launcher.launched and not raised:
            raised.append(reached)
            raise LogError("commit-unknown", "no answer", "read the positions")

    with faultpoints.installed(fail_once):
        driver.run()
    assert raised == [point]
    assert fleet.counts() == expected(10)
