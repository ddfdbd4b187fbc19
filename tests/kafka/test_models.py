"""Models on Kafka: no version twice or left out, and requests have one effect, whatever crashes."""

from __future__ import annotations

import pytest
from tests.kafka.conftest import OpenLog
from tests.models.app import EVENTS, Closed, Started, StepDone, Workflow, workflows
from tests.models.checks import assert_rows_are_the_fold

from tidegate.testing import Driver


@pytest.mark.parametrize("point", ["commit.3", "commit.6", "log.commit.7"])
def test_rows_are_the_fold_of_the_events_after_a_crash(open_own: OpenLog, point: str) -> None:
    with Driver(workflows(on_error="skip"), log=open_own(), partitions=2) as d:
        model = d.model("workflows")
        d.send(EVENTS, "w1", Started("Ship"), StepDone("pack", -1.0), StepDone("pack", 1.0))
        d.run()
        d.send(EVENTS, "w1", StepDone("send", 2.0), Closed(), Started("Again"))
        for _ in range(2):
            model.create("w2", {"type": "started", "title": "Second"}, request="same")
        d.crash(point, elsewhere=True)
        d.run()
        model.create("w2", {"type": "started", "title": "Third"}, request="same")
        d.run()
        assert model.state("w1") == Workflow("Again")
        assert model.state("w2") == Workflow("Second")
        assert [(one.life, one.sequence) for one in model.events("w1")] == [
            *((1, sequence) for sequence in (1, 2, 3, 4)),
            (2, 1),
        ]
        assert [one.sequence for one in model.events("w2")] == [1]
        assert_rows_are_the_fold(model)
        d.assert_stores_match_changelogs()
