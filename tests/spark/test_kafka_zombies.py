"""On Spark and Kafka: drivers that are killed, slots that sleep through a takeover, a broker that is away.

A consumer outside looks on all the time: each count of a word is one more than the last (I1, I2, I4, I8).
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.repetitions import repeated
from tests.spark.command import Command
from tests.spark.test_on_kafka import (  # noqa: F401 - fixtures
    PARTITIONS,
    WORDS,
    PlainConsumer,
    Start,
    config,
    plain_consumer,
    prefix,
)
from tests.waiting import HANG_SECONDS, wait_for

import tidegate
from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.log.records import columns_to_batch
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.spark.running import Running
from tidegate.testing.broker import KafkaCluster
from tidegate.types import TopicPartition

AWAY_SECONDS = 180.0


class Feeder:
    """Sends words all the time, inside a `with`, and knows what it sent."""

    def __init__(self, config: Config, prefix: str) -> None:  # noqa: F811 - not the fixtures
        self._config = config
        self._topic = f"{prefix}-words"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self.sent: Counter[str] = Counter()

    def again(self) -> Feeder:
        """One that goes on where this one ended."""
        made = Feeder(self._config, self._topic.removesuffix("-words"))
        made.sent.update(self.sent)
        return made

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _send(self) -> None:
        rng = random.Random(3)
        with self._connected() as log:
            while not self._ended.is_set():
                words = [f"word-{rng.randrange(WORDS)}" for _ in range(100)]
                batch = columns_to_batch([1_700_000_000_000] * 100, [None] * 100, [w.encode() for w in words])
                with suppress(tidegate.LogError):  # a broker that is away: not sent, so it does not count
                    log.log.append(TopicPartition(self._topic, rng.randrange(PARTITIONS)), batch)
                    self.sent.update(words)
                time.sleep(0.02)

    def _connected(self) -> Connection:
        """A broker that just woke up has a queue of clients that gave up, and may answer late."""
        while True:
            try:
                return tidegate.connect(config=self._config)
            except tidegate.LogError as error:
                if not error.retryable or self._ended.wait(0.5):
                    raise


@pytest.fixture
def feeder(config: Config, log: Connection, prefix: str) -> Feeder:  # noqa: F811
    log.log.create(TopicSpec(f"{prefix}-words", PARTITIONS))
    return Feeder(config, prefix)


def goes_on(plain_consumer: PlainConsumer, by: int = 500) -> None:  # noqa: F811
    before = plain_consumer.counts.total()
    wait_for(lambda: plain_consumer.counts.total() >= before + by, every=0.1)


def progress_report(
    run: Running,
    plain_consumer: PlainConsumer,  # noqa: F811
    feeder: Feeder,
    config: Config,  # noqa: F811
    prefix: str,  # noqa: F811
) -> str:
    """What each part did, and what lies behind transactions that are open, as a new client sees it."""
    reports = {slot: f"{time.monotonic() - at:.0f} s ago" for slot, at in run.view.last_report.items()}
    failures = [failure for _, failure in run.view.failures]
    reported = [
        f"driver {run.state.value}, trouble {run.view.log_trouble}, restarts {run.view.restarts}, {failures}",
        f"last reports of slots {reports}",
        f"sent {feeder.sent.total()}, seen by a plain consumer {plain_consumer.counts.total()}",
    ]
    with tidegate.connect(config=config) as fresh:
        for name in (name for name in fresh.log.names() if name.startswith(prefix)):
            places = [TopicPartition(name, number) for number in range(fresh.log.describe(name).partitions)]
            committed, written = fresh.log.ends(places), fresh.log.ends(places, committed=False)
            reported.append(f"{name}: {sum(committed.values())} of {sum(written.values())} committed")
    return "\n".join(reported)


def ends_right(plain_consumer: PlainConsumer, feeder: Feeder) -> None:  # noqa: F811
    wait_for(lambda: plain_consumer.counts.total() >= feeder.sent.total(), every=0.2)
    assert plain_consumer.wrong == []
    assert plain_consumer.counts == feeder.sent


@pytest.mark.soak
def test_a_slot_that_sleeps_through_a_takeover_commits_nothing_when_it_wakes(
    start: Start,
    plain_consumer: PlainConsumer,  # noqa: F811
    feeder: Feeder,
    prefix: str,  # noqa: F811
) -> None:
    """Stopped at any time under load, so in most rounds with a transaction open."""
    rng = random.Random(5)
    with feeder:
        run = start(f"{prefix}:app")
        wait_for(lambda: run.state is DriverState.RUNNING)
        goes_on(plain_consumer)
        for _ in range(repeated(1, soak=5)):
            asleep = [landing.pid for landing in run.view.landings.values()]
            time.sleep(rng.uniform(0.0, 0.3))
            for pid in asleep:
                os.kill(pid, signal.SIGSTOP)
            try:
                newer = start(f"{prefix}:app")
                wait_for(lambda newer=newer: newer.state is DriverState.RUNNING)  # type: ignore[misc]
                goes_on(plain_consumer)
            finally:
                for pid in asleep:
                    with suppress(ProcessLookupError):  # Spark kills a worker whose job it cancelled long ago
                        os.kill(pid, signal.SIGCONT)
            wait_for(lambda run=run: run.state is DriverState.FAILED)  # type: ignore[misc]
            goes_on(plain_consumer)
            run = newer
    ends_right(plain_consumer, feeder)
    run.stop()
    assert run.wait(HANG_SECONDS)
    ends_right(plain_consumer, feeder)


@pytest.mark.soak(only="starts Spark four times")
def test_a_driver_that_is_killed_is_followed_by_another(
    config: Config,  # noqa: F811
    plain_consumer: PlainConsumer,  # noqa: F811
    feeder: Feeder,
    kafka: KafkaCluster,
    prefix: str,  # noqa: F811
) -> None:
    lines = [f'log = "{kafka.url}"', f"partitions = {PARTITIONS}", f'app = "{prefix}:app"']
    toml = "\n".join([*lines, "[spark]", 'master = "local[2]"'])
    (Path(config.folder) / "tidegate.toml").write_text(toml)
    with feeder:
        for _ in range(3):
            run = Command(config)
            try:
                goes_on(plain_consumer, 1000)
            finally:
                run.kill()
        last = Command(config)
        goes_on(plain_consumer, 1000)
    try:
        ends_right(plain_consumer, feeder)
        assert last.end(signal.SIGTERM) == 0
    finally:
        last.close()
    ends_right(plain_consumer, feeder)


@pytest.mark.usefixtures("kafka_jars")
class TestFrozenBroker:
    """With a broker of its own: others must not wait with it."""

    @pytest.fixture
    def kafka(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
        with KafkaCluster(tmp_path_factory.mktemp("frozen")) as own:
            yield own

    @pytest.mark.soak(only="takes three minutes")
    def test_a_broker_that_is_away_for_minutes_is_waited_for(
        self,
        start: Start,
        plain_consumer: PlainConsumer,  # noqa: F811
        feeder: Feeder,
        kafka: KafkaCluster,
        config: Config,  # noqa: F811
        prefix: str,  # noqa: F811
    ) -> None:
        """Far beyond the time of a transaction. Nothing is sent meanwhile: a lost answer proves nothing."""
        run = start(f"{prefix}:app")
        wait_for(lambda: run.state is DriverState.RUNNING)
        with feeder:
            goes_on(plain_consumer)
        ends_right(plain_consumer, feeder)
        [broker] = kafka.brokers
        broker.freeze()
        try:
            wait_for(lambda: run.view.log_trouble is not None)
            time.sleep(AWAY_SECONDS)
            assert run.state is DriverState.RUNNING
        finally:
            broker.wake()
        more = feeder.again()
        with more:
            try:
                goes_on(plain_consumer)
            except AssertionError:
                pytest.fail(progress_report(run, plain_consumer, more, config, prefix))
        ends_right(plain_consumer, more)
        wait_for(lambda: run.view.log_trouble is None)  # a client connects anew only after up to 30 s
        run.stop()
        assert run.wait(HANG_SECONDS)
