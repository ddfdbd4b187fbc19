"""Topics of a cluster: created, described, deleted, and where their partitions begin and end."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Place
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

ASK_SECONDS = 20.0
LEADER_SECONDS = 2.0
"""A leader that is gone is waited for in vain: another one must be found."""
SHOWN_SECONDS = 20.0
"""A topic that was created or deleted shows everywhere after so long at most."""
FRESH_SECONDS = 5.0
"""So long after a topic was created, a broker that does not know it yet is asked again."""
NAP_SECONDS = 0.02
TRUSTED_SECONDS = 30.0
GRACE_SECONDS = 0.25
"""A commit is acknowledged before its markers are written: so long they may take."""
KEPT = {"retention.ms": str(DEFAULTS["retention.ms"])}
"""Created by us a topic keeps its history, whatever the broker does with others."""
NO_RECORD = -1
"""The offset of a time after which no record came."""
EARLIEST: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_KNOWN = frozenset([*DEFAULTS, POLICY, RATIO, TIMES])
_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID)


class Topics:
    """What the cluster says of its topics."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._seen: dict[str, tuple[float, TopicInfo]] = {}
        self._created: dict[str, float] = {}

    def create(self, spec: TopicSpec) -> TopicInfo:
        self._create(spec, dry=False)
        self._seen.pop(spec.name, None)
        self._created[spec.name] = time.monotonic()
        return _as_asked(spec, self._shown(spec.name))

    def create_dry(self, spec: TopicSpec) -> None:
        """Raise what `create` would raise, and make nothing."""
        self._create(spec, dry=True)

    def describe(self, name: str) -> TopicInfo:
        while True:
            try:
                return self._describe(name)
            except LogError as error:
                if error.code != "no-such-topic" or not self._is_fresh(name):
                    raise
                time.sleep(NAP_SECONDS)

    def _is_fresh(self, name: str) -> bool:
        """Whether it was created so recently that not every broker may know it."""
        return time.monotonic() < self._created.get(name, -FRESH_SECONDS) + FRESH_SECONDS

    def _describe(self, name: str) -> TopicInfo:
        admin, resource = self._clients.admin, ConfigResource(ResourceType.TOPIC, name)
        described = admin.describe_topics(TopicCollection([name]), request_timeout=ASK_SECONDS)[name]
        config = admin.describe_configs([resource], request_timeout=ASK_SECONDS)[resource]
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
        """Asks for the uids of topics, and does not wait."""
        asked = self._clients.admin.describe_topics(TopicCollection(list(names)), request_timeout=ASK_SECONDS)
        return {name: _then_uid(future) for name, future in asked.items()}

    def checked(self, name: str) -> TopicInfo:
        """The topic as described a moment ago: for checks of records, where offsets do not matter."""
        at, info = self._seen.get(name, (0.0, None))
        if info is None or time.monotonic() - at > TRUSTED_SECONDS:
            info = self.describe(name)
            self._seen[name] = (time.monotonic(), info)
        return info

    def names(self) -> list[str]:
        with translated_errors("topics cannot be listed"):
            found = self._clients.admin.list_topics(timeout=ASK_SECONDS).topics
        return sorted(name for name in found if not name.startswith("__"))

    def delete(self, name: str) -> None:
        self._seen.pop(name, None)
        self._created.pop(name, None)
        try:
            self._clients.admin.delete_topics([name], request_timeout=ASK_SECONDS)[name].result()
        except KafkaException as cause:
            if error_of(cause).code() in _MISSING:
                raise _no_such_topic(name) from None
            with translated_errors(f"topic {name!r} cannot be deleted"):
                raise
        deadline = time.monotonic() + SHOWN_SECONDS
        while name in self.names() and time.monotonic() < deadline:
            time.sleep(NAP_SECONDS)

    def ends(self, partitions: Iterable[TopicPartition], *, committed: bool) -> dict[TopicPartition, Offset]:
        """The next offset of each. A committed end waits a moment for transactions that are just ending:
        their commit may have been acknowledged, and who was told so expects to see it."""
        asked = list(partitions)
        ends = self._latest(asked, IsolationLevel.READ_UNCOMMITTED)
        if not committed:
            return ends
        deadline = time.monotonic() + GRACE_SECONDS
        while True:
            stable = self._latest(asked, IsolationLevel.READ_COMMITTED)
            if all(stable[one] >= ends[one] for one in asked) or time.monotonic() > deadline:
                return stable
            time.sleep(0.002)

    def offset_at(self, partition: TopicPartition, timestamp: int) -> Offset:
        spec = OffsetSpec.for_timestamp(timestamp)
        found = self._offsets([partition], spec, IsolationLevel.READ_COMMITTED)[partition]
        return self.ends([partition], committed=True)[partition] if found < 0 else Offset(found)

    def purge(self, partition: TopicPartition, before: Offset) -> None:
        place = Place(partition.topic, partition.partition, before)
        with translated_errors(f"{partition} cannot be purged"):
            for future in self._clients.admin.delete_records([place], request_timeout=ASK_SECONDS).values():
                future.result()

    def _create(self, spec: TopicSpec, *, dry: bool) -> None:
        """It may be there already."""
        config = KEPT | self._clients.topic_config | dict(spec.config) | {TIMES: EVENT_TIMES}
        new = NewTopic(spec.name, spec.partitions, self._clients.replicas, config=config)
        with translated_errors(f"topic {spec.name!r} cannot be created"):
            asked = self._clients.admin.create_topics([new], validate_only=dry, request_timeout=ASK_SECONDS)
            try:
                asked[spec.name].result()
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
        """Again while a partition has no leader, or another one than was known."""
        deadline = time.monotonic() + ASK_SECONDS
        while True:
            try:
                return self._ask_offsets(partitions, spec, isolation)
            except LogError as error:
                if not error.retryable or time.monotonic() > deadline:
                    raise
                time.sleep(NAP_SECONDS)
                self._learn_leaders({one.topic for one in partitions})

    def _learn_leaders(self, topics: Iterable[str]) -> None:
        """librdkafka asks the leaders that it knows of, and does not look for others by itself."""
        for topic in topics:
            with suppress(KafkaException):
                told = self._clients.admin.list_topics(topic, timeout=LEADER_SECONDS).topics[topic].error
                if told is not None and told.code() in _MISSING and not self._is_fresh(topic):
                    raise _no_such_topic(topic)

    def _ask_offsets(
        self, partitions: list[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        places = {Place(one.topic, one.partition): spec for one in partitions}
        asked: Mapping[Place, Future[Any]] = self._clients.admin.list_offsets(
            places, isolation_level=isolation, request_timeout=LEADER_SECONDS
        )
        found = {}
        for place, future in asked.items():
            partition = TopicPartition(place.topic, place.partition)
            try:
                found[partition] = int(future.result().offset)
            except KafkaException as cause:
                if error_of(cause).code() in _MISSING:
                    if self._is_fresh(partition.topic):
                        raise _not_everywhere(partition) from None
                    raise _no_such_partition(partition) from None
                with translated_errors(f"offsets of {partition} cannot be read"):
                    raise
            if found[partition] < NO_RECORD:  # what librdkafka says while the leader changes
                raise LogError(
                    "log-unreachable", f"{partition} has no leader", "wait for the broker", retryable=True
                )
        return found

    def _shown(self, name: str) -> TopicInfo:
        """The topic, once it is there for everyone who asks."""
        deadline = time.monotonic() + SHOWN_SECONDS
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


def _as_asked(spec: TopicSpec, found: TopicInfo) -> TopicInfo:
    if found.partitions != spec.partitions:
        raise LogError(
            "partition-count",
            f"topic {spec.name!r} has {found.partitions} partitions, asked for were {spec.partitions}",
            "ask for the count it has, or use another name",
        )
    asked = spec.config.get(POLICY, "delete")
    if found.policy != asked:
        raise LogError(
            "other-policy",
            f"topic {spec.name!r} has cleanup.policy {found.policy!r}, asked for was {asked!r}",
            "ask for the policy it has, or use another name",
        )
    check_event_times(found)
    return found


def _no_such_topic(name: str) -> LogError:
    return LogError("no-such-topic", f"there is no topic {name!r}", "create it first, or check the name")


def _not_everywhere(partition: TopicPartition) -> LogError:
    message = f"{partition} was just created, and not every broker knows it"
    return LogError("log-unreachable", message, "wait a second", retryable=True)


def _no_such_partition(partition: TopicPartition) -> LogError:
    return LogError(
        "no-such-topic", f"there is no partition {partition}", "create the topic first, or check the name"
    )
