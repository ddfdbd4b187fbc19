"""What `tidegate doctor` asks a cluster. No topic is made and no record written.

The clocks of this host and the brokers are not compared: no answer that librdkafka gives carries a broker's
time, and a record written to learn it would stay.
"""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tidegate.errors import LogError
from tidegate.log.kafka.clients import Clients
from tidegate.log.kafka.error_mapping import error_of, translated_errors
from tidegate.log.kafka.topics import ASK_SECONDS, Topics
from tidegate.log.topic import TopicSpec

COPIES = "default.replication.factor"
IN_SYNC = "min.insync.replicas"


class Checkup:
    """Questions to one cluster; each gives what was found, or raises with a hint."""

    def __init__(self, clients: Clients, topics: Topics) -> None:
        self._clients = clients
        self._topics = topics

    def brokers(self) -> int:
        with translated_errors("brokers cannot be listed"):
            return len(self._clients.admin.list_topics(timeout=ASK_SECONDS).brokers)

    def may_create(self, spec: TopicSpec) -> None:
        """Whether such a topic could be made: the broker only looks at it."""
        self._topics.create_dry(spec)

    def copies(self) -> tuple[int, int] | None:
        """How many copies a new topic gets, and how many must be there to write; None if we may not know.

        LogError `too-few-copies` where nothing could be written at all.
        """
        said = self._broker_config()
        if said is None:
            return None
        own = self._clients.replicas
        copies = int(said[COPIES]) if own < 0 else own
        needed = int(self._clients.topic_config.get(IN_SYNC, said[IN_SYNC]))
        if copies < needed:
            raise LogError(
                "too-few-copies",
                f"a new topic gets {copies} copies, and {needed} must be there before a record is taken",
                f'write [kafka.topics] "replication.factor" = {needed + 1}, or ask for a lower {IN_SYNC}',
            )
        return copies, needed

    def _broker_config(self) -> dict[str, str] | None:
        admin = self._clients.admin
        with translated_errors("the brokers' settings cannot be read"):
            node = next(iter(admin.list_topics(timeout=ASK_SECONDS).brokers))
            resource = ConfigResource(ResourceType.BROKER, str(node))
            try:
                found = admin.describe_configs([resource], request_timeout=ASK_SECONDS)[resource].result()
            except KafkaException as cause:
                if error_of(cause).code() != KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                    raise
                return None
        return {name: str(found[name].value) for name in (COPIES, IN_SYNC)}
