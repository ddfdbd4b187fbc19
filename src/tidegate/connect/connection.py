"""Send to topics and read them, typed by their declarations.

`read` returns what `send` takes. A `Topic` holds events, so None is not a value of it, neither sent nor read;
a `TableTopic` holds rows, and None deletes one: reading it returns `V | None`."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Any, NamedTuple, TypeVar, overload

from tidegate.clock import Clock, SystemClock
from tidegate.connect.model_requests import ModelRequester
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
    """The position of the last record of a call."""

    topic: str
    partition: int
    offset: int


class Connection:
    """An open log with typed reads and writes. A context manager; thread-safe."""

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
        """Append one record per value, all or none; durable on return.

        After LogError `commit-unknown` either all were written or none; after any other error none was,
        except for `offset-unknown` (on Kafka, for a single value): then the record was written.

        A topic that does not exist is created as it is declared. The key chooses the partition, as in Kafka;
        calls without a key are sent round-robin. The event time is what the topic's `timestamp=` returns for
        the value, else `timestamp`, else now.
        """
        self._check_open()
        recorded = self._clock.now() if timestamp is None else as_millis(timestamp)
        rows = encoded(topic, key, values, recorded, headers)
        # Looked up each time: a topic that was recreated may have another number of partitions.
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
        """Return the records that are committed now, up to `limit` of them.

        Partitions are merged: each keeps its own order, and the earlier timestamp in the log comes first.
        `start` and `end` (exclusive) are offsets of one partition; `since` is a time, and each partition
        starts at its first record at or after it. Bytes that are not a value of the topic raise `SerdeError`
        with their position when they are reached; nothing is skipped.
        """
        self._check_open()
        if limit is not None and limit < 0:
            raise ConfigError("bad-limit", f"limit {limit} is below 0", "omit it to read everything")
        ranges = self._ranges(topic.name, partition, start, end, since)
        return self._records(topic, ranges, limit)

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
        """Return the records that are committed from now on, as they arrive, without end.

        With `since`, first return the existing records from that time on, as `read` does. With `timeout`, end
        after so many seconds without a record.
        """
        self._check_open()
        ranges = self._ranges(topic.name, partition, None, None, since)
        return self._live(topic, ranges, timeout, history=since is not None)

    def rows(self, table: TableTopic[K, V]) -> dict[K, V]:
        """Return the rows of a table at its committed end.

        If other writers wrote a key to several partitions, its latest row is returned.
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
                    f"keys of {table!r} cannot be dict keys: {type(record.key).__name__} is not hashable",
                    "declare the key class with frozen=True",
                ) from None
        return rows

    def model(self, app: str, name: str) -> ModelRequester:
        """Return the writer of requests to a model of an app: create, append to and delete ids.

        Raises LogError `no-such-topic` if the app never ran on this log.
        """
        self._check_open()
        return ModelRequester.of(self._log, app, name, self._clock)

    def close(self) -> None:
        """Close the log, unless it was passed in open. Idempotent."""
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

    def _ranges(
        self,
        topic: str,
        partition: int | None,
        start: int | None,
        end: int | None,
        since: TimeLike | None,
    ) -> dict[TopicPartition, ReadRange]:
        """Return the offsets to read of each partition, fixed when the read is called."""
        info = self._log.describe(topic)
        partitions = partitions_of(info) if partition is None else [_partition_of(info, partition)]
        if (start is not None or end is not None) and len(partitions) > 1:
            raise ConfigError(
                "offset-of-which-partition",
                f"topic {topic!r} has {info.partitions} partitions, each with its own offsets",
                "pass partition= too, or use since= with a time",
            )
        if start is not None and since is not None:
            raise ConfigError("start-and-since", "start and since are both set", "pass only one of them")
        ends = self._log.ends(partitions)
        ranges: dict[TopicPartition, ReadRange] = {}
        for found in partitions:
            begin = info.starts[found.partition] if start is None else start
            earliest = 0 if since is None else as_millis(since)
            if since is not None:
                begin = self._log.offset_at(found, earliest)
            if not info.starts[found.partition] <= begin <= ends[found]:
                raise LogError(
                    "offset-out-of-range",
                    f"{found} holds offsets {info.starts[found.partition]} to {ends[found] - 1}, "
                    f"but {begin} was requested",
                    "older records were deleted; omit start= to begin at the first offset",
                )
            ranges[found] = ReadRange(begin, ends[found] if end is None else min(end, ends[found]), earliest)
        return ranges

    def _records(
        self,
        topic: Topic[Any, Any] | TableTopic[Any, Any],
        ranges: dict[TopicPartition, ReadRange],
        limit: int | None = None,
    ) -> Generator[Record[Any, Any]]:
        if limit == 0:
            return
        for count, (partition, row) in enumerate(read_merged(self._log, ranges), 1):
            self._check_open()
            yield decoded(topic, partition, row)
            if count == limit:
                return

    def _live(
        self,
        topic: Topic[Any, Any] | TableTopic[Any, Any],
        ranges: dict[TopicPartition, ReadRange],
        timeout: float | None,
        *,
        history: bool,
    ) -> Generator[Record[Any, Any]]:
        if history:
            yield from self._records(topic, ranges)
        positions = {partition: Offset(read_range.end) for partition, read_range in ranges.items()}
        for located in follow(self._log, positions, timeout):
            self._check_open()
            if located is not None:
                yield decoded(topic, *located)

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
