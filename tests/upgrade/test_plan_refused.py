"""What no plan can be made of: refused by name, and nothing is written."""

from __future__ import annotations

import msgspec
import pytest
from tests.upgrade.planned import (
    PHONE,
    plain,
    planned,
    ran,
    seen,
    shop,
)

from tidegate import App, ConfigError, LogError, TableTopic, TidegateError, Topic, UpgradeError
from tidegate.clock import ManualClock
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.topics.control import manifest_key, read_control
from tidegate.types import TopicPartition
from tidegate.upgrade.make_plan import make_plan


def refused(log: SqliteLog, app: App) -> str:
    return refusal(log, app).code


def refusal(log: SqliteLog, app: App) -> TidegateError:
    before = seen(log)
    with pytest.raises((ConfigError, LogError, UpgradeError)) as caught:
        make_plan(log, app.build(), ManualClock())
    assert seen(log) == before
    assert caught.value.hint
    return caught.value


def test_a_source_that_is_gone_is_refused(log: SqliteLog) -> None:
    ran(log, plain(), ada=[1])
    log.delete("orders")
    assert refused(log, plain()) == "no-such-topic"
    assert refused(log, shop()) == "no-such-topic"


def test_another_partition_count_is_refused(log: SqliteLog) -> None:
    ran(log, plain(), ada=[1])
    log.delete("orders")
    log.create(TopicSpec("orders", 3))
    assert refused(log, plain()) == "partitions-changed"
    assert refused(log, plain(filtered=True)) == "partitions-changed"


def test_another_partition_count_of_an_output_is_refused(log: SqliteLog) -> None:
    ran(log, plain(), ada=[1])
    log.delete("totals")
    log.create(TopicSpec("totals", 3, {"cleanup.policy": "compact"}))
    for app in (plain(), plain(filtered=True)):
        error = refusal(log, app)
        assert error.code == "partitions-changed"
        assert "'totals' has 3 partitions, and had 2" in error.message
        assert "write to a topic of another name" in error.hint
        assert "tidegate reset shop" in error.hint


def test_an_output_that_is_gone_from_the_app_may_have_any_partition_count(log: SqliteLog) -> None:
    ran(log, plain(), ada=[1])
    log.delete("totals")
    log.create(TopicSpec("totals", 3, {"cleanup.policy": "compact"}))
    plan = planned(log, plain(table=TableTopic("new-totals", int)))
    assert plan.state == "changes"


@pytest.mark.parametrize("filtered", [False, True])
def test_an_output_that_is_declared_with_another_partition_count_is_refused(
    log: SqliteLog, filtered: bool
) -> None:
    ran(log, plain(), ada=[1])
    error = refusal(log, plain(filtered, TableTopic("totals", int, partitions=3)))
    assert error.code == "partition-count"
    assert "'totals' has 2 partitions, but 3 were requested" in error.message


def test_an_output_that_became_a_topic_of_events_is_refused(log: SqliteLog) -> None:
    ran(log, plain(), ada=[1])
    log.delete("totals")
    log.create(TopicSpec("totals", 2, {"cleanup.policy": "delete"}))
    assert refused(log, plain()) == "other-policy"


def test_a_first_start_with_a_topic_that_does_not_fit_is_refused(log: SqliteLog) -> None:
    log.create(TopicSpec("orders", 2))
    log.create(TopicSpec("totals", 2, {"cleanup.policy": "compact"}))
    assert refused(log, plain(table=TableTopic("totals", int, partitions=3))) == "partition-count"


def with_manifest(log: SqliteLog, data: bytes) -> None:
    row = Row(manifest_key(1).encode(), data, 0)
    log.append(TopicPartition("shop-control", 0), to_batch([row]))


def test_a_manifest_of_a_newer_version_is_refused(log: SqliteLog) -> None:
    ran(log, plain(), ada=[1])
    raw = msgspec.json.decode(read_control(log, "shop").entries["manifest/1"])
    with_manifest(log, msgspec.json.encode({**raw, "format": 99}))
    assert refused(log, plain()) == "newer-manifest"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"format":2}', b'{"format":"x"}'])
def test_a_damaged_manifest_is_refused(log: SqliteLog, data: bytes) -> None:
    ran(log, plain(), ada=[1])
    with_manifest(log, data)
    assert refused(log, plain()) == "bad-control"


def test_another_app_of_the_same_id_is_refused(log: SqliteLog) -> None:
    ran(log, plain(), ada=[1])
    other = App("shop")
    other.stream(PHONE).to(Topic("elsewhere", int))
    log.create(TopicSpec("phone-orders", 2))
    assert refused(log, other) == "id-taken"
