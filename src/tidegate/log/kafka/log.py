"""The log on a Kafka cluster. A user only changes one setting: `log = "kafka://host:9092"`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from tidegate.clock import Clock, SystemClock
from tidegate.errors import LogError
from tidegate.log.kafka.appender import Appender
from tidegate.log.kafka.checkup import Checkup
from tidegate.log.kafka.clients import Clients
from tidegate.log.kafka.cluster_id import await_cluster_id
from tidegate.log.kafka.error_mapping import translate_error
from tidegate.log.kafka.mirror import Mirror
from tidegate.log.kafka.reader import KafkaReader
from tidegate.log.kafka.topics import Topics
from tidegate.log.kafka.writer import KafkaWriter
from tidegate.log.location import LogLocation
from tidegate.log.topic import TopicInfo, TopicSpec
from tidegate.types import Offset, TopicPartition

REACH_SECONDS = 5.0
CHECK_SECONDS = 2.0
PROBED_TOPIC = "__consumer_offsets"
"""A topic of every cluster, to probe the connection with: listing all topics may be slow."""


class KafkaLog:
    """Topics of a cluster, with readers and writers."""

    def __init__(
        self,
        servers: str,
        settings: Mapping[str, Any] | None = None,
        *,
        clock: Clock | None = None,
        compiled: bool = True,
    ) -> None:
        """Raises ConfigError for settings that librdkafka refuses, and LogError `log-unreachable`.
        `compiled`: whether the module `tidegate_bulk` is used where it is installed."""
        self._clock = clock or SystemClock()
        self._location = LogLocation(f"kafka://{servers}", kafka=dict(settings or {}))
        self._clients = Clients(servers, settings or {}, compiled=compiled)
        try:
            self._id = self._reach()
        except BaseException:
            self._clients.close()
            raise
        self._topics = Topics(self._clients)
        self._mirror = Mirror(self._clients)
        self._appender = Appender(self._clients, self._topics, self._clock)

    @property
    def id(self) -> str:
        return self._id

    @property
    def location(self) -> LogLocation:
        return self._location

    def check(self) -> None:
        try:
            self._clients.admin.list_topics(PROBED_TOPIC, timeout=CHECK_SECONDS)
        except KafkaException:
            raise self._unreachable() from None

    def create(self, spec: TopicSpec) -> TopicInfo:
        return self._topics.create(spec)

    def describe(self, name: str) -> TopicInfo:
        return self._topics.describe(name)

    def names(self) -> list[str]:
        return self._topics.names()

    def delete(self, name: str) -> None:
        self._topics.delete(name)

    def ends(
        self, partitions: Iterable[TopicPartition], *, committed: bool = True
    ) -> dict[TopicPartition, Offset]:
        return self._topics.ends(partitions, committed=committed)

    def offset_at(self, partition: TopicPartition, timestamp: int) -> Offset:
        return self._topics.offset_at(partition, timestamp)

    def reader(self, positions: Mapping[TopicPartition, Offset], *, brief: bool = False) -> KafkaReader:
        consumer, pages = self._clients.reading(brief=brief)
        return KafkaReader(consumer, positions, self._bounds, self._topics.identify, pages)

    def writer(self, writer_id: str, *, open_seconds: float | None = None) -> KafkaWriter:
        return KafkaWriter(self._clients, self._topics, self._clock, writer_id, open_seconds or 0.0)

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> Offset:
        return self._appender.append(partition, batch)

    def purge(self, partition: TopicPartition, before: Offset) -> None:
        self._topics.purge(partition, before)

    def mirror(self, group: str, positions: Mapping[TopicPartition, Offset]) -> None:
        """Publish positions as offsets of a consumer group, so that `kafka-consumer-groups` shows the lag."""
        self._mirror.show(group, positions)

    def checkup(self) -> Checkup:
        """Return the checks for `tidegate doctor`."""
        return Checkup(self._clients, self._topics)

    def close(self) -> None:
        self._mirror.close()
        self._appender.close()
        self._clients.close()

    def _bounds(self, partition: TopicPartition) -> tuple[int, int]:
        start = self._topics.describe(partition.topic).starts[partition.partition]
        return start, int(self.ends([partition], committed=False)[partition])

    def _reach(self) -> str:
        found = await_cluster_id(self._clients.admin.cluster_id, REACH_SECONDS)
        if not found:
            raise self._unreachable()
        return found

    def _unreachable(self) -> LogError:
        self._clients.admin.poll(0)  # delivers the errors that it met
        error = self._clients.last_error or KafkaError(KafkaError._TIMED_OUT)
        translated = translate_error(error, f"no broker answers at {self._clients.servers}")
        if translated.code != "log-unreachable":
            return translated
        hint = "check the address, security.protocol under [kafka], and that the broker runs"
        return LogError(translated.code, translated.message, hint, retryable=True)
