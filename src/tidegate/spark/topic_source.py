"""Topics as a Spark data source: batch and streaming, decoded on the executors, as Arrow batches.

What a reader needs is sent in one option: where the log is, the topic's name, and its serdes. They are the
user's own code in the user's own job, and only Spark transports them.
"""

from __future__ import annotations

import base64
import pickle
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyspark.sql.types as spark
from msgspec.structs import replace
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from tidegate.config.config import Config, load_config
from tidegate.errors import ConfigError, LogError, SerdeError
from tidegate.log.location import LogLocation
from tidegate.log.names import HEADER_PREFIX, is_internal_header
from tidegate.log.open import check_location, open_log
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.log.records import READ_SCHEMA, ReadRow, header_column, rows_of
from tidegate.log.route import partitions_of
from tidegate.runtime.output.origin import no_own_headers
from tidegate.runtime.output.time_only import is_time_only
from tidegate.serde import Serde
from tidegate.serde.framed import Framed
from tidegate.serde.registry_settings import registry_settings, use_registry
from tidegate.spark.spark_types import Part, converted, part_of, pickled
from tidegate.state.formats import SESSION, WINDOW, session_times, window_start
from tidegate.topics import TableTopic, Timestamp, Topic
from tidegate.types import TopicPartition

try:
    from pyspark.sql.streaming.datasource import (
        SupportsTriggerAvailableNow,  # pyright: ignore[reportAssignmentType]
    )
except ImportError:  # Spark 4.1 runs one batch then

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands in for the class that this version of Spark does not have."""


NAME = "tidegate"
ROWS_AT_ONCE = 10_000
UID = "uid"
"""The topic's id in Spark's offsets, beside the partitions: it differs when the topic is recreated."""
HEADERS = spark.ArrayType(
    spark.StructType(
        [spark.StructField("name", spark.StringType()), spark.StructField("value", spark.BinaryType())]
    )
)
TIMES = {"window": ("window_start",), "session": ("session_start", "session_end")}
"""The columns that are encoded in the suffix of a key, by kind of store."""
_SUFFIXES = {"window": WINDOW.suffix, "session": SESSION.suffix}
_NULL_HINT = "declare a TableTopic if None means that the row is deleted"


@dataclass(frozen=True)
class Shipped:
    """What an executor needs to read a topic; nothing else is pickled."""

    location: LogLocation
    topic: str
    table: bool
    key: Serde[Any]
    value: Serde[Any]
    timestamp: Timestamp[Any] | None = None
    kind: str = ""
    """The kind of store whose changelog this is."""
    internal: bool = False
    """Whether it is an internal topic: time-only records and `tidegate.*` headers are left out then."""
    internal_headers: bool = False
    """Whether the headers that tidegate adds are in the frame."""
    registry: dict[str, Any] = field(default_factory=dict, repr=False)
    """How to reach the schema registry, if a serde needs it."""

    def __post_init__(self) -> None:
        if not self.registry and any(isinstance(serde, Framed) for serde in (self.key, self.value)):
            object.__setattr__(self, "registry", dict(registry_settings()))

    def open(self) -> Log:
        if self.registry:
            use_registry(self.registry)
        return open_log(self.location, create=False)

    def as_text(self) -> str:
        """Encode it as an option. Raises ConfigError `cannot-ship` for code that cannot be pickled."""
        try:
            data = pickled(self)
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(
                "cannot-ship",
                f"topic {self.topic!r}: its types cannot be sent to executors: {error}",
                "put them into a module that executors can import",
            ) from error
        paths = [path for path in sys.path if path]
        return base64.b64encode(pickle.dumps((paths, data))).decode()

    @staticmethod
    @lru_cache(16)
    def of_text(text: str) -> Shipped:
        """Decode on the executor: first the folders of the user's modules, then what is in them."""
        paths, data = pickle.loads(base64.b64decode(text))  # noqa: S301 - the user's own job sent it
        sys.path.extend(path for path in paths if path not in sys.path)
        found: Shipped = pickle.loads(data)  # noqa: S301
        return found

    def schema(self) -> spark.StructType:
        """Return the columns of the frame."""
        columns: list[tuple[str, spark.DataType]] = [
            ("key", part_of(self.key).type),
            ("value", part_of(self.value).type),
            *((name, spark.TimestampType()) for name in TIMES.get(self.kind, ())),
            ("timestamp", spark.TimestampType()),
            ("partition", spark.IntegerType()),
            ("offset", spark.LongType()),
        ]
        if not self.kind:
            columns.append(("headers", HEADERS))
        return spark.StructType([spark.StructField(name, kind) for name, kind in columns])

    def declared(self) -> Topic[Any, Any] | TableTopic[Any, Any]:
        """Recreate the topic as the user declared it."""
        if self.table:
            return TableTopic(self.topic, self.value, key=self.key, timestamp=self.timestamp)
        return Topic(self.topic, self.value, key=self.key, timestamp=self.timestamp)


