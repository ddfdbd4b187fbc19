"""The checks that `tidegate doctor` runs on a cluster. They create no topic and write no record.

The clocks of this host and the brokers are not compared: librdkafka exposes no response with a broker's time,
and a record written to learn it would stay.
"""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tidegate.errors import LogError
from tidegate.log.kafka.clients import Clients
from tidegate.log.kafka.error_mapping import error_of, translated_errors
from tidegate.log.kafka.topics import REQUEST_SECONDS, Topics
from tidegate.log.topic import TopicSpec

COPIES = "default.replication.factor"
IN_SYNC = "min.insync.replicas"


class Checkup:
    """Checks of one cluster; each returns what it found, or raises an error with a hint."""

    def __init__(self, clients: Clients, topics: Topics) -> None:
        self._clients = clients
        self._topics = topics

    def brokers(self) -> int:
        with translated_errors("brokers cannot be listed"):
            return len(self._clients.admin.list_topics(timeout=REQUEST_SECONDS).brokers)

    def may_create(self, spec: TopicSpec) -> None:
        """Raise unless such a topic could be created: the broker only validates the request."""
        self._topics.create_dry(spec)

    def copies(self) -> tuple[int, int] | None:
        """Return the replicas of a new topic, and how many must be in sync to write; None without permission.

        Raises LogError `too-few-copies` if nothing could be written at all.
        """
        config = self._broker_config()
        if config is None:
            return None
        configured = self._clients.replicas
        copies = int(config[COPIES]) if configured < 0 else configured
        needed = int(self._clients.topic_config.get(IN_SYNC, config[IN_SYNC]))
        if copies < needed:
            raise LogError(
                "too-few-copies",
                f"a new topic gets {copies} copies, and {needed} must be in sync before a record is accepted",
                f'set [kafka.topics] "replication.factor" = {needed + 1}, or lower {IN_SYNC} on the brokers',
            )
        return copies, needed

    def _broker_config(self) -> dict[str, str] | None:
        admin = self._clients.admin
        with translated_errors("the brokers' settings cannot be read"):
            node = next(iter(admin.list_topics(timeout=REQUEST_SECONDS).brokers))
            resource = ConfigResource(ResourceType.BROKER, str(node))
            try:
                found = admin.describe_configs([resource], request_timeout=REQUEST_SECONDS)[resource].result()
            except KafkaException as cause:
                if error_of(cause).code() != KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                    raise
                return None
        return {name: str(found[name].value) for name in (COPIES, IN_SYNC)}
