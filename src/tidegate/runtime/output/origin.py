"""The origin of a record that tidegate wrote: two headers after the record's own.

    tidegate.owner   app/sink: whose row it is; an upgrade touches only its own
    tidegate.origin  "topic/partition/offset task/sequence time": the source record, also across internal
                     topics; the task that wrote the record with the sequence number of its output; and the
                     stream time there

One header holds all three, since they are written for every record and read together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.names import HEADER_PREFIX
from tidegate.log.records import HEADERS_TYPE, Headers
from tidegate.types import TopicPartition

OWNER, ORIGIN = HEADER_PREFIX + "owner", HEADER_PREFIX + "origin"


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


def position_column(partition: TopicPartition, offsets: pa.Array[Any]) -> pa.Array[Any]:
    """Return the positions of records of one partition, as in an origin header."""
    joined: Any = pc.binary_join_element_wise(f"{partition}/", pc.cast(offsets, pa.string()), "")
    return joined


def origin_column(
    positions: pa.Array[Any], task: str, sequences: pa.Array[Any], times: pa.Array[Any]
) -> pa.Array[Any]:
    """Return origin headers of many records with these sequence numbers."""
    number = pc.cast(sequences, pa.string())
    time = pc.cast(times, pa.string())
    joined: Any = pc.binary_join_element_wise(positions, f" {task}/", number, " ", time, "")
    return joined.cast(pa.binary())


def origin_headers(owner: bytes, origins: pa.Array[Any]) -> pa.Array[Any]:
    """Return the header column of records that have no headers of their own."""
    count = len(origins)
    indices = pa.arange(0, 2 * count)
    of_origin = pc.add(pc.shift_right(indices, 1), 1)
    both = pa.concat_arrays([pa.array([owner], pa.binary()), origins])
    values = both.take(pc.if_else(_odd(indices), of_origin, 0))
    structs = pa.StructArray.from_arrays([_names(indices), values], fields=list(HEADERS_TYPE.value_type))
    ends = pa.arange(0, 2 * count + 1, 2).cast(pa.int32())
    return pa.ListArray.from_arrays(ends, structs, type=HEADERS_TYPE)


def only_origin_headers(headers: pa.Array[Any]) -> bool:
    """Return whether each record has exactly the two headers that tidegate writes."""
    if headers.null_count or not pc.all(pc.equal(pc.list_value_length(headers), 2)).as_py():
        return False
    names: Any = pc.struct_field(headers.flatten(), [0])
    return bool(names.equals(_names(pa.arange(0, len(names)))))


class OriginColumns(NamedTuple):
    """The origins of many records."""

    positions: pa.Array[Any]
    tasks: pa.Array[Any]
    sequences: pa.Array[Any]
    times: pa.Array[Any]


def origin_columns(partition: TopicPartition, batch: pa.RecordBatch) -> OriginColumns:
    """Return the origins of records of an internal topic. A record that tidegate did not write is its own
    origin."""
    offsets, timestamps, headers = batch.column(0), batch.column(1), batch.column(4)
    if len(headers) and only_origin_headers(headers):
        contents: Any = pc.struct_field(headers.flatten(), [1]).take(pa.arange(1, 2 * len(headers), 2))
        parts: Any = pc.split_pattern(contents.cast(pa.string()), " ").flatten()
        at = [parts.take(pa.arange(part, 3 * len(headers), 3)) for part in range(3)]
        task: Any = pc.split_pattern(at[1], "/", max_splits=1, reverse=True).flatten()
        names, numbers = (task.take(pa.arange(part, 2 * len(headers), 2)) for part in range(2))
        return OriginColumns(at[0], names, numbers.cast(pa.int64()), at[2].cast(pa.int64()))
    rows = zip(offsets.to_pylist(), timestamps.to_pylist(), headers.to_pylist(), strict=True)
    found = [
        origin_of([(pair["name"], pair["value"]) for pair in row or ()])
        or Origin(f"{partition}/{offset}", "", offset, timestamp)
        for offset, timestamp, row in rows
    ]
    positions, tasks, sequences, times = zip(*found, strict=True) if found else ((), (), (), ())
    return OriginColumns(
        pa.array(positions, pa.string()),
        pa.array(tasks, pa.string()),
        pa.array(sequences, pa.int64()),
        pa.array(times, pa.int64()),
    )


def _names(indices: pa.Array[Any]) -> pa.Array[Any]:
    return pa.array([OWNER, ORIGIN]).take(pc.bit_wise_and(indices, 1))


def _odd(indices: pa.Array[Any]) -> Any:
    return pc.equal(pc.bit_wise_and(indices, 1), 1)