def resolved_location(log: str | None, config: Config | None) -> LogLocation:
    """Return where the log is, for other processes to open."""
    found = load_config({"log": log}) if config is None else config
    if found.registry:
        use_registry(found.registry)
    location = replace(LogLocation.of(found, log), folder=found.folder.resolve())
    check_location(location)
    if location.in_memory:
        raise ConfigError(
            "log-in-memory", "a log in memory is visible to this process only", "use sqlite:///log.db"
        )
    return location


def shipped(topic: Topic[Any, Any] | TableTopic[Any, Any], location: LogLocation) -> Shipped:
    """Return what executors need to read a declared topic."""
    table = isinstance(topic, TableTopic)
    return Shipped(location, topic.name, table, topic.key_serde, topic.value_serde, topic.timestamp)


@dataclass
class OffsetRange(InputPartition):
    """Records of one partition, from `start` to below `end`."""

    partition: int
    start: int
    end: int


class FrameBatches:
    """Records of a log as rows of a frame."""

    def __init__(self, spec: Shipped, schema: spark.StructType) -> None:
        self._spec = spec
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._key, self._value = part_of(spec.key), part_of(spec.value)
        self._suffix = _SUFFIXES.get(spec.kind, 0)
        self._declared = None if spec.timestamp is None else spec.declared()

    def batch(self, partition: int, records: pa.RecordBatch) -> pa.RecordBatch:
        """Convert records to rows. Raises SerdeError with the position of a record that cannot be decoded."""
        offsets, times, keys, values, headers = records.columns
        listed = keys.to_pylist()
        own = [key[: -self._suffix] for key in listed] if self._suffix else listed
        if values.null_count and not self._spec.table:
            at = values.to_pylist().index(None)
            error = SerdeError("null-value", "an event without a value", _NULL_HINT)
            raise error.at(self._spec.topic, partition, offsets[at].as_py())
        _, key_column = self._column("key", own, partition, offsets)
        values_read, value_column = self._column("value", values.to_pylist(), partition, offsets)
        columns = {
            "key": key_column,
            "value": value_column,
            **self._times(listed),
            "timestamp": self._event_times(values_read, times, partition, offsets),
            "partition": pa.array([partition] * len(offsets), pa.int32()),
            "offset": offsets,
        }
        if "headers" in self._schema.names:
            kind = self._schema.field("headers").type
            columns["headers"] = _headers(headers, kind, internal=self._spec.internal_headers)
        return pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)

    def _column(self, side: str, data: list[bytes | None], partition: int, offsets: Any) -> tuple[Any, Any]:
        """Return the values and their column."""
        serde, part = (self._spec.key, self._key) if side == "key" else (self._spec.value, self._value)
        kind = self._schema.field(side).type
        try:
            present = iter(serde.decode_many([one for one in data if one is not None]))
            values = [None if one is None else next(present) for one in data]
            return values, pa.array(converted(part.out, values), kind)
        except Exception as error:
            for one, offset in zip(data, offsets.to_pylist(), strict=True):
                if one is not None and (why := _refused(serde, part, kind, one)) is not None:
                    located = SerdeError(why.code, f"{side}: {why.message}", why.hint)
                    raise located.at(self._spec.topic, partition, offset) from error
            raise

    def _event_times(self, values: list[Any], times: Any, partition: int, offsets: Any) -> Any:
        if self._declared is not None:
            pairs = zip(values, times.to_pylist(), offsets.to_pylist(), strict=True)
            found = []
            for value, time, offset in pairs:
                try:
                    found.append(self._declared.event_time(value, time))
                except SerdeError as error:
                    raise error.at(self._spec.topic, partition, offset) from error
            times = pa.array(found, pa.int64())
        return _timestamps(times)

    def _times(self, keys: list[bytes]) -> dict[str, Any]:
        if self._spec.kind == "window":
            return {"window_start": _timestamps(pa.array([window_start(key) for key in keys], pa.int64()))}
        if self._spec.kind == "session":
            ends, starts = zip(*map(session_times, keys), strict=True)
            return {
                "session_start": _timestamps(pa.array(starts, pa.int64())),
                "session_end": _timestamps(pa.array(ends, pa.int64())),
            }
        return {}


