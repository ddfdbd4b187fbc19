"""Gates on Kafka: foreign writers, and commands in transactions that are open."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from pathlib import Path

from tests.gate.app import EVENTS, PASSED, gated
from tests.kafka.clients import Draft, send
from tests.kafka.conftest import OpenLog
from tests.runtime.fleet import Fleet
from tests.waiting import wait_for

from tidegate.clock import SystemClock
from tidegate.gate.query import GateQuery
from tidegate.log.partitioner import partition_for
from tidegate.log.records import Row, to_batch
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.testing import Driver
from tidegate.testing.broker import KafkaCluster
from tidegate.types import TopicPartition


def test_the_gate_holds_and_releases(open_own: OpenLog) -> None:
    with Driver(gated(drain_chunk=7), log=open_own(), partitions=2) as driver:
        gate = driver.gate("door")
        driver.send(EVENTS, "ada", 1)
        driver.run()
        gate.pause("ada")
        driver.send(EVENTS, "ada", *range(2, 52))
        driver.send(EVENTS, "bob", 1)
        driver.crash("commit.6", elsewhere=True)
        driver.run()
        assert (gate.held("ada"), driver.by_key(PASSED)) == (50, {"ada": [1], "bob": [1]})
        gate.resume("ada")
        driver.send(EVENTS, "ada", 52)
        driver.run()
        assert driver.by_key(PASSED)["ada"] == list(range(1, 53))


def test_a_trigger_waits_for_a_status_that_is_not_committed_yet(open_own: OpenLog) -> None:
    """Its offset is there, so the trigger is no mistake; until the transaction ends nothing goes on."""
    log = open_own()
    with Driver(gated(), log=log, partitions=1) as driver:
        gate = driver.gate("door")
        driver.send(EVENTS, "ada", 1)
        driver.run()
        status, trigger = TopicPartition("gated-door-status", 0), TopicPartition("gated-door-trigger", 0)
        with closing(log.writer("foreign")) as writer:
            writer.append(status, to_batch([Row(b"ada", b'{"state":"PAUSED"}', 1)]))
            [behind] = writer.flush([status]).values()
            log.append(trigger, to_batch([Row(b"ada", b'{"epoch":%d}' % (behind - 1), 1)]))
            driver.send(EVENTS, "bob", 1)
            later = threading.Timer(2, writer.commit)
            later.start()
            began = time.monotonic()
            driver.run()
            later.join()
            assert time.monotonic() - began > 1.5, "what is committed later must not be overtaken"
        assert not driver.dead_letters()
        found = gate.status("ada")
        assert found is not None
        assert (found.state, found.cause, found.epoch) == ("ACTIVE", "trigger", behind - 1)


def test_a_service_that_only_knows_kafka_pauses_and_resumes(
    kafka: KafkaCluster, open_own: OpenLog, tmp_path: Path
) -> None:
    log = open_own()
    fleet = Fleet(log, tmp_path, gated)
    with fleet.running(2) as (driver, _):
        wait_for(lambda: driver.overview.plans == 1)
        manifest = find_manifest(log, "gated")
        assert manifest is not None

        def gate() -> GateQuery:
            return GateQuery(log, manifest, "door", SystemClock())

        status = log.prefixed(TopicPartition(manifest.gates["door"].status, 0)).topic
        number = partition_for(b"ada", manifest.gates["door"].partitions)
        at = SystemClock().now()
        # librdkafka's own partitioner is not Java's: the partition is named.
        paused = b'{"state":"PAUSED","actor":"crm","reason":"dispute"}'
        send(kafka.bootstrap, status, [Draft(b"ada", paused, at, ())], partition=number)
        wait_for(lambda: gate().key(b"ada").held)
        fleet.connection.send(EVENTS, "ada", 1, 2, 3)
        wait_for(lambda: (found := gate().key(b"ada").buffered) is not None and found.count == 3)
        active = b'{"state":"ACTIVE","actor":"crm","reason":"settled"}'
        send(kafka.bootstrap, status, [Draft(b"ada", active, at, ())], partition=number)
        wait_for(lambda: [one.value for one in fleet.connection.read(PASSED)] == [1, 2, 3])
        assert [(one.state, one.actor) for one in gate().history(b"ada")] == [
            ("PAUSED", "crm"),
            ("ACTIVE", "crm"),
        ]
