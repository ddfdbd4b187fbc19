"""The headers that tidegate adds after a record's own, each only where it is read.

    tidegate.owner   app/sink: whose row it is; an upgrade touches only its own. On table topics
    tidegate.origin  "topic/partition/offset task/sequence time": the source record, also across internal
                     topics; the task that wrote the record with the sequence number of its output; and the
                     stream time there. On internal topics and in staging, with `origin_headers` everywhere

One header holds all three parts of an origin, since they are written and read together.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.last_of_keys import last_of_keys
from tidegate.log.names import HEADER_PREFIX
from tidegate.log.records import APPEND_SCHEMA, HEADERS_TYPE, READ_SCHEMA, Headers
from tidegate.runtime.output.numbered_texts import Parts, joined
from tidegate.types import TopicPartition

OWNER, ORIGIN = HEADER_PREFIX + "owner", HEADER_PREFIX + "origin"
_ANY = b"- -/0 0"
_TIME_DIGITS = 13
_LEAST_RUN = 256
"""If tasks wrote fewer records in a row than this on average, each header is split."""

TIMED_SCHEMA = READ_SCHEMA.append(pa.field("time", pa.int64()))
"""Records of an internal topic with the stream times of their origins, which are then not parsed again."""
TIMES = len(READ_SCHEMA)
"""The column of these times."""


class Origin(NamedTuple):
    """The content of an origin header."""

    position: str
    task: str
    sequence: int
    time: int


def origin_header(position: str, task: str, sequence: int, time: int) -> tuple[str, bytes]:
    return ORIGIN, f"{position} {task}/{sequence} {time}".encode()


def origin_of(headers: Headers) -> Origin | None:
    """Return the origin of a record, or None if tidegate did not write it."""
    for name, value in reversed(headers):
        if name == ORIGIN and value is not None:
            position, task, time = value.decode().rsplit(" ", 2)
            name_of_task, sequence = task.rsplit("/", 1)
            return Origin(position, name_of_task, int(sequence), int(time))
    return None


def time_of(headers: Headers) -> int | None:
    """Return the stream time in the origin of a record, or None if tidegate did not write it."""
    origin = origin_of(headers)
    return None if origin is None else origin.time


def position_parts(partition: TopicPartition, offsets: pa.Array[Any]) -> Parts:
    """Return the positions of records of one partition, as in an origin header: all parts of a header are
    joined at once."""
    return f"{partition}/", offsets


def origin_column(
    positions: Parts, task: str, sequences: pa.Array[Any], times: pa.Array[Any]
) -> pa.Array[Any]:
    """Return origin headers of many records with these sequence numbers."""
    bounds: Any = pc.min_max(times)
    first, last = bounds[0].as_py(), bounds[1].as_py()
    time: Parts = (f" {last}",) if first == last else (" ", times)
    return joined((*positions, f" {task}/", sequences, *time))


def with_times(outputs: pa.RecordBatch, times: pa.Array[Any]) -> pa.RecordBatch:
    """Return outputs with the stream times in their origin headers as one more column."""
    return outputs.append_column(TIMED_SCHEMA.field(TIMES), times)


def without_times(outputs: pa.RecordBatch) -> pa.RecordBatch:
    """Return outputs as they are written."""
    if outputs.num_columns == len(APPEND_SCHEMA):
        return outputs
    return pa.RecordBatch.from_arrays(outputs.columns[: len(APPEND_SCHEMA)], schema=APPEND_SCHEMA)


def header_of_each(name: str, contents: pa.Array[Any]) -> pa.Array[Any]:
    """Return the header column of records that have this one header, each with its own content."""
    count = len(contents)
    structs = pa.StructArray.from_arrays(
        [pa.repeat(pa.scalar(name), count), contents], fields=list(HEADERS_TYPE.value_type)
    )
    ends = pa.arange(0, count + 1).cast(pa.int32())
    return pa.ListArray.from_arrays(ends, structs, type=HEADERS_TYPE)


def owner_headers(owner: bytes, count: int) -> pa.Array[Any]:
    """Return the header column of rows that have no headers of their own."""
    return header_of_each(OWNER, pa.repeat(pa.scalar(owner, pa.binary()), count))


def no_own_headers(headers: pa.Array[Any]) -> bool:
    """Return whether the records have no other headers than an owner and an origin."""
    names: Any = pc.struct_field(headers.flatten(), [0])
    return not len(names) or bool(pc.all(pc.is_in(names, value_set=_added())).as_py())


@cache
def _added() -> pa.Array[Any]:
    """Not a constant: `pa.array` imports pandas, which takes half a second."""
    return pa.array([OWNER, ORIGIN])


def owned_by(headers: pa.Array[Any], owner: bytes) -> pa.Array[Any]:
    """Return which records have this owner."""
    pairs = headers.flatten()
    names, contents = (pc.struct_field(pairs, [number]) for number in (0, 1))
    found: Any = pc.and_(pc.equal(names, OWNER), pc.equal(contents, pa.scalar(owner, pa.binary())))
    rows: Any = pc.list_parent_indices(headers).filter(found, null_selection_behavior="drop")
    owned: pa.Array[Any] = pc.is_in(pa.arange(0, len(headers)), value_set=rows.cast(pa.int64()))
    return owned


def _origins(headers: pa.Array[Any]) -> pa.Array[Any] | None:
    """Return the content of each record's origin header, or None unless each record has exactly one."""
    pairs = headers.flatten()
    names, contents = (pc.struct_field(pairs, [number]) for number in (0, 1))
    is_origin: Any = pc.equal(names, ORIGIN)
    rows: Any = pc.list_parent_indices(headers).filter(is_origin)
    found: pa.Array[Any] = contents.filter(is_origin)
    one_each = len(rows) == len(headers) and rows.cast(pa.int64()).equals(pa.arange(0, len(headers)))
    return found if one_each and not found.null_count else None


