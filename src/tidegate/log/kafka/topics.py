"""Create, describe and delete topics of a cluster, and look up the first and last offsets of partitions."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from tidegate.errors import LogError
from tidegate.log.ensure import check_event_times
from tidegate.log.kafka.clients import Clients
from tidegate.log.kafka.error_mapping import error_of, translated_errors
from tidegate.log.topic import DEFAULTS, EVENT_TIMES, POLICY, RATIO, TIMES, TopicInfo, TopicSpec
from tidegate.types import Offset, TopicPartition

REQUEST_SECONDS = 20.0
LEADER_SECONDS = 2.0
"""Timeout for requests to a leader: if it is gone, another leader must be looked up."""
PROPAGATION_SECONDS = 20.0
"""How long it may take until every broker knows that a topic was created or deleted."""
NEW_TOPIC_SECONDS = 5.0
"""How long after its creation a request for a topic that a broker does not know yet is retried."""
NAP_SECONDS = 0.02
CACHE_SECONDS = 30.0
GRACE_SECONDS = 0.25
"""A commit is acknowledged before its markers are written; this is how long they may take."""
KEPT = {"retention.ms": str(DEFAULTS["retention.ms"])}
"""A topic that tidegate creates keeps its history, whatever the broker's default."""
NO_RECORD = -1
"""The offset that Kafka returns for a timestamp after that of every record."""
EARLIEST: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_KNOWN = frozenset([*DEFAULTS, POLICY, RATIO, TIMES])
_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID)


