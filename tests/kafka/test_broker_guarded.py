"""Settings of brokers that ask for a login, each under a real app or the log itself: transactional ids that
expire, and no right to delete."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType
from tests.kafka import test_acls as acls
from tests.kafka.own_names import OwnNames
from tests.runtime.fleet import COUNTS, LINES, QUICK, Fleet, expected, send
from tests.waiting import wait_for

from tidegate import Topic
from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.errors import FencedError
from tidegate.log.kafka.log import KafkaLog
from tidegate.log.records import to_batch
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.runtime.driver.takeover import take_over
from tidegate.runtime.slot.job import SlotIntervals
from tidegate.runtime.topics.control import ROLE, read_control
from tidegate.testing.broker import KafkaCluster
from tidegate.testing.conformance.bench import read_all, row, values
from tidegate.types import TopicPartition

FORGOTTEN_SECONDS = 5.0
"""Longer than a busy machine takes from the start of a writer to its first transaction."""
GUARDED = {
    **acls.CONFIG,
    "transactional.id.expiration.ms": str(int(1000 * FORGOTTEN_SECONDS)),
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}
INTERNAL = "wordcount-by-word-repartition"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("guarded"), config=GUARDED) as cluster:
        yield cluster


class TestExpiredIds:
    """Transactional ids that the broker has forgotten, as after seven idle days."""

    @pytest.fixture
    def log(self, guarded: KafkaCluster, prefix: str) -> Iterator[OwnNames]:
        with closing(OwnNames(guarded.bootstrap, prefix, acls.login("admin"))) as opened:
            yield opened

    def sleep(self) -> None:
        """Longer than the broker remembers an id."""
        time.sleep(FORGOTTEN_SECONDS + 1)

    def test_a_writer_is_refused_and_opened_again(self, log: OwnNames) -> None:
        log.create(TopicSpec("out"))
        out = TopicPartition("out", 0)
        writer = log.writer("slot")
        self.sleep()
        writer.append(out, to_batch([row(b"k", b"refused")]))
        with pytest.raises(FencedError):
            writer.commit()
        with closing(log.writer("slot")) as again:
            again.append(out, to_batch([row(b"k", b"taken")]))
            again.commit()
        assert values(read_all(log, out)) == [b"taken"]

    def test_a_connection_goes_on_sending(self, log: OwnNames) -> None:
        numbers = Topic("numbers", int, partitions=1)
        with closing(Connection(log, owned=False)) as connection:
            connection.send(numbers, "k", 1, 2)
            self.sleep()
            connection.send(numbers, "k", 3, 4)
            assert [record.value for record in connection.read(numbers)] == [1, 2, 3, 4]

    def test_a_driver_renews_its_claim_and_a_superseded_one_does_not(
        self, log: OwnNames, tmp_path: Path
    ) -> None:
        clock = SystemClock()
        Fleet(log, tmp_path).prepared()
        claim = take_over(log, "wordcount", 1, clock)
        self.sleep()
        renewed = claim.renew(log, clock)
        assert renewed.epoch == claim.epoch + 1
        other = take_over(log, "wordcount", 1, clock)
        self.sleep()
        with pytest.raises(FencedError):
            renewed.renew(log, clock)
        assert read_control(log, "wordcount").epoch(ROLE) == other.epoch
        renewed.close()
        other.close()

    def test_an_idle_app_takes_new_cores_and_goes_on(self, log: OwnNames, tmp_path: Path) -> None:
        fleet = Fleet(log, tmp_path)
        send(fleet, 0, 20)
        driver, launcher = fleet.driver(None, patience=replace(QUICK, between_plans_seconds=5.0))
        launcher.rooms = 1
        with fleet.during(driver):
            wait_for(lambda: counts(fleet).get("a") == 20)
            self.sleep()
            launcher.rooms = 3
            wait_for(lambda: driver.epoch == 2 and driver.state is DriverState.RUNNING)
            send(fleet, 20, 20)
            wait_for(lambda: counts(fleet).get("a") == 40)
        assert driver.error is None


def counts(fleet: Fleet) -> dict[str, int]:
    """None before the first commit."""
    return fleet.counts() if COUNTS.name in fleet.log.names() else {}


class TestNoRightToDelete:
    """Internal topics cannot be purged: they grow, and the app runs."""

    @pytest.fixture
    def grants(self, guarded: KafkaCluster) -> Iterator[acls.Grants]:
        with closing(acls.Grants(guarded)) as made:
            yield made

    def test_an_app_runs_and_warns_once(
        self, guarded: KafkaCluster, grants: acls.Grants, tmp_path: Path
    ) -> None:
        grants.remove(ResourceType.TOPIC, AclOperation.DELETE)
        with (
            closing(KafkaLog(guarded.bootstrap, acls.login("admin"))) as theirs,
            closing(KafkaLog(guarded.bootstrap, acls.login("wordcount"))) as log,
        ):
            fleet = Fleet(log, tmp_path)
            fleet.connection = Connection(theirs, partitions=3, clock=SystemClock(), owned=False)
            fleet.connection.send(LINES, "warm", "up")
            driver, launcher = fleet.driver(slots=1)
            launcher.intervals = SlotIntervals(report_seconds=0.1, purge_seconds=0.2)
            with fleet.during(driver):
                send(fleet, 0, 20)
                wait_for(lambda: fleet.counts() == expected(20))
                wait_for(lambda: bool(driver.overview.warnings))
                send(fleet, 20, 20)
                wait_for(lambda: fleet.counts() == expected(40))
                assert driver.state is DriverState.RUNNING
            assert driver.error is None
            assert not driver.overview.failures
            about = [warned for warned in driver.overview.warnings if INTERNAL in warned.message]
            assert [warned.code for warned in about] == ["not-allowed"]
            assert not theirs.describe(INTERNAL).history_cut
            for name in theirs.names():
                theirs.delete(name)
