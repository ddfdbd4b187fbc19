"""Which topics exist, and the ids of their partitions.

Ids are never used again, so a cached one of a deleted topic finds nothing rather than another topic.
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
class Entry:
    """A topic with the ids of its partitions, by number."""

    info: TopicInfo
    partitions: tuple[PartitionRow, ...]


class Catalog:
    """Creates, finds and deletes topics."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache: dict[str, Entry] = {}

    def create(self, spec: TopicSpec) -> TopicInfo:
        """Create the topic, or check that the one of that name is as asked for."""
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
                f"topic {spec.name!r} has {found.partitions} partitions, asked for were {spec.partitions}",
                "ask for the count it has, or delete the topic first",
            )
        if found.policy != wanted.policy:
            raise LogError(
                "other-policy",
                f"topic {spec.name!r} has cleanup.policy {found.policy!r}, asked for was {wanted.policy!r}",
                "events and tables need topics of their own; use another name",
            )
        return found

    def find(self, name: str) -> Entry:
        """The topic as it is now."""
        with self._database.read() as connection:
            entry = _find(connection, name)
        if entry is None:
            self._cache.pop(name, None)
            raise LogError("no-such-topic", f"there is no topic {name!r}", f"tidegate topics create {name}")
        self._cache[name] = entry
        return entry

    def cached(self, partition: TopicPartition) -> Entry:
        """The topic as it was when last looked up, if it had this partition: its ids and config hold until
        it is deleted."""
        entry = self._cache.get(partition.topic)
        if entry is None or partition.partition >= len(entry.partitions):
            entry = self.find(partition.topic)
        return entry

    def partition_id(self, partition: TopicPartition) -> int:
        """The id of one partition."""
        return _id_in(self.cached(partition), partition)

    def current_ids(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The ids of partitions now, whatever another process deleted and created meanwhile."""
        listed = list(partitions)
        entries = {name: self.find(name) for name in {partition.topic for partition in listed}}
        return {partition: _id_in(entries[partition.topic], partition) for partition in listed}

    def forget(self, name: str) -> None:
        """Look the topic up again next time."""
        self._cache.pop(name, None)

    @contextmanager
    def trusted(self, partitions: Iterable[TopicPartition]) -> Iterator[None]:
        """Work with cached ids. If a topic turns out to be deleted, its name is looked up the next time:
        another process may have created it again."""
        try:
            yield
        except LogError as error:
            if error.code == "no-such-topic":
                for partition in partitions:
                    self.forget(partition.topic)
            raise

    def names(self) -> list[str]:
        """All topics, sorted."""
        with self._database.read() as connection:
            rows = fetch(connection, f"SELECT {_TOPIC_COLUMNS} FROM topic WHERE name IS NOT NULL")  # noqa: S608
        for row in rows:
            check(f"topic {row[1]!r}", row)
        return sorted(row[1] for row in rows)

    def entries(self) -> list[Entry]:
        """All topics as they are now."""
        with self._database.read() as connection:
            names = fetch(connection, "SELECT name FROM topic WHERE name IS NOT NULL")
            found = [_find(connection, name) for (name,) in names]
        return [entry for entry in found if entry is not None]

    def delete(self, name: str) -> None:
        """The topic is gone at once; its bytes are swept in pieces later."""
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


def _find(connection: apsw.Connection, name: str) -> Entry | None:
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
        raise corrupt(f"topic {name!r} lost a partition")
    starts = tuple(partition.start for partition in partitions)
    return Entry(TopicInfo(name, uid, msgspec.json.decode(config, type=dict[str, str]), starts), partitions)


def _id_in(entry: Entry, partition: TopicPartition) -> int:
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
