"""Settings of brokers that users have, each under a real app or the log itself.

One cluster of three has them all: LogAppendTime, auto.create.topics.enable=true, a small message.max.bytes,
min.insync.replicas=2. Those that need a login are in `test_broker_guarded.py`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from tests.kafka.clients import configure, create
from tests.kafka.load import KEPT_COUNTS, Load, counted, is_right, loaded, rises_by_one
from tests.kafka.own_names import OwnNames
from tests.runtime.fleet import COUNTS, LINES, Fleet, send
from tests.waiting import wait_for

from tidegate import Topic
from tidegate.connect.connection import Connection
from tidegate.errors import LogError
from tidegate.log.records import to_batch
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.testing.broker import KafkaCluster
from tidegate.testing.conformance.bench import row
from tidegate.types import Offset, TopicPartition

TAKEN_AT_ONCE = 60_000
THREE = {
    "log.message.timestamp.type": "LogAppendTime",
    "auto.create.topics.enable": "true",
    "num.partitions": "7",
    "message.max.bytes": str(TAKEN_AT_ONCE),
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}
INTERNAL = "wordcount-by-word-repartition"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("three"), brokers=3, config=THREE) as cluster:
        yield cluster


@pytest.fixture
def log(three: KafkaCluster, prefix: str) -> Iterator[OwnNames]:
    with closing(OwnNames(three.bootstrap, prefix)) as opened:
        yield opened


def settings_of(log: OwnNames, name: str) -> str:
    return log.describe(name).config["message.timestamp.type"]


class TestLogAppendTime:
    """Brokers that replace event times unless a topic is configured otherwise."""

    def test_event_times_go_through_an_app_unchanged(self, log: OwnNames, tmp_path: Path) -> None:
        """Time 0 too: it was dropped for a time-only record where its own time was replaced."""
        fleet = Fleet(log, tmp_path)
        for second in range(20):
            fleet.connection.send(LINES, f"k{second % 5}", "a b", timestamp=1000 * second)
        fleet.catch_up()
        assert fleet.counts() == {"a": 20, "b": 20}
        latest = max(record.timestamp for record in fleet.connection.read(COUNTS))
        assert latest == 19_000
        assert {name: settings_of(log, name) for name in log.names()} == dict.fromkeys(
            log.names(), "CreateTime"
        )

    def test_a_source_that_replaces_times_is_refused_with_the_command_that_mends_it(
        self, three: KafkaCluster, prefix: str, log: OwnNames, tmp_path: Path
    ) -> None:
        create(three.bootstrap, f"{prefix}{LINES.name}", 3)
        fleet = Fleet(log, tmp_path)
        with pytest.raises(LogError) as error:
            fleet.prepared()
        assert error.value.code == "replaces-times"
        assert LINES.name in error.value.message
        assert "--add-config message.timestamp.type=CreateTime" in error.value.hint
        assert INTERNAL not in log.names(), "nothing was made"
        configure(three.bootstrap, f"{prefix}{LINES.name}", {"message.timestamp.type": "CreateTime"})
        wait_for(lambda: settings_of(log, LINES.name) == "CreateTime")
        send(fleet, 0, 10)
        fleet.catch_up()
        assert fleet.counts()["a"] == 10

    @pytest.mark.parametrize("topic", ["wordcount-counts-changelog", INTERNAL, "wordcount-positions"])
    def test_a_topic_of_the_app_that_was_altered_is_refused(
        self, three: KafkaCluster, prefix: str, log: OwnNames, tmp_path: Path, topic: str
    ) -> None:
        fleet = Fleet(log, tmp_path)
        fleet.prepared()
        configure(three.bootstrap, f"{prefix}{topic}", {"message.timestamp.type": "LogAppendTime"})
        wait_for(lambda: settings_of(log, topic) == "LogAppendTime")
        with pytest.raises(LogError, match=topic) as error:
            fleet.prepared()
        assert error.value.code == "replaces-times"


class TestAutoCreate:
    """A topic is made as it is declared, and never by being named."""

    def test_a_topic_that_is_only_looked_up_is_not_created(self, log: OwnNames) -> None:
        missing = TopicPartition("missing", 0)
        calls: list[Callable[[], object]] = [
            lambda: log.describe("missing"),
            lambda: log.append(missing, to_batch([row(b"k", b"v")])),
            lambda: log.append(missing, to_batch([row(b"k", b"v")] * 2)),
            lambda: log.ends([missing]),
            lambda: log.offset_at(missing, 5),
        ]
        for call in calls:
            with pytest.raises(LogError) as error:
                call()
            assert error.value.code == "no-such-topic"
        with closing(log.writer("slot")) as writer, pytest.raises(LogError):
            writer.append(missing, to_batch([row(b"k", b"v")]))
        with closing(log.reader({missing: Offset(0)})) as reader:
            for _ in range(5):
                assert reader.poll(0.2) == []
        assert log.names() == []

    def test_a_topic_that_was_deleted_does_not_come_back(self, three: KafkaCluster, prefix: str) -> None:
        """Producers look their topics up again and again."""
        often = {"topic.metadata.refresh.interval.ms": 100}
        with closing(OwnNames(three.bootstrap, prefix, often)) as log:
            partition = TopicPartition("gone", 0)
            log.create(TopicSpec("gone"))
            log.append(partition, to_batch([row(b"k", b"v")]))
            log.append(partition, to_batch([row(b"k", b"v")] * 2))
            log.delete("gone")
            time.sleep(1)
            assert log.names() == []

    def test_an_app_finds_its_topics_as_declared(self, log: OwnNames, tmp_path: Path) -> None:
        fleet = Fleet(log, tmp_path)
        send(fleet, 0, 20)
        fleet.catch_up()
        assert fleet.counts()["a"] == 20
        partitions = {name: log.describe(name).partitions for name in log.names()}
        assert partitions.pop(LINES.name) == partitions.pop(COUNTS.name) == partitions.pop(INTERNAL) == 3
        assert 7 not in partitions.values()


class TestSmallMessages:
    """A broker that takes little at once."""

    def test_sends_and_commits_that_are_larger_arrive_whole(self, log: OwnNames, tmp_path: Path) -> None:
        fleet = Fleet(log, tmp_path)
        random.seed(7)  # words that no compression makes small enough
        lines = [f"{random.randbytes(100).hex()} same" for _ in range(1500)]
        fleet.connection.send(LINES, "k", *lines)
        assert log.describe(LINES.name).setting("max.message.bytes") == TAKEN_AT_ONCE
        assert sum(map(len, lines)) > 4 * TAKEN_AT_ONCE
        fleet.catch_up()
        assert fleet.counts()["same"] == 1500
        assert len(fleet.counts()) == 1501

    def test_a_record_that_is_too_large_is_refused_before_anything_is_sent(self, log: OwnNames) -> None:
        notes = Topic("notes", str, partitions=1)
        with closing(Connection(log, owned=False)) as connection:
            connection.send(notes, "k", "first")
            with pytest.raises(LogError) as error:
                connection.send(notes, "k", "second", "x" * TAKEN_AT_ONCE, "third")
            assert error.value.code == "record-too-large"
            assert [record.value for record in connection.read(notes)] == ["first"]


class TestThreeBrokers:
    """min.insync.replicas=2: one may be missing; with two missing nothing is taken, and nothing lost."""

    def test_what_is_confirmed_stays_when_brokers_go(
        self, three: KafkaCluster, prefix: str, log: OwnNames, tmp_path: Path
    ) -> None:
        log.create(TopicSpec(LINES.name, 3))
        log.create(KEPT_COUNTS)
        fleet = loaded(Fleet(log, tmp_path))
        hasty = OwnNames(three.bootstrap, prefix, {"producer": {"delivery.timeout.ms": 2000}})
        partition, unsure = TopicPartition(LINES.name, 0), to_batch([row(b"k", b"unsure")])
        with closing(hasty), fleet.running() as (driver, _):
            with Load(three.bootstrap, OwnNames(three.bootstrap, prefix)):
                goes_on(fleet)
                log.append(partition, unsure)
                leader = leader_of(three, f"{prefix}{LINES.name}")
                three.brokers[leader - 1].kill()
                goes_on(fleet)
                assert leader_of(three, f"{prefix}{LINES.name}") != leader
                three.brokers[leader % 3].kill()
                with pytest.raises(LogError) as error:
                    hasty.append(partition, unsure)
                assert error.value.code in ("commit-unknown", "log-unreachable")
                three.start()
                goes_on(fleet)
            wait_for(lambda: is_right(fleet), every=0.4)
            assert driver.state is DriverState.RUNNING
            assert rises_by_one(fleet)
        assert fleet.counts()["unsure"] in (1, 2)

    @pytest.mark.soak(only="a minute with three brokers; each run kills a leader in the test before")
    def test_leaders_that_move_under_load_cost_nothing(
        self, three: KafkaCluster, prefix: str, log: OwnNames, tmp_path: Path
    ) -> None:
        log.create(TopicSpec(LINES.name, 3))
        log.create(KEPT_COUNTS)
        fleet = loaded(Fleet(log, tmp_path))
        with fleet.running() as (driver, _):
            with Load(three.bootstrap, OwnNames(three.bootstrap, prefix)):
                goes_on(fleet, lines=100)
                leader = leader_of(three, f"{prefix}{LINES.name}")
                three.brokers[leader - 1].kill()
                goes_on(fleet, lines=100)
                assert leader_of(three, f"{prefix}{LINES.name}") != leader
                three.brokers[leader - 1].start()
                goes_on(fleet, lines=100)
            wait_for(lambda: is_right(fleet), every=0.4)
            assert driver.state is DriverState.RUNNING
            assert rises_by_one(fleet)

    def test_a_topic_that_was_just_created_is_waited_for(
        self, three: KafkaCluster, prefix: str, log: OwnNames
    ) -> None:
        """The broker that gets the request may not know the topic yet."""
        partition = TopicPartition("fresh", 0)
        log.create(TopicSpec("fresh"))
        with closing(OwnNames(three.bootstrap, prefix)) as other, ThreadPoolExecutor(2) as threads:
            other.delete("fresh")
            described = threads.submit(log.describe, "fresh")
            ends = threads.submit(log.ends, [partition])
            time.sleep(0.3)
            other.create(TopicSpec("fresh"))
            assert described.result().partitions == 1
            assert ends.result() == {partition: 0}
            with pytest.raises(LogError, match="no-such-topic"):
                other.describe("missing")


def leader_of(cluster: KafkaCluster, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    found: int = admin.list_topics(topic, timeout=30).topics[topic].partitions[0].leader
    return found


def goes_on(fleet: Fleet, lines: int = 50) -> None:
    def seen() -> int:
        try:
            return counted(fleet)
        except LogError:
            return -1

    before = max(0, seen())
    wait_for(lambda: seen() > before + lines, every=0.4)
