"""Create librdkafka's clients from the section `[kafka]`.

    [kafka]                      for every client, by librdkafka's own names
    [kafka.producer]             for writers alone
    [kafka.consumer]             for readers alone
    [kafka.topics]               for topics that tidegate creates: "replication.factor", any config of topics

Settings that the protocol depends on cannot be set; all others can. Values are never shown: many are secrets.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tidegate.errors import ConfigError
from tidegate.log.kafka.bulk import BulkPages, bulk, with_plugin
from tidegate.log.kafka.bulk_sender import BulkSender
from tidegate.log.kafka.cluster_id import await_cluster_id
from tidegate.log.kafka.pages import ClientPages, Pages
from tidegate.log.kafka.sender import ClientSender, Sender
from tidegate.log.location import KAFKA_PARTS
from tidegate.log.topic import TIMES

RESERVED = frozenset(
    [
        "acks",
        "allow.auto.create.topics",
        "auto.offset.reset",
        "delivery.report.only.error",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "group.instance.id",
        "isolation.level",
        "partitioner",
        "request.required.acks",
        "transactional.id",
    ]
)
RESERVED_FOR_TOPICS = frozenset([TIMES])
REPLICAS = "replication.factor"
READER_GROUP = "tidegate"
"""librdkafka requires a group id although none is used: partitions are assigned and nothing is committed."""

CONNECT_SECONDS = 5.0
"""How long a new producer waits for a broker: then its writer opens in 60 ms, and not sometimes in 510."""
# A client must not create topics by naming them: they would get the broker's defaults, also after a deletion.
_COMMON: dict[str, Any] = {
    "allow.auto.create.topics": False,
    "topic.metadata.refresh.interval.ms": 30_000,
    "reconnect.backoff.max.ms": 1_000,
}
# librdkafka reports the end of a partition when a fetch returns, so an empty fetch must not wait for long.
_CONSUMER: dict[str, Any] = {
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 50,
    "fetch.queue.backoff.ms": 5,
    "fetch.error.backoff.ms": 50,
    "queued.max.messages.kbytes": 32 << 10,
    "fetch.message.max.bytes": 4 << 20,
}
_BRIEF = {"fetch.wait.max.ms": 5}
"""For a reader that is closed at the end of a partition: 50 ms would be most of the time it takes."""
_PRODUCER: dict[str, Any] = {
    "enable.idempotence": True,
    "retry.backoff.ms": 5,
    "queue.buffering.max.messages": 500_000,
    "message.max.bytes": 64 << 20,
    "compression.type": "lz4",
}

_LOGIN, _LOGIN_BY_CLIENT = "sasl.oauthbearer.metadata.authentication.type", "aws_iam"
"""A way to log in that confluent-kafka has, and not librdkafka."""
_ADMINS: set[AdminClient] = set()
"""Kept referenced until they are closed. Garbage collection may run in an admin client's own callback thread,
and a client that is destroyed from its own thread aborts the process."""
_log = logging.getLogger("tidegate.kafka")
_log.addHandler(logging.NullHandler())  # silent unless the user configures this logger
_log.addFilter(lambda record: "CONFWARN" not in record.getMessage())  # [kafka] is shared by all client types


class Clients:
    """Creates the clients of one cluster."""

    def __init__(self, servers: str, settings: Mapping[str, Any], *, compiled: bool = True) -> None:
        """`compiled`: whether the module `tidegate_bulk` is used where it is installed."""
        self._bulk = bulk().module if compiled else None
        self._parts = {name: _flat(name, settings.get(name, {})) for name in KAFKA_PARTS}
        general = _flat("", {name: value for name, value in settings.items() if name not in KAFKA_PARTS})
        configured = general.pop("bootstrap.servers", "")
        if servers and configured and servers != configured:
            raise ConfigError(
                "bad-setting",
                "the URL of the log and [kafka] bootstrap.servers name different brokers",
                "set only one of the two",
            )
        self.servers = servers or configured
        if not self.servers:
            raise ConfigError("bad-log-url", "kafka:// names no broker", 'set log = "kafka://host:9092"')
        self._general = {"bootstrap.servers": self.servers, **_COMMON, **general}
        self.replicas = _replicas(self._parts["topics"])
        """How many replicas a created topic gets; -1 leaves it to the broker."""
        self._lock = threading.Lock()
        self._admin: AdminClient | None = None
        self.last_error: KafkaError | None = None

    @property
    def topic_config(self) -> dict[str, str]:
        """The default config of created topics."""
        return {name: str(value) for name, value in self._parts["topics"].items() if name != REPLICAS}

    @property
    def admin(self) -> AdminClient:
        """The shared admin client, created at the first use."""
        with self._lock:
            admin = self._admin
            if admin is None:
                admin = self._admin = _create(AdminClient, self._general | {"error_cb": self._failed})
                _ADMINS.add(admin)
            return admin

    def close(self) -> None:
        """Release the shared admin client."""
        with self._lock:
            if self._admin is not None:
                _ADMINS.discard(self._admin)
                self._admin = None

    def consumer(self, group: str = READER_GROUP, **callbacks: Callable[..., None]) -> Consumer:
        return self._consumer(self._general | _CONSUMER | self._parts["consumer"] | callbacks, group)

    def reading(self, *, brief: bool = False) -> tuple[Consumer, Pages]:
        """Create a consumer for a reader, and what fetches its records."""
        settings = self._general | _CONSUMER | (_BRIEF if brief else {}) | self._parts["consumer"]
        if self._bulk is None:
            consumer = self._consumer(settings, READER_GROUP)
            return consumer, ClientPages(consumer)
        consumer = self._consumer(with_plugin(settings, self._bulk), READER_GROUP)
        number = self._bulk.created()
        return consumer, ClientPages(consumer) if number is None else BulkPages(self._bulk, number, consumer)

    def producer(self, defaults: Mapping[str, Any]) -> Producer:
        """Create a producer; `defaults` are for this one alone, and the user's settings override them."""
        made: Producer = _create(Producer, self._for_producer(defaults))
        await_cluster_id(made.cluster_id, CONNECT_SECONDS)
        return made

    def sender(self, defaults: Mapping[str, Any]) -> Sender:
        """Create what sends the records of a transactional writer; `defaults` as for `producer`."""
        settings = self._for_producer(defaults)
        if self._bulk is None or settings.get(_LOGIN) == _LOGIN_BY_CLIENT:
            return ClientSender(self.producer(defaults))
        made: BulkSender = _create(partial(BulkSender, self._bulk), settings)
        await_cluster_id(made.cluster_id, CONNECT_SECONDS)
        return made

    def _for_producer(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        own = {"error_cb": self._failed}
        return _PRODUCER | dict(defaults) | self._general | self._parts["producer"] | own

    def producer_setting(self, name: str, default: int) -> int:
        """Return a numeric producer setting."""
        return int(self._parts["producer"].get(name, self._general.get(name, default)))

    def _consumer(self, settings: dict[str, Any], group: str) -> Consumer:
        made: Consumer = _create(Consumer, settings | {"group.id": group, "error_cb": self._failed})
        return made

    def _failed(self, error: KafkaError) -> None:
        """Note an error that librdkafka met in the background; librdkafka continues by itself. "All brokers
        down" is only the consequence of another error, such as a refused password, so it does not replace
        one."""
        if self.last_error is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.last_error = error


def _create(kind: Any, settings: dict[str, Any]) -> Any:
    try:
        return kind(settings, logger=_log)
    except (KafkaException, ValueError) as cause:
        # The text may contain a value, which may be a secret, so only the setting's name is taken from it.
        text = cause.args[0].str() if isinstance(cause.args[0], KafkaError) else str(cause)
        named = (name for name in settings if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text))
        name = max(named, key=len, default="a setting")
        raise ConfigError(
            "bad-setting",
            f"[kafka] {name} cannot be used",
            "look it up in librdkafka's list of configuration properties; a file must exist on every host",
        ) from None


def _replicas(topics: Mapping[str, Any]) -> int:
    try:
        return int(topics.get(REPLICAS, -1))
    except ValueError:
        raise ConfigError(
            "bad-setting", f"[kafka.topics] {REPLICAS} is not a number", f'write "{REPLICAS}" = 3'
        ) from None


def _flat(part: str, settings: Any) -> dict[str, Any]:
    """Return a section's settings; raise ConfigError for a nested value or a setting that tidegate
    reserves."""
    section = f"[kafka.{part}]" if part else "[kafka]"
    if not isinstance(settings, Mapping):
        raise ConfigError("bad-setting", f"{section} is not a section", "see docs/kafka.md")
    for name, value in settings.items():
        if isinstance(value, Mapping | list):
            raise ConfigError("bad-setting", f"{section} {name} is not a single value", "see docs/kafka.md")
        if name in (RESERVED_FOR_TOPICS if part == "topics" else RESERVED):
            raise ConfigError("bad-setting", f"{section} {name} is set by tidegate itself", "remove it")
    return dict(settings)