class OriginColumns(Protocol):
    """The origins of many records."""

    @property
    def positions(self) -> pa.Array[Any]: ...

    @property
    def tasks(self) -> pa.Array[Any]: ...

    @property
    def sequences(self) -> pa.Array[Any]: ...

    @property
    def times(self) -> pa.Array[Any]: ...


class _Columns(NamedTuple):
    positions: pa.Array[Any]
    tasks: pa.Array[Any]
    sequences: pa.Array[Any]
    times: pa.Array[Any]


class _Parsed:
    """Origin headers, none of them null, each part split off when it is first read: most tasks read only the
    times."""

    def __init__(self, contents: pa.Array[Any]) -> None:
        self._contents = contents
        times = _usual_times(contents)
        self._usual = times is not None
        if times is None:
            self._rest, times = _split(contents.cast(pa.string()), " ", contents)
        self.times: pa.Array[Any] = times.cast(pa.int64())

    @property
    def positions(self) -> pa.Array[Any]:
        return self._position_and_output[0]

    @cached_property
    def tasks(self) -> pa.Array[Any]:
        found = _tasks_in_runs(self._contents)
        return self._task_and_sequence[0] if found is None else found

    @property
    def sequences(self) -> pa.Array[Any]:
        return self._task_and_sequence[1]

    @cached_property
    def _position_and_output(self) -> tuple[pa.Array[Any], pa.Array[Any]]:
        if self._usual:
            self._rest = pc.binary_slice(self._contents, 0, -_TIME_DIGITS - 1).cast(pa.string())
        return _split(self._rest, " ", self._contents)

    @cached_property
    def _task_and_sequence(self) -> tuple[pa.Array[Any], pa.Array[Any]]:
        tasks, sequences = _split(self._position_and_output[1], "/", self._contents)
        return tasks, sequences.cast(pa.int64())


