"""Where a record that we wrote came from: two headers behind the record's own.

    tidegate.owner   app/sink: whose row it is; an upgrade touches only its own
    tidegate.origin  "topic/partition/offset task/sequence time": the record of a source topic that it came
                     from, also across internal topics; the task that made it with the running number of its
                     output; and the stream time there

One header for the three, since they are written for every record and read together.
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
    """The origin of a record, or None if it is not one of ours."""
    for name, value in reversed(headers):
        if name == ORIGIN and value is not None:
            position, task, time = value.decode().rsplit(" ", 2)
            name_of_task, sequence = task.rsplit("/", 1)
            return Origin(position, name_of_task, int(sequence), int(time))
    return None


def place_column(partition: TopicPartition, offsets: pa.Array[Any]) -> pa.Array[Any]:
    """The positions of records of one partition, as an origin header has them."""
    joined: Any = pc.binary_join_element_wise(f"{partition}/", pc.cast(offsets, pa.string()), "")
    return joined


def origin_column(places: pa.Array[Any], task: str, sequence: int, times: pa.Array[Any]) -> pa.Array[Any]:
    """What `origin_header` gives for many records, numbered from `sequence` on."""
    number = pc.cast(pa.arange(sequence, sequence + len(places)), pa.string())
    time = pc.cast(times, pa.string())
    joined: Any = pc.binary_join_element_wise(places, f" {task}/", number, " ", time, "")
    return joined.cast(pa.binary())


def our_headers(owner: bytes, origins: pa.Array[Any]) -> pa.Array[Any]:
    """The headers of records that have none of their own."""
    count = len(origins)
    places = pa.arange(0, 2 * count)
    of_origin = pc.add(pc.shift_right(places, 1), 1)
    both = pa.concat_arrays([pa.array([owner], pa.binary()), origins])
    values = both.take(pc.if_else(_odd(places), of_origin, 0))
    structs = pa.StructArray.from_arrays([_names(places), values], fields=list(HEADERS_TYPE.value_type))
    ends = pa.arange(0, 2 * count + 1, 2).cast(pa.int32())
    return pa.ListArray.from_arrays(ends, structs, type=HEADERS_TYPE)


def only_ours(headers: pa.Array[Any]) -> bool:
    """Whether each record has exactly the two headers that we write."""
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
    """The origins of records of an internal topic, as they were read. One that is not ours (nobody else
    should write there) is its own origin."""
    offsets, timestamps, headers = batch.column(0), batch.column(1), batch.column(4)
    if len(headers) and only_ours(headers):
        ours: Any = pc.struct_field(headers.flatten(), [1]).take(pa.arange(1, 2 * len(headers), 2))
        parts: Any = pc.split_pattern(ours.cast(pa.string()), " ").flatten()
        at = [parts.take(pa.arange(place, 3 * len(headers), 3)) for place in range(3)]
        task: Any = pc.split_pattern(at[1], "/", max_splits=1, reverse=True).flatten()
        names, numbers = (task.take(pa.arange(place, 2 * len(headers), 2)) for place in range(2))
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


def _names(places: pa.Array[Any]) -> pa.Array[Any]:
    return pa.array([OWNER, ORIGIN]).take(pc.bit_wise_and(places, 1))


def _odd(places: pa.Array[Any]) -> Any:
    return pc.equal(pc.bit_wise_and(places, 1), 1)
