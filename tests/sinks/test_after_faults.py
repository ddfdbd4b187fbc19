"""Row == fold of the events topic == row in the database, after a crash of the task and of the sink."""

from __future__ import annotations

import pytest
from tests.models.app import EVENTS, Closed, Started, StepDone
from tests.models.checks import assert_rows_are_the_fold
from tests.sinks.app import shop
from tests.sinks.conftest import MakeCopies
from tests.sinks.test_exactly_once import crash

from tidegate.testing import Commit, Driver


@pytest.mark.parametrize("step", list(Commit))
def test_rows_of_log_and_database_are_the_fold_of_the_events(copies_of: MakeCopies, step: Commit) -> None:
    with Driver(shop(), partitions=2) as d:
        copies = copies_of(d)
        d.send(EVENTS, "w1", Started("Ship"), StepDone("pack", 1.0))
        d.send(EVENTS, "w2", Started("Second"))
        d.run()
        copies.catch_up(tables=[])
        d.send(EVENTS, "w1", StepDone("send", 2.0), Closed(), Started("Again"))
        d.send(EVENTS, "w2", Closed())
        d.crash(step)
        d.run()
        assert crash(copies, "sink.6", 1, tables=[])
        copies.catch_up()
        copies.check()
        assert_rows_are_the_fold(d.model("workflows"))
