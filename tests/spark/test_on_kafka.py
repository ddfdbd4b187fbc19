"""Apps on Spark with Kafka as their log: `log = "kafka://..."` is all that changes."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.sql import SparkSession
from tests.repetitions import repeated
from tests.waiting import HANG_SECONDS, wait_for

from tidegate import TableTopic, Topic
from tidegate.config.config import Config, load_config
from tidegate.connect.connection import Connection
from tidegate.log.records import columns_to_batch
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.runtime.topics.status import Landing
from tidegate.serde.plain import PLAIN
from tidegate.spark.frames import read_store, read_topic
from tidegate.spark.running import Running
from tidegate.spark.write import write_topic
from tidegate.testing.broker import KafkaCluster
from tidegate.types import TopicPartition as Partition

Start = Callable[..., Running]
RECORDS, KILLS = repeated(20_000, soak=100_000), repeated(3, soak=10)
WORDS, PARTITIONS = 50, 4
APP = '''
"""Counts words behind an internal topic, under names of one test's own."""

from tidegate import App, TableTopic, Topic

WORDS = Topic("{prefix}-words", str)
COUNTS = TableTopic("{prefix}-counts", int)
app = App("{prefix}")
app.stream(WORDS).group_by("by-word", lambda word: word).count("counts").to(COUNTS)
'''


@pytest.fixture
def prefix() -> str:
    return f"k{uuid.uuid4().hex[:8]}"


@pytest.fixture
def config(kafka: KafkaCluster, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    (tmp_path / f"{prefix}.py").write_text(APP.format(prefix=prefix))
    monkeypatch.syspath_prepend(str(tmp_path))
    return load_config({"log": kafka.url, "partitions": PARTITIONS}, environ={}, folder=tmp_path)


class PlainConsumer:
    """A consumer that knows nothing of tidegate, and looks on from the beginning to the end: each count of a
    word must be one more than the last."""

    def __init__(self, servers: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": f"outside-{topic}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.counts: Counter[str] = Counter()
        self.wrong: list[tuple[str, int, int]] = []
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._consumer.close()

    def _look(self) -> None:
        while not self._ended.is_set():
            for message in self._consumer.consume(1000, 0.2):
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._ALL_BROKERS_DOWN, error
                    continue
                word = bytes(message.key() or b"").decode()
                count = PLAIN[int].decode(bytes(message.value() or b""))
                if count != self.counts[word] + 1:
                    self.wrong.append((word, self.counts[word], count))
                self.counts[word] = count


@pytest.fixture
def plain_consumer(kafka: KafkaCluster, log: Connection, prefix: str) -> Iterator[PlainConsumer]:
    kept = {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}
    log.log.create(TopicSpec(f"{prefix}-counts", PARTITIONS, kept))
    made = PlainConsumer(kafka.bootstrap, f"{prefix}-counts")
    yield made
    made.close()


def landed_again(run: Running, before: Landing) -> bool:
    now = run.view.landings.get(before.slot)
    return now is not None and now.attempt > before.attempt


@pytest.mark.soak
def test_a_consumer_outside_sees_the_effect_of_every_record_once_and_in_order_while_slots_are_killed(
    start: Start, log: Connection, plain_consumer: PlainConsumer, prefix: str
) -> None:
    """I1, I2, I4, I8."""
    rng = random.Random(7)
    sent = [f"word-{rng.randrange(WORDS)}" for _ in range(RECORDS)]
    log.log.create(TopicSpec(f"{prefix}-words", PARTITIONS))
    run = start(f"{prefix}:app")
    wait_for(lambda: run.state is DriverState.RUNNING)
    killed = 0
    for number in range(20):
        part = sent[number * RECORDS // 20 : (number + 1) * RECORDS // 20]
        batch = columns_to_batch(
            [1_700_000_000_000 + number] * len(part), [None] * len(part), [word.encode() for word in part]
        )
        log.log.append(Partition(f"{prefix}-words", number % PARTITIONS), batch)
        if killed < KILLS * (number + 1) // 20:
            killed += 1
            time.sleep(rng.uniform(0.3, 1.0))
            victim = run.view.landings[rng.randrange(2)]
            os.kill(victim.pid, signal.SIGKILL)
            wait_for(partial(landed_again, run, victim))
    assert killed == KILLS
    wait_for(lambda: plain_consumer.counts.total() >= RECORDS, every=0.2)
    run.stop()
    assert run.wait(HANG_SECONDS)
    assert plain_consumer.wrong == []
    assert plain_consumer.counts == Counter(sent)
    assert log.rows(TableTopic(f"{prefix}-counts", int)) == dict(Counter(sent))


def test_frames_of_topics_and_stores_are_those_of_any_log(
    start: Start, spark: SparkSession, config: Config, log: Connection, prefix: str
) -> None:
    words, copy = Topic(f"{prefix}-words", str), Topic(f"{prefix}-copy", str)
    for number in range(40):
        log.send(words, f"k{number}", f"word-{number % 4}")
    run = start(f"{prefix}:app", until_caught_up=True)
    assert run.wait(HANG_SECONDS)
    frame = read_topic(spark, words, config=config)
    assert sorted(row["value"] for row in frame.collect()) == sorted(
        f"word-{number % 4}" for number in range(40)
    )
    store = {row["key"]: row["value"] for row in read_store(spark, prefix, "counts", config=config).collect()}
    assert store == {f"word-{number}": 10 for number in range(4)}
    write_topic(frame.filter("value = 'word-1'").select("key", "value"), copy, config=config)
    assert [record.value for record in log.read(copy)] == ["word-1"] * 10
