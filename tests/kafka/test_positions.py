"""Where an app continues on Kafka depends on its positions alone, whatever becomes of topics, groups and
others' transactions."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from tests.kafka.conftest import OpenLog
from tests.kafka.load import KEPT_COUNTS, rises_by_one
from tests.runtime.fleet import LINES, Fleet, expected, send
from tests.waiting import HANG_SECONDS, wait_for

from tidegate.errors import LogError
from tidegate.log import names
from tidegate.log.positions import Position, TaskId, position_row, positions_topic, read_positions
from tidegate.log.records import to_batch
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.testing.broker import KafkaCluster
from tidegate.types import Offset, TopicPartition

TASK = TaskId("totals", 1, 0, 0)
POSITIONS = TopicPartition(names.positions("shop"), 0)


def test_an_open_transaction_in_front_of_a_position_is_waited_for(open_own: OpenLog) -> None:
    """A slot starts again while another one's transaction is open: what is committed behind it counts."""
    log = open_own()
    log.create(positions_topic("shop"))
    with closing(log.writer("other")) as other, closing(log.writer("mine")) as mine:
        other.append(POSITIONS, to_batch([position_row(TaskId("totals", 1, 0, 1), Position(), 1)]))
        other.flush([POSITIONS])
        mine.append(POSITIONS, to_batch([position_row(TASK, Position(sources={"in": {0: 7}}), 1)]))
        mine.commit()
        found: list[dict[TaskId, Position]] = []
        reading = threading.Thread(target=lambda: found.append(read_positions(log, "shop")))
        reading.start()
        reading.join(1.5)
        assert reading.is_alive(), "an older position would be read, and records repeated"
        other.abort()
        reading.join(HANG_SECONDS)
        assert found == [{TASK: Position(sources={"in": {0: 7}})}]


def test_a_group_shows_where_the_app_stands_and_the_app_does_not_need_it(
    fleet: Fleet, kafka: KafkaCluster, prefix: str
) -> None:
    fleet.log.create(KEPT_COUNTS)
    send(fleet, 0, 30)
    fleet.catch_up()
    admin, group = AdminClient({"bootstrap.servers": kafka.bootstrap}), f"{prefix}wordcount"
    partitions = [TopicPartition(LINES.name, number) for number in range(3)]
    ends = {
        f"{prefix}{LINES.name}": {one.partition: int(end) for one, end in fleet.log.ends(partitions).items()}
    }
    wait_for(lambda: offsets_of(admin, group).get(f"{prefix}{LINES.name}") == ends[f"{prefix}{LINES.name}"])
    admin.delete_consumer_groups([group])[group].result()
    send(fleet, 30, 30)
    fleet.catch_up()
    assert fleet.counts() == expected(60)
    assert rises_by_one(fleet)


def offsets_of(admin: AdminClient, group: str) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    reported = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
    for place in reported.topic_partitions:
        found.setdefault(place.topic, {})[place.partition] = place.offset
    return found


def test_retention_that_passes_a_position_is_an_error_by_name(fleet: Fleet) -> None:
    send(fleet, 0, 30)
    fleet.catch_up()
    send(fleet, 30, 30)
    for number in range(3):
        partition = TopicPartition(LINES.name, number)
        fleet.log.purge(partition, Offset(fleet.log.ends([partition])[partition]))
    send(fleet, 60, 30)
    driver, _ = fleet.driver(until_caught_up=True)
    with pytest.raises(LogError, match=LINES.name) as error:
        driver.run()
    assert error.value.code == "offset-out-of-range"


def test_a_recreated_source_is_refused_by_name(fleet: Fleet) -> None:
    """Also where it holds as many records again: the offsets would fit."""
    send(fleet, 0, 30)
    fleet.catch_up()
    fleet.log.delete(LINES.name)
    fleet.log.create(TopicSpec(LINES.name, 3))
    send(fleet, 0, 60)
    driver, _ = fleet.driver(until_caught_up=True)
    with pytest.raises(LogError, match=LINES.name) as error:
        driver.run()
    assert error.value.code == "topic-recreated"


def test_a_source_that_is_recreated_under_a_running_app_ends_it_by_name(fleet: Fleet, tmp_path: Path) -> None:
    send(fleet, 0, 30)
    with fleet.running() as (driver, _):
        wait_for(lambda: fleet.counts() == expected(30), every=0.2)
        fleet.log.delete(LINES.name)
        fleet.log.create(TopicSpec(LINES.name, 3))
        wait_for(lambda: driver.state is DriverState.FAILED)
    assert driver.error is not None
    assert driver.error.code in ("topic-recreated", "no-such-topic")