class Topics:
    """The topics of one cluster."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._cache: dict[str, tuple[float, TopicInfo]] = {}
        self._created: dict[str, float] = {}

    def create(self, spec: TopicSpec) -> TopicInfo:
        self._create(spec, dry=False)
        self._cache.pop(spec.name, None)
        self._created[spec.name] = time.monotonic()
        return _as_requested(spec, self._wait_until_visible(spec.name))

    def create_dry(self, spec: TopicSpec) -> None:
        """Raise what `create` would raise, without creating anything."""
        self._create(spec, dry=True)

    def describe(self, name: str) -> TopicInfo:
        while True:
            try:
                return self._describe(name)
            except LogError as error:
                if error.code != "no-such-topic" or not self._is_new(name):
                    raise
                time.sleep(NAP_SECONDS)

    def _is_new(self, name: str) -> bool:
        """Whether the topic was created so recently that some brokers may not know it yet."""
        return time.monotonic() < self._created.get(name, -NEW_TOPIC_SECONDS) + NEW_TOPIC_SECONDS

    def _describe(self, name: str) -> TopicInfo:
        admin, resource = self._clients.admin, ConfigResource(ResourceType.TOPIC, name)
        described = admin.describe_topics(TopicCollection([name]), request_timeout=REQUEST_SECONDS)[name]
        config = admin.describe_configs([resource], request_timeout=REQUEST_SECONDS)[resource]
        try:
            topic = described.result()
            partitions = [TopicPartition(name, number) for number in range(len(topic.partitions))]
            starts = self._offsets(partitions, EARLIEST, IsolationLevel.READ_UNCOMMITTED)
            entries = config.result()
        except KafkaException as cause:
            if error_of(cause).code() in _MISSING:
                raise _no_such_topic(name) from None
            with translated_errors(f"topic {name!r} cannot be described"):
                raise
        kept = {entry: entries[entry].value for entry in entries if entry in _KNOWN}
        return TopicInfo(name, str(topic.topic_id), kept, tuple(starts[one] for one in partitions))

    def identify(self, names: Collection[str]) -> dict[str, Future[str]]:
        """Request the uids of topics, without waiting for them."""
        described = self._clients.admin.describe_topics(
            TopicCollection(list(names)), request_timeout=REQUEST_SECONDS
        )
        return {name: _then_uid(future) for name, future in described.items()}

    def checked(self, name: str) -> TopicInfo:
        """Return the topic, up to CACHE_SECONDS old: for checks of records, which do not need its offsets."""
        at, info = self._cache.get(name, (0.0, None))
        if info is None or time.monotonic() - at > CACHE_SECONDS:
            info = self.describe(name)
            self._cache[name] = (time.monotonic(), info)
        return info

    def names(self) -> list[str]:
        with translated_errors("topics cannot be listed"):
            found = self._clients.admin.list_topics(timeout=REQUEST_SECONDS).topics
        return sorted(name for name in found if not name.startswith("__"))

    def delete(self, name: str) -> None:
        self._cache.pop(name, None)
        self._created.pop(name, None)
        try:
            self._clients.admin.delete_topics([name], request_timeout=REQUEST_SECONDS)[name].result()
        except KafkaException as cause:
            if error_of(cause).code() in _MISSING:
                raise _no_such_topic(name) from None
            with translated_errors(f"topic {name!r} cannot be deleted"):
                raise
        deadline = time.monotonic() + PROPAGATION_SECONDS
        while name in self.names() and time.monotonic() < deadline:
            time.sleep(NAP_SECONDS)

    def ends(self, partitions: Iterable[TopicPartition], *, committed: bool) -> dict[TopicPartition, Offset]:
        """Return the next offset of each partition. For committed ends, wait up to GRACE_SECONDS for
        transactions that are just ending: if their commit was acknowledged, the caller expects to see it."""
        listed = list(partitions)
        ends = self._latest(listed, IsolationLevel.READ_UNCOMMITTED)
        if not committed:
            return ends
        deadline = time.monotonic() + GRACE_SECONDS
        while True:
            stable = self._latest(listed, IsolationLevel.READ_COMMITTED)
            if all(stable[one] >= ends[one] for one in listed) or time.monotonic() > deadline:
                return stable
            time.sleep(0.002)

    def offset_at(self, partition: TopicPartition, timestamp: int) -> Offset:
        spec = OffsetSpec.for_timestamp(timestamp)
        found = self._offsets([partition], spec, IsolationLevel.READ_COMMITTED)[partition]
        return self.ends([partition], committed=True)[partition] if found < 0 else Offset(found)

    def purge(self, partition: TopicPartition, before: Offset) -> None:
        upto = KafkaPartition(partition.topic, partition.partition, before)
        with translated_errors(f"{partition} cannot be purged"):
            for future in self._clients.admin.delete_records(
                [upto], request_timeout=REQUEST_SECONDS
            ).values():
                future.result()

    def _create(self, spec: TopicSpec, *, dry: bool) -> None:
        """Create the topic unless it exists."""
        config = KEPT | self._clients.topic_config | dict(spec.config) | {TIMES: EVENT_TIMES}
        new = NewTopic(spec.name, spec.partitions, self._clients.replicas, config=config)
        with translated_errors(f"topic {spec.name!r} cannot be created"):
            admin = self._clients.admin
            created = admin.create_topics([new], validate_only=dry, request_timeout=REQUEST_SECONDS)
            try:
                created[spec.name].result()
            except KafkaException as cause:
                if error_of(cause).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def _latest(
        self, partitions: list[TopicPartition], isolation: IsolationLevel
    ) -> dict[TopicPartition, Offset]:
        found = self._offsets(partitions, LATEST, isolation)
        return {partition: Offset(offset) for partition, offset in found.items()}

    def _offsets(
        self, partitions: list[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[TopicPartition, int]:
        """List offsets; retry while a partition has no leader, or not the one that librdkafka knows."""
        deadline = time.monotonic() + REQUEST_SECONDS
        while True:
            try:
                return self._request_offsets(partitions, spec, isolation)
            except LogError as error:
                if not error.retryable or time.monotonic() > deadline:
                    raise
                time.sleep(NAP_SECONDS)
                self._refresh_leaders({one.topic for one in partitions})

    def _refresh_leaders(self, topics: Iterable[str]) -> None:
        """Refresh metadata: librdkafka sends requests to the leaders that it knows, and does not look for
        others by itself."""
        for topic in topics:
            with suppress(KafkaException):
                error = self._clients.admin.list_topics(topic, timeout=LEADER_SECONDS).topics[topic].error
                if error is not None and error.code() in _MISSING and not self._is_new(topic):
                    raise _no_such_topic(topic)

    def _request_offsets(
        self, partitions: list[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        specs = {KafkaPartition(one.topic, one.partition): spec for one in partitions}
        futures: Mapping[KafkaPartition, Future[Any]] = self._clients.admin.list_offsets(
            specs, isolation_level=isolation, request_timeout=LEADER_SECONDS
        )
        found = {}
        for key, future in futures.items():
            partition = TopicPartition(key.topic, key.partition)
            try:
                found[partition] = int(future.result().offset)
            except KafkaException as cause:
                if error_of(cause).code() in _MISSING:
                    if self._is_new(partition.topic):
                        raise _not_everywhere(partition) from None
                    raise _no_such_partition(partition) from None
                with translated_errors(f"offsets of {partition} cannot be read"):
                    raise
            if found[partition] < NO_RECORD:  # what librdkafka returns while the leader changes
                raise LogError(
                    "log-unreachable", f"{partition} has no leader", "wait for the broker", retryable=True
                )
        return found

    def _wait_until_visible(self, name: str) -> TopicInfo:
        """Return the topic once it can be described."""
        deadline = time.monotonic() + PROPAGATION_SECONDS
        while True:
            try:
                return self.describe(name)
            except LogError as error:
                if time.monotonic() > deadline or not (error.retryable or error.code.startswith("no-such-")):
                    raise
                time.sleep(NAP_SECONDS)


def _then_uid(described: Future[Any]) -> Future[str]:
    answer: Future[str] = Future()

    def take(done: Future[Any]) -> None:
        error = done.exception()
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(str(done.result().topic_id))

    described.add_done_callback(take)
    return answer


def _as_requested(spec: TopicSpec, found: TopicInfo) -> TopicInfo:
    if found.partitions != spec.partitions:
        raise LogError(
            "partition-count",
            f"topic {spec.name!r} has {found.partitions} partitions, but {spec.partitions} were requested",
            "request the count that it has, or use another name",
        )
    requested = spec.config.get(POLICY, "delete")
    if found.policy != requested:
        raise LogError(
            "other-policy",
            f"topic {spec.name!r} has cleanup.policy {found.policy!r}, but {requested!r} was requested",
            "request the policy that it has, or use another name",
        )
    check_event_times(found)
    return found


def _no_such_topic(name: str) -> LogError:
    return LogError("no-such-topic", f"there is no topic {name!r}", "create it first, or check the name")


def _not_everywhere(partition: TopicPartition) -> LogError:
    message = f"{partition} was just created, and not every broker knows it yet"
    return LogError("log-unreachable", message, "wait a second", retryable=True)


def _no_such_partition(partition: TopicPartition) -> LogError:
    return LogError(
        "no-such-topic", f"there is no partition {partition}", "create the topic first, or check the name"
    )
