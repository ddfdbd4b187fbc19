"""The topics of the log, and the ids of their partitions.

Ids are never reused, so the cached id of a deleted topic finds nothing, and never another topic.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import apsw
import msgspec

from tidegate.errors import LogError
from tidegate.log.sqlite.database import Database, fetch
from tidegate.log.sqlite.layout import (
    PARTITION_COLUMNS,
    PartitionRow,
    check,
    corrupt,
    seal,
    to_partition,
)
from tidegate.log.topic import TopicInfo, TopicSpec, check_config
from tidegate.types import TopicPartition

_TOPIC_COLUMNS = "id, name, uid, partitions, config, seal"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A topic with the ids of its partitions, by number."""

    info: TopicInfo
    partitions: tuple[PartitionRow, ...]


class Catalog:
    """Creates, finds and deletes topics."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache: dict[str, CatalogEntry] = {}
        self._versions: dict[str, int] = {}
        """The `data_version` at which each cached topic was read: as long as it stays, so does the topic."""

    def create(self, spec: TopicSpec) -> TopicInfo:
        """Create the topic, or check that the existing one has the requested partitions and policy."""
        wanted = TopicInfo(spec.name, uuid.uuid4().hex, check_config(spec.config), (0,) * spec.partitions)
        with self._database.write() as connection:
            existing = _find(connection, spec.name)
            if existing is None:
                _insert(connection, wanted)
                return wanted
        found = existing.info
        if found.partitions != spec.partitions:
            raise LogError(
                "partition-count",
                f"topic {spec.name!r} has {found.partitions} partitions,"
                f" but {spec.partitions} were requested",
                "request the count that it has, or delete the topic first",
            )
        if found.policy != wanted.policy:
            raise LogError(
                "other-policy",
                f"topic {spec.name!r} has cleanup.policy {found.policy!r},"
                f" but {wanted.policy!r} was requested",
                "events and tables need separate topics; use another name",
            )
        return found

    def find(self, name: str) -> CatalogEntry:
        """Return the topic as it is now; raise LogError `no-such-topic`."""
        version = self._database.version()
        cached = self._cache.get(name)
        if cached is not None and self._versions.get(name) == version:
            return cached
        with self._database.read() as connection:
            entry = _find(connection, name)
        if entry is None:
            self._cache.pop(name, None)
            raise LogError("no-such-topic", f"there is no topic {name!r}", f"tidegate topics create {name}")
        self._cache[name], self._versions[name] = entry, version
        return entry

    def cached(self, partition: TopicPartition) -> CatalogEntry:
        """Return the cached topic if it has this partition, else look it up. Ids and config stay valid until
        the topic is deleted."""
        entry = self._cache.get(partition.topic)
        if entry is None or partition.partition >= len(entry.partitions):
            entry = self.find(partition.topic)
        return entry

    def partition_id(self, partition: TopicPartition) -> int:
        """Return the id of one partition."""
        return _id_in(self.cached(partition), partition)

    def current_ids(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the partitions' current ids, even if another process has recreated their topics."""
        listed = list(partitions)
        entries = {name: self.find(name) for name in {partition.topic for partition in listed}}
        return {partition: _id_in(entries[partition.topic], partition) for partition in listed}

    def forget(self, name: str) -> None:
        """Drop the topic from the cache."""
        self._cache.pop(name, None)

    @contextmanager
    def cached_ids(self, partitions: Iterable[TopicPartition]) -> Iterator[None]:
        """Work with cached ids inside. If a topic turns out to be deleted, drop it from the cache, so that
        its name is looked up the next time: another process may have recreated it."""
        try:
            yield
        except LogError as error:
            if error.code == "no-such-topic":
                for partition in partitions:
                    self.forget(partition.topic)
            raise

    def names(self) -> list[str]:
        """Return the names of all topics, sorted."""
        with self._database.read() as connection:
            rows = fetch(connection, f"SELECT {_TOPIC_COLUMNS} FROM topic WHERE name IS NOT NULL")  # noqa: S608
        for row in rows:
            check(f"topic {row[1]!r}", row)
        return sorted(row[1] for row in rows)

    def entries(self) -> list[CatalogEntry]:
        """Return all topics as they are now."""
        with self._database.read() as connection:
            names = fetch(connection, "SELECT name FROM topic WHERE name IS NOT NULL")
            found = [_find(connection, name) for (name,) in names]
        return [entry for entry in found if entry is not None]

    def delete(self, name: str) -> None:
        """Delete the topic at once; its stored batches are removed later, in pieces."""
        entry = self.find(name)
        with self._database.write() as connection:
            row = connection.execute(
                "SELECT id, uid, partitions, config FROM topic WHERE name = ? AND uid = ?",
                (name, entry.info.uid),
            ).fetchone()
            if row is not None:
                key, uid, partitions, config = row
                sealed = seal(key, None, uid, partitions, config)
                connection.execute("UPDATE topic SET name = NULL, seal = ? WHERE id = ?", (sealed, key))
        self.forget(name)


def _find(connection: apsw.Connection, name: str) -> CatalogEntry | None:
    row = connection.execute(
        f"SELECT {_TOPIC_COLUMNS} FROM topic WHERE name = ?",  # noqa: S608 - constants
        (name,),
    ).fetchone()
    if row is None:
        return None
    check(f"topic {name!r}", row)
    key, _, uid, count, config, _ = row
    rows = connection.execute(
        f"SELECT {PARTITION_COLUMNS} FROM partition WHERE topic = ? ORDER BY number",  # noqa: S608 - constants
        (key,),
    ).fetchall()
    partitions = tuple(to_partition(row) for row in rows)
    if [partition.number for partition in partitions] != list(range(count)):
        raise corrupt(f"a partition of topic {name!r} is missing")
    starts = tuple(partition.start for partition in partitions)
    return CatalogEntry(
        TopicInfo(name, uid, msgspec.json.decode(config, type=dict[str, str]), starts), partitions
    )


def _id_in(entry: CatalogEntry, partition: TopicPartition) -> int:
    if not 0 <= partition.partition < len(entry.partitions):
        raise LogError(
            "no-such-partition",
            f"topic {partition.topic!r} has no partition {partition.partition}",
            "describe the topic first",
        )
    return entry.partitions[partition.partition].id


def _insert(connection: apsw.Connection, info: TopicInfo) -> None:
    config = msgspec.json.encode(info.config).decode()
    connection.execute(
        "INSERT INTO topic (name, uid, partitions, config, seal) VALUES (?, ?, ?, ?, 0)",
        (info.name, info.uid, info.partitions, config),
    )
    key = connection.last_insert_rowid()
    sealed = seal(key, info.name, info.uid, info.partitions, config)
    connection.execute("UPDATE topic SET seal = ? WHERE id = ?", (sealed, key))
    for number in range(info.partitions):
        connection.execute(
            "INSERT INTO partition (topic, number, start, next, clean, seal) VALUES (?, ?, 0, 0, 0, 0)",
            (key, number),
        )
        row = PartitionRow(connection.last_insert_rowid(), key, number, 0, 0, 0)
        connection.execute("UPDATE partition SET seal = ? WHERE id = ?", (row.sealed(), row.id))
