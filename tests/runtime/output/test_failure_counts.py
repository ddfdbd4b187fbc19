"""The position of a task counts the records that failed in it since its first start."""

from __future__ import annotations

import pytest
from tests.runtime.output.test_error_policies import IN, POLICIES, ROWS, refuse_three

from tidegate import App
from tidegate.log.positions import read_positions
from tidegate.runtime.replay import FAILED
from tidegate.testing.driver import Driver
from tidegate.topology.node import OnError

FAULTS = ("commit.1", "commit.3", "commit.5")


def summed(policy: OnError) -> App:
    app = App("errors")
    stream = (
        app.stream(IN, on_error=policy).map(refuse_three).group_by("by-parity", lambda value: str(value % 2))
    )
    stream.sum("sums", int).to(ROWS)
    return app


def failed(d: Driver) -> list[str]:
    """What positions record, of the tasks that record anything."""
    positions = read_positions(d.log, "errors").values()
    return [position.progress[FAILED] for position in positions if FAILED in position.progress]


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
def test_failures_are_counted_over_crashes_and_restarts_as_in_a_replay(
    policy: OnError, batches: bool
) -> None:
    with Driver(summed(policy), batches=batches, partitions=1) as d:
        d.send(IN, "ada", 1, 2)
        d.run()
        assert failed(d) == []
        d.send(IN, "ada", 3, 4, 3)
        d.run()
        assert failed(d) == ["2"]
        for number, point in enumerate(FAULTS):
            d.crash(point)
            d.send(IN, "ada", 3, 5)
            d.run()
            assert failed(d) == [str(3 + number)]
        d.stop()
        d.send(IN, "ada", 3, 3)
        d.run()
        assert failed(d) == ["7"]
        d.send(IN, "ada", 6)
        d.run()
        assert failed(d) == ["7"]
        assert d.preview(summed(policy)).failures == 7
