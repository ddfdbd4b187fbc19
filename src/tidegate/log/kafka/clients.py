"""From `[kafka]` to librdkafka's clients.

    [kafka]                      for every client, by librdkafka's own names
    [kafka.producer]             for writers alone
    [kafka.consumer]             for readers alone
    [kafka.topics]               for topics that tidegate creates: "replication.factor", any config of topics

What the protocol rests on cannot be set; all else can. Values are never shown: many of them are secrets.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tidegate.errors import ConfigError
from tidegate.log.location import KAFKA_PARTS
from tidegate.log.topic import TIMES

OURS = frozenset(
    [
        "acks",
        "allow.auto.create.topics",
        "auto.offset.reset",
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
OURS_OF_TOPICS = frozenset([TIMES])
REPLICAS = "replication.factor"
READER_GROUP = "tidegate"
"""librdkafka asks for a group where none is used: partitions are assigned and nothing is committed."""

CONNECT_SECONDS = 5.0
# A client that names a topic must not make it: it would get the broker's defaults, also after a deletion.
_COMMON: dict[str, Any] = {
    "allow.auto.create.topics": False,
    "topic.metadata.refresh.interval.ms": 30_000,
    "reconnect.backoff.max.ms": 1_000,
}
# The end of a partition is told when a fetch comes back, so an empty one must not wait for long.
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
_PRODUCER: dict[str, Any] = {
    "enable.idempotence": True,
    "retry.backoff.ms": 5,
    "queue.buffering.max.messages": 500_000,
    "message.max.bytes": 64 << 20,
    "compression.type": "lz4",
}

_ADMINS: set[AdminClient] = set()
"""Held until they are closed. Garbage collection may run in the thread in which one of them gets its answers,
and one that is ended from its own thread aborts the process."""
_log = logging.getLogger("tidegate.kafka")
_log.addHandler(logging.NullHandler())  # whoever wants to see them asks for them
_log.addFilter(lambda record: "CONFWARN" not in record.getMessage())  # one section serves all clients


class Clients:
    """Makes the clients of one cluster."""

    def __init__(self, servers: str, settings: Mapping[str, Any]) -> None:
        self._parts = {name: _flat(name, settings.get(name, {})) for name in KAFKA_PARTS}
        general = _flat("", {name: value for name, value in settings.items() if name not in KAFKA_PARTS})
        given = general.pop("bootstrap.servers", "")
        if servers and given and servers != given:
            raise ConfigError(
                "bad-setting",
                "both the URL of the log and [kafka] bootstrap.servers name brokers",
                "set one of the two",
            )
        self.servers = servers or given
        if not self.servers:
            raise ConfigError("bad-log-url", "kafka:// names no broker", 'write log = "kafka://host:9092"')
        self._general = {"bootstrap.servers": self.servers, **_COMMON, **general}
        self.replicas = _replicas(self._parts["topics"])
        """How many copies a created topic has; -1 leaves it to the broker."""
        self._lock = threading.Lock()
        self._admin: AdminClient | None = None
        self.last_error: KafkaError | None = None

    @property
    def topic_config(self) -> dict[str, str]:
        """What a created topic gets where nobody says otherwise."""
        return {name: str(value) for name, value in self._parts["topics"].items() if name != REPLICAS}

    @property
    def admin(self) -> AdminClient:
        """Made when it is first needed, and shared."""
        with self._lock:
            admin = self._admin
            if admin is None:
                admin = self._admin = _made(AdminClient, self._general | {"error_cb": self._failed})
                _ADMINS.add(admin)
            return admin

    def close(self) -> None:
        """Let go of what is shared."""
        with self._lock:
            if self._admin is not None:
                _ADMINS.discard(self._admin)
                self._admin = None

    def consumer(self, group: str = READER_GROUP, **callbacks: Callable[..., None]) -> Consumer:
        settings = self._general | _CONSUMER | self._parts["consumer"] | callbacks
        made: Consumer = _made(Consumer, settings | {"group.id": group, "error_cb": self._failed})
        return made

    def producer(self, defaults: Mapping[str, Any]) -> Producer:
        """`defaults` are for this one alone; what the user sets goes before them."""
        settings = _PRODUCER | dict(defaults) | self._general | self._parts["producer"]
        made: Producer = _made(Producer, settings | {"error_cb": self._failed})
        with suppress(KafkaException):  # connected once, it opens in 60 ms instead of 60 or 510
            made.cluster_id(CONNECT_SECONDS)
        return made

    def producer_setting(self, name: str, default: int) -> int:
        """A number that writers may be given."""
        return int(self._parts["producer"].get(name, self._general.get(name, default)))

    def _failed(self, error: KafkaError) -> None:
        """Told by librdkafka of what it meets meanwhile; it goes on by itself. That all brokers are down is
        what comes of another error, such as a refused password."""
        if self.last_error is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.last_error = error


def _made(kind: Any, settings: dict[str, Any]) -> Any:
    try:
        return kind(settings, logger=_log)
    except KafkaException as cause:
        # Its text may repeat a value; the name is enough to find it.
        text = cause.args[0].str() if isinstance(cause.args[0], KafkaError) else ""
        named = (name for name in settings if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text))
        name = max(named, key=len, default="a setting")
        raise ConfigError(
            "bad-setting",
            f"[kafka] {name} cannot be used",
            "look it up in librdkafka's list of configuration properties; a file must be there on every host",
        ) from None


def _replicas(topics: Mapping[str, Any]) -> int:
    try:
        return int(topics.get(REPLICAS, -1))
    except ValueError:
        raise ConfigError(
            "bad-setting", f"[kafka.topics] {REPLICAS} is no number", f'write "{REPLICAS}" = 3'
        ) from None


def _flat(part: str, settings: Any) -> dict[str, Any]:
    """Single values by librdkafka's names; a value of ours is refused by name."""
    section = f"[kafka.{part}]" if part else "[kafka]"
    if not isinstance(settings, Mapping):
        raise ConfigError("bad-setting", f"{section} is no section", "see docs/kafka.md")
    for name, value in settings.items():
        if isinstance(value, Mapping | list):
            raise ConfigError("bad-setting", f"{section} {name} is no single value", "see docs/kafka.md")
        if name in (OURS_OF_TOPICS if part == "topics" else OURS):
            raise ConfigError("bad-setting", f"{section} {name} is for tidegate to decide", "leave it out")
    return dict(settings)
