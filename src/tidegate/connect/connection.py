"""Sending to topics and reading them, typed by their declarations.

What `send` takes, `read` gives back. A `Topic` holds events, so None is no value of it, neither sent nor
read; a `TableTopic` holds rows, and None deletes one: reading it gives `V | None`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Any, NamedTuple, TypeVar, overload

from tidegate.clock import Clock, SystemClock
from tidegate.connect.typed_records import TimeLike, as_millis, decoded, encoded
from tidegate.errors import ConfigError, LogError
from tidegate.log.ensure import check_topic, ensure_topic
from tidegate.log.merged import ReadRange, follow, read_merged
from tidegate.log.protocol import Log
from tidegate.log.records import Headers, to_batch
from tidegate.log.route import Router, partitions_of
from tidegate.log.table import table_rows
from tidegate.log.topic import TopicInfo
from tidegate.record import Record
from tidegate.topics import TableTopic, Topic
from tidegate.types import Offset, TopicPartition

K = TypeVar("K")
V = TypeVar("V")


class Sent(NamedTuple):
    """Where the last record of a call stands."""

    topic: str
    partition: int
    offset: int


class Connection:
    """An open log and the typed ways into it. A context manager; safe to share between threads."""

    def __init__(
        self, log: Log, *, partitions: int = 4, clock: Clock | None = None, owned: bool = True
    ) -> None:
        self._log = log
        self._partitions = partitions
        self._clock = clock or SystemClock()
        self._owned = owned
        self._closed = False
        self._router = Router(log)

    @property
    def log(self) -> Log:
        """The log itself: bytes, transactions, offsets."""
        return self._log

    @overload
    def send(
        self,
        topic: Topic[K, V],
        key: K | None,
        *values: V,
        timestamp: TimeLike | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> Sent: ...
    @overload
    def send(
        self,
        topic: TableTopic[K, V],
        key: K,
        *values: V | None,
        timestamp: TimeLike | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> Sent: ...
    def send(
        self,
        topic: Topic[Any, Any] | TableTopic[Any, Any],
        key: Any,
        *values: Any,
        timestamp: TimeLike | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> Sent:
        """Append one record per value, all or none, and durable on return.

        After LogError `commit-unknown` they are all there or none is; after any other error none is, but for
        `offset-unknown` (on Kafka, for a single value): then the record is there.

        A topic that does not exist is created as it is declared. The key chooses the partition, as Kafka
        does it; without a key calls take turns. The event time is what the topic's `timestamp=` finds in
        the value, else `timestamp`, else now.
        """
        self._check_open()
        recorded = self._clock.now() if timestamp is None else as_millis(timestamp)
        rows = encoded(topic, key, values, recorded, headers)
        # Looked up each time: one that was made anew may have another number of partitions.
        info = ensure_topic(
            self._log,
            topic.name,
            table=isinstance(topic, TableTopic),
            partitions=topic.partitions,
            default=self._partitions,
            config=topic.config,
        )
        target = self._router.route(info, rows[0].key, partition)
        return Sent(topic.name, target.partition, self._log.append(target, to_batch(rows)))

    @overload
    def read(
        self,
        topic: Topic[K, V],
        *,
        partition: int | None = None,
        start: int | None = None,
        end: int | None = None,
        since: TimeLike | None = None,
        limit: int | None = None,
    ) -> Iterator[Record[K, V]]: ...
    @overload
    def read(
        self,
        topic: TableTopic[K, V],
        *,
        partition: int | None = None,
        start: int | None = None,
        end: int | None = None,
        since: TimeLike | None = None,
        limit: int | None = None,
    ) -> Iterator[Record[K, V | None]]: ...
    def read(
        self,
        topic: Topic[Any, Any] | TableTopic[Any, Any],
        *,
        partition: int | None = None,
        start: int | None = None,
        end: int | None = None,
        since: TimeLike | None = None,
        limit: int | None = None,
    ) -> Iterator[Record[Any, Any]]:
        """The records that are committed now, up to `limit` of them.

        Several partitions come as one: each in its own order, the earlier timestamp in the log first.
        `start` and `end` (not included) are offsets of one partition; `since` is a time, and each partition
        starts at its first record that is as late. Bytes that are no value of the topic raise `SerdeError`
        with their position, in their turn; nothing is skipped.
        """
        self._check_open()
        if limit is not None and limit < 0:
            raise ConfigError("bad-limit", f"limit {limit} is below 0", "leave it out to read everything")
        spans = self._spans(topic.name, partition, start, end, since)
        return self._records(topic, spans, limit)

    @overload
    def tail(
        self,
        topic: Topic[K, V],
        *,
        partition: int | None = None,
        since: TimeLike | None = None,
        timeout: float | None = None,
    ) -> Iterator[Record[K, V]]: ...
    @overload
    def tail(
        self,
        topic: TableTopic[K, V],
        *,
        partition: int | None = None,
        since: TimeLike | None = None,
        timeout: float | None = None,
    ) -> Iterator[Record[K, V | None]]: ...
    def tail(
        self,
        topic: Topic[Any, Any] | TableTopic[Any, Any],
        *,
        partition: int | None = None,
        since: TimeLike | None = None,
        timeout: float | None = None,
    ) -> Iterator[Record[Any, Any]]:
        """The records that are committed from now on, as they come, without end.

        With `since`, first those that are there and as late, as `read` gives them. With `timeout` it ends
        when nothing came for so many seconds.
        """
        self._check_open()
        spans = self._spans(topic.name, partition, None, None, since)
        return self._live(topic, spans, timeout, history=since is not None)

    def rows(self, table: TableTopic[K, V]) -> dict[K, V]:
        """The rows of a table at its committed end.

        Where other writers put one key into several partitions, its latest row counts.
        """
        self._check_open()
        info = self._log.describe(table.name)
        check_topic(info, table=True)
        found = table_rows(self._log, info)
        rows: dict[K, V] = {}
        for (partition, _), row in sorted(found.items(), key=lambda item: item[1].timestamp):
            record = decoded(table, partition, row)
            try:
                rows[record.key] = record.value
            except TypeError:
                raise ConfigError(
                    "unhashable-key",
                    f"keys of {table!r} cannot be looked up: {type(record.key).__name__} has no hash",
                    "declare the key class with frozen=True",
                ) from None
        return rows

    def close(self) -> None:
        """Let go of the log; one that was passed in stays open. Closing twice is fine."""
        if not self._closed:
            self._closed = True
            if self._owned:
                self._log.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _spans(
        self,
        topic: str,
        partition: int | None,
        start: int | None,
        end: int | None,
        since: TimeLike | None,
    ) -> dict[TopicPartition, ReadRange]:
        """What a read is bound to, settled when it is called."""
        info = self._log.describe(topic)
        partitions = partitions_of(info) if partition is None else [_partition_of(info, partition)]
        if (start is not None or end is not None) and len(partitions) > 1:
            raise ConfigError(
                "offset-of-which-partition",
                f"topic {topic!r} has {info.partitions} partitions, each with offsets of its own",
                "name the partition too, or use since= with a time",
            )
        if start is not None and since is not None:
            raise ConfigError("start-and-since", "start and since both say where to begin", "give one")
        ends = self._log.ends(partitions)
        spans: dict[TopicPartition, ReadRange] = {}
        for found in partitions:
            begin = info.starts[found.partition] if start is None else start
            late = 0 if since is None else as_millis(since)
            if since is not None:
                begin = self._log.offset_at(found, late)
            if not info.starts[found.partition] <= begin <= ends[found]:
                raise LogError(
                    "offset-out-of-range",
                    f"{found} holds offsets {info.starts[found.partition]} to {ends[found] - 1}; "
                    f"asked for was {begin}",
                    "history below the start was cut; leave start out to begin there",
                )
            spans[found] = ReadRange(begin, ends[found] if end is None else min(end, ends[found]), late)
        return spans

    def _records(
        self,
        topic: Topic[Any, Any] | TableTopic[Any, Any],
        spans: dict[TopicPartition, ReadRange],
        limit: int | None = None,
    ) -> Generator[Record[Any, Any]]:
        if limit == 0:
            return
        for count, (partition, row) in enumerate(read_merged(self._log, spans), 1):
            self._check_open()
            yield decoded(topic, partition, row)
            if count == limit:
                return

    def _live(
        self,
        topic: Topic[Any, Any] | TableTopic[Any, Any],
        spans: dict[TopicPartition, ReadRange],
        timeout: float | None,
        *,
        history: bool,
    ) -> Generator[Record[Any, Any]]:
        if history:
            yield from self._records(topic, spans)
        positions = {partition: Offset(span.end) for partition, span in spans.items()}
        for placed in follow(self._log, positions, timeout):
            self._check_open()
            if placed is not None:
                yield decoded(topic, *placed)

    def _check_open(self) -> None:
        if self._closed:
            raise LogError("closed", "the connection is closed", "connect again")


def _partition_of(info: TopicInfo, partition: int) -> TopicPartition:
    if not 0 <= partition < info.partitions:
        raise LogError(
            "no-such-partition",
            f"topic {info.name!r} has partitions 0 to {info.partitions - 1}, not {partition}",
            "describe the topic first",
        )
    return TopicPartition(info.name, partition)