def _usual_times(contents: Any) -> pa.Array[Any] | None:
    """Return the times at the ends of the headers as text, if all of them have 13 digits, as those of the
    years 2002 to 2286 have: splitting each header takes three times as long."""
    spaces: Any = pc.binary_slice(contents, -_TIME_DIGITS - 1, -_TIME_DIGITS)
    if not pc.all(pc.equal(spaces, b" ")).as_py():
        return None
    times: Any = pc.binary_slice(contents, -_TIME_DIGITS, None).cast(pa.string())
    return times if pc.all(pc.ascii_is_decimal(times)).as_py() else None


def _tasks_in_runs(contents: pa.Array[Any]) -> pa.Array[Any] | None:
    """Return the tasks of the headers, if each wrote many records in a row, as tasks do: one header of each
    run is split, and the others are only compared with it. Else None."""
    names: list[str] = []
    ends: list[int] = []
    at, most = 0, len(contents) // _LEAST_RUN + 1
    while at < len(contents):
        parts = contents[at].as_py().rsplit(b" ", 2)
        if len(ends) == most or len(parts) != 3:
            return None
        name, _, sequence = parts[1].rpartition(b"/")
        at = _end_of_run(contents, b" " + name + b"/", len(sequence) + 1 + len(parts[2]), at)
        names.append(name.decode())
        ends.append(at)
    runs = pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), pa.array(names, pa.string()))
    decoded: pa.Array[Any] = pc.run_end_decode(runs)
    return decoded


def _end_of_run(contents: Any, part: bytes, after: int, start: int) -> int:
    """Return the first row from `start` on whose header does not have `part` just before its last `after`
    bytes, or the number of rows. It compares ever more rows at once, so that a short run costs little."""
    size = _LEAST_RUN
    while start < len(contents):
        rows = contents.slice(start, size)
        parts = pc.binary_slice(rows, -len(part) - after, -after)
        other: int = pc.index(pc.equal(parts, part), False).as_py()
        if other >= 0:
            return start + other
        start, size = start + len(rows), 2 * size
    return start


def _split(texts: Any, separator: str, contents: pa.Array[Any]) -> tuple[pa.Array[Any], pa.Array[Any]]:
    """Return what is before and what is after the last separator of each text."""
    parts: Any = pc.split_pattern(texts, separator, max_splits=1, reverse=True).flatten()
    if len(parts) != 2 * len(texts):
        raise ValueError(f"not the content of {ORIGIN}: one of {contents.slice(0, 3).to_pylist()}")
    before, after = (parts.take(pa.arange(part, len(parts), 2)) for part in range(2))
    return before, after


def origin_columns(partition: TopicPartition, batch: pa.RecordBatch) -> OriginColumns:
    """Return the origins of records of an internal topic. A record that tidegate did not write is its own
    origin."""
    headers = batch.column(4)
    contents = _origins(headers) if len(headers) else None
    if contents is not None:
        return _Parsed(contents)
    contents, own = _last_origins(headers), _own_origins(partition, batch)
    if contents.null_count == len(contents):
        return own
    given, written = pc.is_valid(contents), _Parsed(pc.fill_null(contents, _ANY))
    return _Columns(
        pc.if_else(given, written.positions, own.positions),
        pc.if_else(given, written.tasks, own.tasks),
        pc.if_else(given, written.sequences, own.sequences),
        pc.if_else(given, written.times, own.times),
    )


def _last_origins(headers: pa.Array[Any]) -> Any:
    """Return the content of each record's last origin header; null for records without one."""
    names, values = (pc.struct_field(headers.flatten(), [part]) for part in range(2))
    found: Any = pc.indices_nonzero(pc.and_(pc.equal(names, ORIGIN), pc.is_valid(values)))
    if not len(found):
        return pa.nulls(len(headers), pa.binary())
    records = pc.list_parent_indices(headers).take(found)
    return values.take(found.take(last_of_keys(records, len(headers))))


def _own_origins(partition: TopicPartition, batch: pa.RecordBatch) -> _Columns:
    offsets, timestamps = batch.column(0), batch.column(1)
    no_task: Any = pa.repeat(pa.scalar(""), len(offsets))
    positions = joined(position_parts(partition, offsets))
    return _Columns(positions.cast(pa.string()), no_task, offsets, timestamps)
