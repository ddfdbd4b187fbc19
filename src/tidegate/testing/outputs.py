"""What a driver shows of the topics that an app writes."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from tidegate.app import App
from tidegate.connect.connection import Connection
from tidegate.errors import ConfigError
from tidegate.log import names
from tidegate.log.protocol import Log
from tidegate.log.route import partitions_of
from tidegate.record import Record
from tidegate.testing.views import all_records
from tidegate.topics import TableTopic, Topic
from tidegate.topology.graph import Topology
from tidegate.types import TopicPartition

K = TypeVar("K")
V = TypeVar("V")


class DriverOutputs:
    """The topics of an app, read back."""

    log: Log

    def __init__(self, app: App, topology: Topology, connection: Connection) -> None:
        self._app = app
        self._topology = topology
        self._connection = connection
        self._before_upgrade: dict[TopicPartition, int] = {}

    def rows(self, table: TableTopic[K, V]) -> dict[K, V]:
        """Return the rows of a table topic."""
        return self._connection.rows(table) if self._is_there(table) else {}

    @overload
    def records(self, topic: Topic[K, V]) -> list[Record[K, V]]: ...
    @overload
    def records(self, topic: TableTopic[K, V]) -> list[Record[K, V | None]]: ...
    def records(self, topic: Any) -> list[Record[Any, Any]]:
        """Return the records of a topic, by timestamp; none if nothing was written yet."""
        return list(self._connection.read(topic)) if self._is_there(topic) else []

    @overload
    def values(self, topic: Topic[K, V]) -> list[V]: ...
    @overload
    def values(self, topic: TableTopic[K, V]) -> list[V | None]: ...
    def values(self, topic: Any) -> list[Any]:
        """Return the values of a topic's records."""
        return [record.value for record in self.records(topic)]

    @overload
    def by_key(self, topic: Topic[K, V]) -> dict[K, list[V]]: ...
    @overload
    def by_key(self, topic: TableTopic[K, V]) -> dict[K, list[V | None]]: ...
    def by_key(self, topic: Any) -> dict[Any, list[Any]]:
        """Return the values of each key, in order."""
        found: dict[Any, list[Any]] = {}
        for record in self.records(topic):
            found.setdefault(record.key, []).append(record.value)
        return found

    @overload
    def by_partition(self, topic: Topic[K, V]) -> list[list[tuple[K, V]]]: ...
    @overload
    def by_partition(self, topic: TableTopic[K, V]) -> list[list[tuple[K, V | None]]]: ...
    def by_partition(self, topic: Any) -> list[list[tuple[Any, Any]]]:
        """Return (key, value) of the records of each partition, in order."""
        if not self._is_there(topic):
            return []
        return [
            [(record.key, record.value) for record in self._connection.read(topic, partition=partition)]
            for partition in range(self.log.describe(topic.name).partitions)
        ]

    def dead_letters(self) -> list[Record[bytes | None, bytes | None]]:
        """Return the records that failed under `on_error="dead-letter"`, as bytes, with the error in their
        headers. They may have no key and no value."""
        topic = names.dead_letters(self._app.id)
        return all_records(self.log, topic) if topic in self.log.names() else []

    @overload
    def published(self, topic: TableTopic[K, V]) -> list[tuple[K, V | None]]: ...
    @overload
    def published(self, topic: Topic[K, V]) -> list[tuple[K, V]]: ...
    def published(self, topic: Any) -> list[tuple[Any, Any]]:
        """Return (key, value) of the records that the last upgrade sent to a topic, by partition. Call it
        before the next `run`."""
        if not self._is_there(topic):
            return []
        return [
            (record.key, record.value)
            for partition in partitions_of(self.log.describe(topic.name))
            for record in self._connection.read(
                topic, partition=partition.partition, start=self._before_upgrade.get(partition, 0)
            )
        ]

    def _mark_published(self) -> None:
        """Remember where the topics end, before an upgrade."""
        partitions = [
            partition for name in self.log.names() for partition in partitions_of(self.log.describe(name))
        ]
        ends = self.log.ends(partitions, committed=False)
        self._before_upgrade = {partition: int(end) for partition, end in ends.items()}

    def _is_there(self, topic: Topic[Any, Any] | TableTopic[Any, Any]) -> bool:
        """Return whether the log has the topic. Raises if the app does not use it either: a mistake in the
        test."""
        if topic.name in self.log.names():
            return True
        if not any(node.topic is topic for node in self._topology.nodes.values()):
            raise ConfigError(
                "no-such-topic",
                f"app {self._app.id!r} does not use {topic!r}, and the log does not have it",
                "name one that it uses",
            )
        return False