class TopicSource(DataSource):
    """`spark.read.format("tidegate")`, as `read_topic` and `read_store` use it."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> spark.StructType:
        return Shipped.of_text(self.options["url"]).schema()

    def reader(self, schema: spark.StructType) -> DataSourceReader:
        return TopicReader(self.options["url"], schema, rows=self.options.get("rows") == "true")

    def streamReader(self, schema: spark.StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return TopicStreamReader(self.options["url"], schema)


class TopicReader(DataSourceReader):
    """Reads what is committed when Spark plans the query; with `rows`, the newest row of each key."""

    def __init__(self, text: str, schema: spark.StructType, *, rows: bool) -> None:
        self._text = text
        self._schema = schema
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        spec = Shipped.of_text(self._text)
        with closing(spec.open()) as log:
            info = log.describe(spec.topic)
            ends = log.ends(partitions_of(info))
        return [OffsetRange(one.partition, info.starts[one.partition], int(end)) for one, end in ends.items()]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return read_offset_range(self._text, self._schema, partition, rows=self._rows)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads exactly the records between two offsets: {"0": next offset of partition 0, ..., "uid": ...}.

    With `availableNow` a run stops at the ends as of its start, also if it first repeats an unfinished batch
    of an earlier run.
    """

    def __init__(self, text: str, schema: spark.StructType) -> None:
        self._text = text
        self._schema = schema
        self._log: Log | None = None
        self._last: dict[str, Any] | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._last = self.latestOffset()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        info = self._opened().describe(Shipped.of_text(self._text).topic)
        return {UID: info.uid, **{str(number): start for number, start in enumerate(info.starts)}}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: ARG002, N802
        """Return the committed ends. Spark 4.1 passes no arguments; a limit is never set."""
        if self._last is not None:
            return self._last
        log = self._opened()
        info = log.describe(Shipped.of_text(self._text).topic)
        ends = log.ends(partitions_of(info))
        return {UID: info.uid, **{str(one.partition): int(end) for one, end in ends.items()}}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        topic = Shipped.of_text(self._text).topic
        if {start[UID], end[UID]} != {self._opened().describe(topic).uid}:
            raise LogError(
                "other-topic",
                f"topic {topic!r} was deleted and created again since the checkpoint",
                "start the query with a new checkpoint",
            )
        ranges = [
            OffsetRange(int(name), start.get(name, 0), upto) for name, upto in end.items() if name != UID
        ]
        return [offset_range for offset_range in ranges if offset_range.start < offset_range.end]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return read_offset_range(self._text, self._schema, partition)

    def stop(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def _opened(self) -> Log:
        if self._log is None:
            self._log = Shipped.of_text(self._text).open()
        return self._log


def read_offset_range(
    text: str, schema: spark.StructType, offset_range: OffsetRange, *, rows: bool = False
) -> Iterator[pa.RecordBatch]:
    spec = Shipped.of_text(text)
    partition = TopicPartition(spec.topic, offset_range.partition)
    frame = FrameBatches(spec, schema)
    with closing(spec.open()) as log:
        batches = read_between(log, partition, offset_range.start, offset_range.end)
        for batch in _folded(batches) if rows else batches:
            yield frame.batch(offset_range.partition, _for_users(batch) if spec.internal else batch)


def _for_users(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the records of an internal topic as nodes see them."""
    listed = batch.column(4).to_pylist()
    pairs = [tuple((pair["name"], pair["value"]) for pair in row or ()) for row in listed]
    kept = pa.array([not is_time_only(row) for row in pairs], pa.bool_())
    own = [tuple(pair for pair in row if not pair[0].startswith(HEADER_PREFIX)) for row in pairs]
    return batch.set_column(4, READ_SCHEMA.field(4), header_column(own)).filter(kept)


def _folded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the newest record of each key that has a value."""
    newest: dict[bytes | None, ReadRow] = {}
    for batch in batches:
        for row in rows_of(batch):
            newest.pop(row.key, None)
            if row.value is not None:
                newest[row.key] = row
    rows = list(newest.values())
    for at in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[at : at + ROWS_AT_ONCE]
        columns = [
            pa.array([row.offset for row in part], pa.int64()),
            pa.array([row.timestamp for row in part], pa.int64()),
            pa.array([row.key for row in part], pa.binary()),
            pa.array([row.value for row in part], pa.binary()),
            header_column([row.headers for row in part]),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=READ_SCHEMA)


def _headers(headers: Any, kind: Any, *, internal: bool) -> Any:
    if headers.null_count == len(headers) or (not internal and no_own_headers(headers)):
        return pa.array([[]] * len(headers), kind)
    rows = (pairs or [] for pairs in headers.to_pylist())
    kept = ([one for one in row if internal or not is_internal_header(one["name"])] for row in rows)
    return pa.array(list(kept), kind)


def _timestamps(millis: Any) -> Any:
    return millis.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))


def _refused(serde: Serde[Any], part: Part, kind: Any, data: bytes) -> SerdeError | None:
    """Return the error for a value that the column cannot hold; None if it can."""
    try:
        value = serde.decode(data)
    except SerdeError as error:
        return error
    try:
        pa.array(converted(part.out, [value]), kind)
    except Exception as error:  # noqa: BLE001 - reported with the position
        hint = "declare a type that Spark has, or read it as bytes"
        return SerdeError("not-in-spark", f"Spark cannot hold this value: {error}", hint)
    return None
