"""A record as a line for people, and as an object for programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from rich.text import Text

from tidegate.errors import SerdeError
from tidegate.log.names import is_internal_header
from tidegate.log.records import Headers, ReadRow
from tidegate.text.render import ValueKind, as_json, printable, shown, when
from tidegate.types import TopicPartition

T = TypeVar("T")


class Display(NamedTuple):
    """The requested types of keys and values, and whether `tidegate.*` headers are shown."""

    key: ValueKind | None = None
    value: ValueKind | None = None
    internal_headers: bool = False

    def headers(self, given: Headers) -> Headers:
        """The headers to show."""
        if self.internal_headers:
            return given
        return [pair for pair in given if not is_internal_header(pair[0])]


def line(partition: TopicPartition, row: ReadRow, display: Display) -> Text:
    """Position, time, key, value, headers:
    `2:17  2025-01-31T10:00:00.000Z  ada  {"cents":500}  source=web`."""
    text = Text.assemble((f"{partition.partition}:{row.offset}  {when(row.timestamp)}", "dim"), "  ")
    text.append_text(_cell(row.key, display.key, "--key-type", partition, row, Text("-", "dim")))
    text.append("  ")
    text.append_text(
        _cell(row.value, display.value, "--type", partition, row, Text("(tombstone)", "dim italic"))
    )
    for name, value in display.headers(row.headers):
        text.append(f"  {printable(name)}={'-' if value is None else shown(value)}", "dim")
    return text


def record(partition: TopicPartition, row: ReadRow, display: Display) -> dict[str, Any]:
    """The whole record. `topics send --input json` with the same types accepts it."""
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": row.offset,
        "timestamp": row.timestamp,
        "key": _with_location(lambda: as_json(row.key, display.key), "key", "--key-type", partition, row),
        "value": _with_location(lambda: as_json(row.value, display.value), "value", "--type", partition, row),
        "headers": [[name, as_json(value)] for name, value in display.headers(row.headers)],
    }


def _cell(
    data: bytes | None,
    kind: ValueKind | None,
    option: str,
    partition: TopicPartition,
    row: ReadRow,
    nothing: Text,
) -> Text:
    if data is None:
        return nothing
    side = "key" if option == "--key-type" else "value"
    text = _with_location(lambda: shown(data, kind), side, option, partition, row)
    return Text(text, "bold" if side == "key" else "")


def _with_location(
    read: Callable[[], T], side: str, option: str, partition: TopicPartition, row: ReadRow
) -> T:
    """Call `read`, and add the position of the record to its error."""
    try:
        return read()
    except SerdeError as error:
        hint = f"leave {option} out to guess the type, or name another one"
        raise SerdeError(error.code, f"{side}: {error.message}", hint).at(*partition, row.offset) from error
