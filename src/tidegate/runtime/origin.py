"""Where a record that we wrote came from: two headers behind the record's own.

    tidegate.owner   app/sink: whose row it is; an upgrade touches only its own
    tidegate.origin  "topic/partition/offset task/sequence time": the record that it came from, the task that
                     made it with the running number of its output, and the stream time there

One header for the three, since they are written for every record and read together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.records import HEADERS_TYPE, Headers
from tidegate.names import HEADER_PREFIX

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


def origin_column(
    position: str, offsets: pa.Array[Any], task: str, sequence: int, times: pa.Array[Any]
) -> pa.Array[Any]:
    """What `origin_header` gives for many records, numbered from `sequence` on."""
    numbers = pa.arange(sequence, sequence + len(offsets))
    parts = (pc.cast(column, pa.string()) for column in (offsets, numbers, times))
    offset, number, time = parts
    joined: Any = pc.binary_join_element_wise(f"{position}/", offset, f" {task}/", number, " ", time, "")
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


def origin_times(headers: pa.Array[Any]) -> pa.Array[Any]:
    """The stream times at the origins of records that have only our headers."""
    origins: Any = pc.struct_field(headers.flatten(), [1]).take(pa.arange(1, 2 * len(headers), 2))
    parts = pc.split_pattern(origins.cast(pa.string()), " ", max_splits=1, reverse=True)
    return pc.list_element(parts, 1).cast(pa.int64())


def _names(places: pa.Array[Any]) -> pa.Array[Any]:
    return pa.array([OWNER, ORIGIN]).take(pc.bit_wise_and(places, 1))


def _odd(places: pa.Array[Any]) -> Any:
    return pc.equal(pc.bit_wise_and(places, 1), 1)
