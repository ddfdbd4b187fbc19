"""Headers follow a record's own only where they are read: the owner in table topics, the origin in internal
ones."""

from __future__ import annotations

import pytest

from tidegate import App, TableTopic, Topic
from tidegate.log.reads import read_between
from tidegate.log.records import rows_of
from tidegate.runtime.output.origin import ORIGIN, OWNER, origin_of
from tidegate.testing import Driver
from tidegate.types import TopicPartition

LINES = Topic("lines", str, key=str)
PASSED = Topic("passed", str, key=str)
COUNTS = TableTopic("counts", int, key=str)
OWN = ("source", b"web")
WHOLE = 200
"""So many records are processed as one batch."""


def shop() -> App:
    app = App("shop")
    lines = app.stream(LINES)
    lines.to(PASSED)
    lines.group_by("by-first", lambda line: line[:1]).count("counted").to(COUNTS)
    return app


def headers(driver: Driver, topic: str) -> list[list[str]]:
    partition = TopicPartition(topic, 0)
    batches = read_between(driver.log, partition, 0, driver.log.ends([partition])[partition])
    rows = [row for batch in batches for row in rows_of(batch) if row.key is not None]
    return [[name for name, _ in row.headers] for row in rows]


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("own", [(), (OWN,)])
def test_each_kind_of_topic_has_the_header_that_is_read(
    batches: bool, own: tuple[tuple[str, bytes], ...]
) -> None:
    names = [name for name, _ in own]
    with Driver(shop(), batches=batches) as driver:
        driver.send(LINES, "ada", *(["hello"] * WHOLE), headers=own)
        driver.run()
        assert headers(driver, "passed") == [names] * WHOLE
        assert headers(driver, "counts") == [[*names, OWNER]] * WHOLE
        assert headers(driver, "shop-by-first-repartition") == [[*names, ORIGIN]] * WHOLE
        assert headers(driver, "shop-counted-changelog") == [[]]


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("own", [(), (OWN,)])
def test_sinks_name_the_origin_if_that_is_set(batches: bool, own: tuple[tuple[str, bytes], ...]) -> None:
    names = [name for name, _ in own]
    with Driver(shop(), batches=batches, origin_headers=True) as driver:
        driver.send(LINES, "ada", *(["hello"] * WHOLE), headers=own)
        driver.run()
        assert headers(driver, "passed") == [[*names, ORIGIN]] * WHOLE
        assert headers(driver, "counts") == [[*names, OWNER, ORIGIN]] * WHOLE
        [batch] = read_between(driver.log, TopicPartition("passed", 0), 0, WHOLE)
        origins = [origin_of(row.headers) for row in rows_of(batch)]
        assert [one.position for one in origins if one] == [f"lines/0/{n}" for n in range(WHOLE)]


def test_rows_with_both_headers_of_earlier_versions_are_still_owned() -> None:
    with Driver(shop(), origin_headers=True) as driver:
        driver.send(LINES, "ada", "hello", "hi")
        driver.run()
        before = driver.log.ends([TopicPartition("counts", 0)])
        changed = App("shop")
        lines = changed.stream(LINES)
        lines.to(PASSED)
        lines.group_by("by-first", lambda line: line[:2]).count("counted").to(COUNTS)
        driver.upgrade(changed)
        assert driver.rows(COUNTS) == {"he": 1, "hi": 1}
        assert driver.log.ends([TopicPartition("counts", 0)]) != before
