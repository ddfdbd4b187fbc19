"""While a partition is read again, readers never see an older version of a row, and none is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.sinks.app import TOTALS, Total, shop
from tests.sinks.conftest import MakeCopies
from tests.sinks.test_exactly_once import HOUR, crash

from tidegate.log import faultpoints
from tidegate.testing import Driver


@pytest.fixture
def d() -> Iterator[Driver]:
    with Driver(shop(), partitions=1) as made:
        yield made


def test_readers_never_see_an_older_version_while_the_topic_is_read_again(
    d: Driver, copies_of: MakeCopies
) -> None:
    copies = copies_of(d)
    d.send(TOTALS, "ada", Total(1), None, Total(2), Total(3))
    copies.catch_up(models=[])
    d.clock.advance(16 * 24 * HOUR)
    d.send(TOTALS, "bob", Total(1))
    seen = []

    def look(step: str) -> None:
        if step == "sink.7":
            seen.append({row["key"]: row["orders"] for row in copies.rows("customer_totals")}.get("ada"))

    with faultpoints.installed(look):
        copies.catch_up(models=[], batch=1)
    assert len(copies.noticed) == 2
    assert seen == [3] * 5
    assert {row["key"] for row in copies.rows("customer_totals")} == {"ada", "bob"}


def test_offsets_of_a_former_topic_do_not_keep_rows_of_the_new_one_out(
    d: Driver, copies_of: MakeCopies
) -> None:
    """The read of the recreated topic is interrupted for so long that it starts over."""
    copies = copies_of(d)
    d.send(TOTALS, "ada", *(Total(number) for number in range(9)))
    copies.catch_up(models=[])
    d.log.delete(TOTALS.name)
    d.send(TOTALS, "bob", Total(1))
    d.send(TOTALS, "ada", Total(77))
    assert crash(copies, "sink.7", 1, models=[], batch=1)
    d.clock.advance(16 * 24 * HOUR)
    copies.catch_up(models=[], batch=1)
    rows = {row["key"]: row["orders"] for row in copies.rows("customer_totals")}
    assert rows == {"ada": 77, "bob": 1}
