"""Partitions that are added to a source are read, in a run and after a restart, or refused by name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from tests.kafka.conftest import OpenLog
from tests.kafka.load import rises_by_one
from tests.runtime.fleet import COUNTS, LINES, QUICK, Fleet, expected, send
from tests.waiting import wait_for

from tidegate import App, ConfigError
from tidegate.log.positions import read_positions
from tidegate.log.records import Row, to_batch
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.runtime.topics.control import ROLE, read_control
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.testing.broker import KafkaCluster
from tidegate.types import TopicPartition

APP = "wordcount"
WATCHFUL = replace(QUICK, look_for_partitions_seconds=0.3)


def add_partitions(kafka: KafkaCluster, prefix: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    topic = f"{prefix}{LINES.name}"
    admin.create_partitions([NewPartitions(topic, count)])[topic].result()


def write_to(open_own: OpenLog, partition: int, lines: int) -> None:
    """As a producer does that begins when the partitions were added."""
    rows = [Row(b"k", b"new", 1) for _ in range(lines)]
    open_own().append(TopicPartition(LINES.name, partition), to_batch(rows))


def test_partitions_added_while_the_app_runs_are_read_under_a_new_plan(
    fleet: Fleet, open_own: OpenLog, kafka: KafkaCluster, prefix: str
) -> None:
    send(fleet, 0, 30)
    driver, _ = fleet.driver(patience=WATCHFUL)
    with fleet.during(driver):
        wait_for(lambda: fleet.counts() == expected(30), every=0.2)
        add_partitions(kafka, prefix, 5)
        wait_for(lambda: driver.epoch == 2 and driver.state is DriverState.RUNNING)
        write_to(open_own, 3, 4)
        write_to(open_own, 4, 3)
        wait_for(lambda: fleet.counts() == {**expected(30), "new": 7}, every=0.2)
        assert "partitions-added" in {warned.code for warned in driver.overview.warnings}
    manifest = find_manifest(fleet.log, APP)
    assert manifest is not None
    assert (manifest.sources, manifest.internal_partitions) == ({LINES.name: 5}, {"by-word": 3})
    write_to(open_own, 4, 1)
    fleet.catch_up()
    assert fleet.counts() == {**expected(30), "new": 8}
    assert rises_by_one(fleet)


def test_partitions_added_while_the_app_is_down_are_read_from_their_start(
    fleet: Fleet, open_own: OpenLog, kafka: KafkaCluster, prefix: str
) -> None:
    send(fleet, 0, 30)
    fleet.catch_up()
    add_partitions(kafka, prefix, 4)
    write_to(open_own, 3, 5)
    fleet.catch_up()
    assert fleet.counts() == {**expected(30), "new": 5}
    plan = read_control(fleet.log, APP).plan(ROLE)
    assert len([task for slot in plan.slots for task in slot.tasks]) == 4 + 3
    fleet.log.delete(f"{APP}-positions")
    driver, _ = fleet.driver(until_caught_up=True)
    with pytest.raises(Exception, match="positions-missing"):
        driver.run()


def counting_lines() -> App:
    app = App(APP)
    app.stream(LINES).count("counts").to(COUNTS)
    return app


def test_a_source_with_state_is_refused_while_the_app_runs_and_at_its_next_start(
    fleet: Fleet, open_own: OpenLog, kafka: KafkaCluster, prefix: str
) -> None:
    """Its keys have moved away from their rows. Nothing of the new partitions is counted."""
    fleet.app = counting_lines
    driver, _ = fleet.driver(patience=WATCHFUL)
    with fleet.during(driver):
        wait_for(lambda: fleet.counts() == {"warm": 1}, every=0.2)
        add_partitions(kafka, prefix, 5)
        write_to(open_own, 4, 3)
        wait_for(lambda: driver.state is DriverState.FAILED)
    assert driver.error is not None
    assert driver.error.code == "partitions-changed"
    with pytest.raises(ConfigError) as error:
        fleet.catch_up()
    assert (error.value.code, error.value.message) == (driver.error.code, driver.error.message)
    assert fleet.counts() == {"warm": 1}
    assert len(read_positions(fleet.log, APP)) == 3
