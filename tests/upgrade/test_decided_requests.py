"""Requests that name the version which they must find: a recalculation does not decide on them again."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.upgrade.test_model_publication import DIFFS, app, first, live, publish, second

from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.models.row import ModelRow, Outcome, encode_row
from tidegate.runtime.decided_requests import DecidedRequests
from tidegate.testing import Driver
from tidegate.topology.entries import ModelEntry
from tidegate.types import Offset, TopicPartition

ENTRY = ModelEntry("shop-m-changelog", "shop-m-requests", "shop-m-events", 2, appendable=True, max_state=1)
__all__ = ["live"]


def without_noise(state: dict[str, int], diff: dict[str, int]) -> dict[str, int]:
    """Fewer diffs change the state, so versions have other numbers."""
    return {**state, **{key: value for key, value in diff.items() if key != "noise"}}


def recalculated(d: Driver, reducer: Any) -> dict[str, Any]:
    """The states of the ids that another reducer would change."""
    found = d.preview(app("shop", reducer))
    return {row.key.decode(): row.after and msgspec.json.decode(row.after) for row in found.rows("m")}


def test_a_request_that_was_accepted_is_accepted_again_and_a_refused_one_is_not() -> None:
    with Driver(app("shop", first), partitions=2) as d:
        d.send(DIFFS, "w", {"a": 1}, {"noise": 1})
        d.run()
        model = d.model("m")
        token = model.token("w")
        requests = [model.append("w", {f"from-{name}": 1}, expect=token) for name in ("ada", "bob")]
        d.run()
        requests.append(model.append("w", {"last": 1}, expect=model.token("w")))
        d.run()
        codes = [found.code for one in requests if (found := model.outcome("w", one)) is not None]
        assert codes == ["appended", "other-version", "appended"]
        assert recalculated(d, without_noise) == {"w": {"a": 1, "from-ada": 1, "last": 1}}


def test_a_request_after_a_correction_is_accepted_by_the_next_recalculation(live: Driver) -> None:
    live.stop()
    publish(live)
    live.run()
    model = live.model("m")
    assert model.row("changed").sequence == 3
    request = model.append("changed", {"paid": 1}, expect=model.token("changed"))
    removal = model.delete("same", expect=model.token("same"))
    live.run()
    outcomes = [model.outcome("changed", request), model.outcome("same", removal)]
    assert [found.code for found in outcomes if found is not None] == ["appended", "deleted"]
    differing = recalculated(live, second)
    assert not {"changed", "same"} & differing.keys(), "as published, with what was written since"
    assert recalculated(live, without_noise)["changed"] == {"x": 1, "a": 1, "b": 1, "paid": 1}


def appended(log: SqliteLog, *origins: str, partition: int = 0) -> None:
    rows = [Row(b"w", msgspec.json.encode({"id": "w", "origin": origin}), 1) for origin in origins]
    log.append(TopicPartition("shop-m-events", partition), to_batch(rows))


def test_events_that_are_added_are_read_and_those_of_other_records_do_not_count(log: SqliteLog) -> None:
    log.create(TopicSpec("shop-m-events", 2))
    decided = DecidedRequests(log, {"m": ENTRY})
    appended(log, "shop-m-requests/0/3", "diffs/0/4", "shop-m-requests/1/5", "-")
    assert [decided.accepted("m", 0, offset, "w", "r") for offset in (3, 4, 5, 6)] == [
        True,
        False,
        False,
        False,
    ]
    appended(log, "shop-m-requests/0/6")
    assert decided.accepted("m", 0, 6, "w", "r") is True
    assert decided.accepted("m", 1, 5, "w", "r") is False, (
        "the events of an id are in the partition of the id"
    )


def test_requests_older_than_the_events_are_not_known(log: SqliteLog) -> None:
    log.create(TopicSpec("shop-m-events", 2))
    appended(log, "shop-m-requests/0/3", "shop-m-requests/0/7")
    log.purge(TopicPartition("shop-m-events", 0), Offset(1))
    decided = DecidedRequests(log, {"m": ENTRY})
    assert [decided.accepted("m", 0, offset, "w", "r") for offset in (3, 7, 8)] == [None, True, False]


def test_without_an_events_topic_nothing_is_known(log: SqliteLog) -> None:
    assert DecidedRequests(log, {"m": ENTRY}).accepted("m", 0, 1, "w", "r") is None


def test_another_number_of_partitions_of_the_events_is_read_as_a_whole(log: SqliteLog) -> None:
    log.create(TopicSpec("shop-m-events", 3))
    appended(log, "shop-m-requests/0/3", partition=2)
    assert DecidedRequests(log, {"m": ENTRY}).accepted("m", 0, 3, "w", "r") is True


def test_an_accepted_request_without_effect_is_found_by_its_outcome(log: SqliteLog) -> None:
    for topic in ("shop-m-events", "shop-m-changelog"):
        log.create(TopicSpec(topic, 2))
    decided = DecidedRequests(log, {"m": ENTRY}, {"m": ENTRY})
    assert decided.accepted("m", 0, 3, "w", "r1") is False
    outcomes = (Outcome("r1", "", "unchanged"), Outcome("r2", "", "other-version"))
    row = Row(b"w", encode_row(ModelRow(outcomes=outcomes)), 1)
    log.append(TopicPartition("shop-m-changelog", 0), to_batch([row]))
    assert decided.accepted("m", 0, 3, "w", "r1") is True, "rows that were added are read"
    assert decided.accepted("m", 0, 4, "w", "r2") is False
    assert decided.accepted("m", 0, 5, "other", "r1") is False
