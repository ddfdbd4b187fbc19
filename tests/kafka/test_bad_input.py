"""Wrong addresses, settings and records on Kafka: a clear error, and nothing shown that is secret."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.kafka.clients import configure
from tests.kafka.conftest import OpenLog
from tests.runtime.fleet import Fleet
from tests.waiting import wait_for

from tidegate import App, Record, Topic
from tidegate.clock import ManualClock
from tidegate.errors import ConfigError, LogError
from tidegate.log import names
from tidegate.log.kafka.log import KafkaLog
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import LATEST_TIMESTAMP, TopicSpec
from tidegate.testing import Driver
from tidegate.testing.broker import KafkaCluster
from tidegate.testing.broker.ports import free_ports
from tidegate.testing.conformance.bench import read_all, row, values
from tidegate.types import TopicPartition

CANARY = "hunter2-and-nobody-else"
EVENTS, COPIES = Topic("events", str), Topic("copies", str)


def client_threads() -> set[str]:
    """Of all clients of this process, by their ids: each client has one of this name."""
    names = {path.parent.name: path.read_text() for path in Path("/proc/self/task").glob("*/comm")}
    return {thread for thread, name in names.items() if name == "rdk:main\n"}


def test_a_wrong_address_is_reported_within_seconds_and_leaves_no_client_behind() -> None:
    before = client_threads()
    address = f"127.0.0.1:{free_ports(1)[0]}"
    began = time.monotonic()
    with pytest.raises(LogError, match=address) as error:
        open_log(LogLocation(f"kafka://{address}"))
    assert error.value.code == "log-unreachable"
    assert "refused" in error.value.message
    assert error.value.retryable
    assert time.monotonic() - began < 60, "clients of Kafka look for a broker for as long as they live"
    wait_for(lambda: client_threads() <= before)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"no.such.setting": CANARY}, "no.such.setting"),
        ({"security.protocol": CANARY}, "security.protocol"),
        ({"isolation.level": "read_uncommitted"}, "isolation.level"),
        ({"producer": {"transactional.id": "mine"}}, "transactional.id"),
        ({"consumer": {"enable.auto.commit": True}}, "enable.auto.commit"),
        ({"ssl": {"password": CANARY}}, "ssl"),
        ({"topics": {"replication.factor": "many"}}, "replication.factor"),
        ({"bootstrap.servers": "another:9092"}, "bootstrap.servers"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_and_its_value_is_not(
    settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError) as error:
        KafkaLog("127.0.0.1:1", settings)
    assert error.value.code == "bad-setting"
    assert named in error.value.message
    assert CANARY not in str(error.value)


def test_settings_are_not_shown_where_a_log_is_named() -> None:
    place = LogLocation("kafka://a:1", kafka={"sasl.password": CANARY, "sasl.username": "me"})
    assert CANARY not in repr(place)
    assert "sasl.password" in repr(place)


@pytest.mark.parametrize(
    ("bad", "code"), [(row(b"k", b"x" * 900), "record-too-large"), (row(b"k", b"v", -5), "bad-timestamp")]
)
def test_a_record_that_the_topic_does_not_take_is_refused_before_it_is_sent(
    open_own: OpenLog, bad: Row, code: str
) -> None:
    log = open_own()
    log.create(TopicSpec("small", 1, {"max.message.bytes": "800"}))
    partition = TopicPartition("small", 0)
    with closing(log.writer("slot")) as writer:
        with pytest.raises(LogError) as error:
            writer.append(partition, to_batch([bad]))
        assert error.value.code == code
        writer.append(partition, to_batch([row(b"k", b"x" * 300)] * 5))
        writer.commit()
    assert values(read_all(log, partition)) == [b"x" * 300] * 5, "no more is joined than the broker takes"


def test_a_time_that_the_sink_does_not_take_meets_the_policy_and_does_not_loop(open_own: OpenLog) -> None:
    """A broker refuses times more than an hour ahead, and with one record the whole transaction."""
    app = App("late")

    def far_ahead(record: Record[str, str]) -> Record[str, str]:
        return Record(
            record.key, record.value, LATEST_TIMESTAMP if record.value == "far" else record.timestamp
        )

    app.stream(EVENTS).map_records(far_ahead).to(COPIES)
    log = open_own()
    log.create(TopicSpec(EVENTS.name, 1, {"message.timestamp.after.max.ms": str(2**63 - 1)}))
    with Driver(app, log=log, on_error="dead-letter", clock=ManualClock(1_000)) as driver:
        driver.send(EVENTS, "k", "before", "far", "behind", timestamp=1_000)
        driver.run()
        assert driver.values(COPIES) == ["before", "behind"]
        assert [letter.value for letter in driver.dead_letters()] == [b"far"]


def test_a_host_whose_clock_is_ahead_is_warned_and_loses_nothing(open_own: OpenLog) -> None:
    """The check before the append goes by this host's clock; the broker has its own."""
    ahead = ManualClock(int(time.time() * 1000) + 10 * 3_600_000)
    log = open_own(clock=ahead)
    log.create(TopicSpec("out"))
    partition = TopicPartition("out", 0)
    writer = log.writer("slot")
    writer.append(partition, to_batch([row(b"k", b"v", ahead.now())]))
    with pytest.raises(LogError, match="clocks") as error:
        writer.commit()
    assert error.value.code == "bad-timestamp"
    assert read_all(log, partition) == []


def test_a_record_that_only_the_broker_refuses_meets_its_policy_alone(
    kafka: KafkaCluster, open_own: OpenLog, tmp_path: Path
) -> None:
    """The topic was made stricter while the app runs: its own check still passes, and the broker refuses the
    transaction without a word on which record it was."""
    app = App("late")

    def far_ahead(record: Record[str, str]) -> Record[str, str]:
        ahead = LATEST_TIMESTAMP if record.value in {"7", "300"} else record.timestamp
        return Record(record.key, record.value, ahead)

    app.stream(EVENTS, on_error="dead-letter").map_records(far_ahead).to(COPIES)
    log = open_own()
    log.create(TopicSpec(COPIES.name, 1, {"message.timestamp.after.max.ms": str(2**63 - 1)}))
    fleet = Fleet(log, tmp_path, lambda: app)
    fleet.connection.send(EVENTS, "k", "first")
    with fleet.running(1) as (driver, _):
        copies = TopicPartition(COPIES.name, 0)
        wait_for(lambda: values(read_all(log, copies)) == [b"first"])
        stricter = {"message.timestamp.after.max.ms": "3600000"}
        configure(kafka.bootstrap, log.prefixed(copies).topic, stricter)
        fleet.connection.send(EVENTS, "k", *map(str, range(500)))
        wait_for(lambda: values(read_all(log, copies))[-1:] == [b"499"])
        passed = [int(value) for value in values(read_all(log, copies))[1:] if value is not None]
        assert passed == [number for number in range(500) if number not in {7, 300}]
        letters = TopicPartition(names.dead_letters("late"), 0)
        found = [
            value
            for number in range(log.describe(letters.topic).partitions)
            for value in values(read_all(log, TopicPartition(letters.topic, number)))
        ]
        assert found == [b"7", b"300"]
        wait_for(lambda: "bad-timestamp" in [warning.code for warning in driver.overview.warnings])
        assert not driver.overview.failures, "the slot's job went on"
