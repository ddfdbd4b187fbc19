"""Brokers that die, freeze and come back, under load. They have a cluster of their own.

The broker looks for transactions that ran out of time every ten seconds, as is its default. If it did so
right at its start, it would meet some before it knows who leads their partitions, take these for deleted, and
leave the records of an aborted transaction without a mark (docs/kafka.md).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.kafka.load import KEPT_COUNTS, Load, counted, is_right, loaded, rises_by_one
from tests.kafka.own_names import OwnNames
from tests.runtime.fleet import LINES, Fleet
from tests.waiting import wait_for

from tidegate.errors import FencedError, LogError
from tidegate.log.kafka import writer as kafka_writer
from tidegate.log.kafka.writer import TRANSACTION_MS
from tidegate.log.records import to_batch
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.testing.broker import KafkaCluster
from tidegate.testing.conformance.bench import read_all, row, values
from tidegate.types import TopicPartition

LOST_MARKERS = "likely deleted already and hence can be skipped"
"""In the log of a broker that was killed with its controller after it had decided on a commit and before it
had written all markers: it looks for leaders before it is admitted again, finds none, and records the commit
as complete (docs/kafka.md)."""
EVERYTHING = 1_000_000
HASTY = {"producer": {"transaction.timeout.ms": 1000}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("mortal")) as made:
        yield made


def fleet_on(cluster: KafkaCluster, prefix: str, folder: Path) -> Fleet:
    log = OwnNames(cluster.bootstrap, prefix)
    log.create(TopicSpec(LINES.name, 3))
    log.create(KEPT_COUNTS)
    return loaded(Fleet(log, folder))


def goes_on(fleet: Fleet) -> None:
    before = counted(fleet)
    wait_for(lambda: counted(fleet) > before + 100, every=0.4)


def test_a_broker_that_is_gone_for_longer_than_a_transaction_lasts_is_waited_for(
    cluster: KafkaCluster, prefix: str, tmp_path: Path
) -> None:
    """Again if the broker was killed while it wrote the markers of a commit, and lost them at its start: then
    no reader gets past these records."""
    for one in range(4):
        own = f"{one}{prefix}"
        if is_waited_for(cluster, fleet_on(cluster, own, tmp_path / str(one)), own):
            return
    pytest.fail("the broker has lost the markers of a commit four times")


def is_waited_for(cluster: KafkaCluster, fleet: Fleet, prefix: str) -> bool:
    """Whether the broker kept its promises; then the fleet went on."""
    broker = cluster.brokers[0]
    with closing(fleet.log), fleet.running() as (driver, _):
        with Load(cluster.bootstrap, OwnNames(cluster.bootstrap, prefix)):
            goes_on(fleet)
            broker.kill()
            gone = time.monotonic()
            wait_for(lambda: driver.overview.log_trouble is not None)
            time.sleep(max(0.0, gone + 1.3 * TRANSACTION_MS / 1000 - time.monotonic()))
            assert driver.state is DriverState.RUNNING
            broker.start()
            if LOST_MARKERS in broker.log_tail(EVERYTHING):
                return False
            goes_on(fleet)
        wait_for(lambda: is_right(fleet), every=0.4)
        assert driver.overview.log_trouble is None
        assert not driver.overview.failures, "to wait is no failure"
        assert rises_by_one(fleet)
    return True


def test_a_frozen_broker_costs_nothing(cluster: KafkaCluster, prefix: str, tmp_path: Path) -> None:
    fleet = fleet_on(cluster, prefix, tmp_path)
    with closing(fleet.log), fleet.running() as (driver, _):
        with Load(cluster.bootstrap, OwnNames(cluster.bootstrap, prefix)):
            goes_on(fleet)
            cluster.brokers[0].freeze()
            time.sleep(3)
            cluster.brokers[0].wake()
            goes_on(fleet)
        wait_for(lambda: is_right(fleet), every=0.4)
        assert driver.state is DriverState.RUNNING
        assert rises_by_one(fleet)


def test_a_transaction_that_ran_out_of_time_is_refused_and_the_next_writer_goes_on(
    cluster: KafkaCluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_writer, "TRY_SECONDS", 60.0)  # an answer that a busy machine delays counts
    with closing(OwnNames(cluster.bootstrap, prefix, HASTY)) as log:
        partition = TopicPartition("out", 0)
        log.create(TopicSpec("out"))
        writer = log.writer("slot")
        writer.append(partition, to_batch([row(b"k", b"too late")]))
        writer.flush([partition])
        wait_for(
            lambda: log.ends([partition]) == log.ends([partition], committed=False)
        )  # ended by the broker
        with pytest.raises(FencedError):
            writer.commit()
        with closing(OwnNames(cluster.bootstrap, prefix)) as calm, closing(calm.writer("slot")) as again:
            again.append(partition, to_batch([row(b"k", b"in time")]))
            again.commit()
        assert values(read_all(log, partition)) == [b"in time"]


def test_a_commit_of_unknown_result_is_settled_before_the_next_writer_reads(
    cluster: KafkaCluster, prefix: str
) -> None:
    """The broker stops while it is asked to commit: whatever it did, it did once, and shows to the next."""
    with closing(OwnNames(cluster.bootstrap, prefix, HASTY)) as log:
        partition = TopicPartition("out", 0)
        log.create(TopicSpec("out"))
        writer = log.writer("slot")
        writer.append(partition, to_batch([row(b"k", b"perhaps")]))
        writer.flush([partition])
        cluster.brokers[0].freeze()
        try:
            with pytest.raises(LogError) as error:
                writer.commit()
        finally:
            cluster.brokers[0].wake()
        assert error.value.code == "commit-unknown"
        assert not error.value.retryable, "who writes it again without looking may have it twice"
        with closing(OwnNames(cluster.bootstrap, prefix)) as calm, closing(calm.writer("slot")) as again:
            settled = values(read_all(log, partition))
            assert settled in ([], [b"perhaps"])
            again.append(partition, to_batch([row(b"k", b"next")]))
            again.commit()
        assert values(read_all(log, partition)) == [*settled, b"next"]
