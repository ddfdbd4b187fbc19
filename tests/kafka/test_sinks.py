"""A sink on a real broker: positions skip the markers of transactions, and a recreated topic is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kafka.conftest import OpenLog
from tests.models.app import EVENTS, Closed, Started, StepDone
from tests.sinks.app import TOTALS, Total, shop
from tests.sinks.copies import Copies
from tests.sinks.test_exactly_once import crash

from tidegate.testing import Driver
from tidegate.testing.faults import Commit


@pytest.mark.parametrize("step", ["sink.3", "sink.7"])
def test_the_database_is_the_fold_of_the_topics(open_own: OpenLog, tmp_path: Path, step: str) -> None:
    log = open_own()
    with Driver(shop(), log=log, partitions=2) as d:
        copies = Copies(d, {"url": f"sqlite:///{tmp_path}/copies.db"})
        d.send(EVENTS, "w1", Started("Ship"), StepDone("pack", 1.0))
        d.send(TOTALS, "ada", Total(1), Total(2))
        d.crash(Commit.LOG, elsewhere=True)
        d.run()
        assert crash(copies, step, 1)
        copies.catch_up()
        copies.check()
        d.send(EVENTS, "w1", Closed())
        d.send(TOTALS, "ada", None)
        d.run()
        sink = copies.catch_up()
        copies.check()
        assert sink.counts.records == 2
        assert copies.catch_up().counts.records == 0
        log.delete(TOTALS.name)
        d.send(TOTALS, "bob", Total(1))
        copies.catch_up()
        assert [row["key"] for row in copies.rows("customer_totals")] == ["bob"]
        copies.close()
