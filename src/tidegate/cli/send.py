"""`tidegate topics send`: records from arguments or from stdin."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, BinaryIO

import typer

from tidegate.cli.batches import Batches, Outgoing
from tidegate.cli.encode import from_json_line
from tidegate.cli.options import AsJson, KeyType, LogUrl, ValueType, opened
from tidegate.cli.output import print_json, print_line, print_note
from tidegate.clock import SystemClock
from tidegate.errors import ConfigError, LogError, SerdeError, TidegateError
from tidegate.log.records import Row
from tidegate.log.topic import TopicInfo
from tidegate.text.parse import from_text
from tidegate.text.render import ValueKind

CHUNK_BYTES = 1 << 20
STDIN = "-"


class Input(StrEnum):
    """How stdin is read."""

    LINES = "lines"
    JSON = "json"


def send(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic; it must exist.")],
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="The key of all records; - alone: none, from stdin.")
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="[VALUE]...", help="One record each; none, or -: from stdin."),
    ] = None,
    tombstone: Annotated[bool, typer.Option("--tombstone", help="Delete the row of KEY.")] = False,
    input_format: Annotated[
        Input,
        typer.Option(
            "--input",
            help="stdin: a value per line, or an object with key, value, headers, timestamp, partition.",
        ),
    ] = Input.LINES,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", help="stdin: the separator between key and value.")
    ] = None,
    value_type: ValueType = None,
    key_type: KeyType = None,
    log: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Send records. Text is sent as it is unless a type is named.

    Without VALUE, or with - as the last argument, each line of stdin is the value of one record:
    echo hello | tidegate topics send lines -
    """
    if values == [STDIN]:
        values = None
    elif key == STDIN and not values and not tombstone:
        key = None
    _check_usage(key, values, input_format, key_separator, tombstone=tombstone)
    with opened(log) as (opened_log, _):
        info = opened_log.describe(topic)
        batches = Batches(opened_log, info)
        kinds = (key_type, value_type)
        if values or tombstone:
            batches.send(_given(info, key, values, kinds))
        else:
            stream = typer.get_binary_stream("stdin")
            if stream.isatty():
                print_note("reading from stdin, one record per line; end with Ctrl-D")
            separator = None if key_separator is None else key_separator.replace("\\t", "\t").encode()
            reader = _Lines(info, key, separator, kinds, input_format)
            for numbered in _chunks(stream, _longest(info)):
                _send_lines(batches, reader, numbered)
    offsets = sorted(batches.offsets.items())
    if as_json:
        print_json({"topic": topic, "sent": batches.sent, "offsets": {str(p): last for p, last in offsets}})
    else:
        last_offsets = ", ".join(f"partition {p} offset {last}" for p, last in offsets)
        print_line(f"sent {batches.sent:,} to {topic}" + (f" (up to {last_offsets})" if last_offsets else ""))


def _check_usage(
    key: str | None,
    values: list[str] | None,
    input_format: Input,
    key_separator: str | None,
    *,
    tombstone: bool,
) -> None:
    if tombstone and (key is None or values):
        raise typer.BadParameter("--tombstone takes a KEY and no VALUE")
    if key is not None and (key_separator is not None or input_format is Input.JSON):
        raise typer.BadParameter("a KEY argument leaves no keys to find in stdin")
    if key_separator is not None and (input_format is Input.JSON or not key_separator):
        raise typer.BadParameter("--key-separator is for --input lines, and not empty")


def _given(
    info: TopicInfo,
    key: str | None,
    values: list[str] | None,
    kinds: tuple[ValueKind | None, ValueKind | None],
) -> list[Outgoing]:
    now = SystemClock().now()
    key_bytes = None if key is None else _argument(key, kinds[0], "KEY")
    if not values:
        _check_value(info, None)
        return [Outgoing(Row(key_bytes, None, now))]
    encoded = [_argument(value, kinds[1], "VALUE") for value in values]
    return [Outgoing(Row(key_bytes, value, now)) for value in encoded]


def _argument(text: str, kind: ValueKind | None, name: str) -> bytes:
    try:
        return from_text(text.encode("utf-8", "surrogateescape"), kind)
    except SerdeError as error:
        raise SerdeError(error.code, f"{name}: {error.message}", error.hint) from None


def _check_value(info: TopicInfo, value: bytes | None) -> None:
    """Refuse tombstones in event topics: a null value stops every typed reader."""
    if value is None and not info.compacts:
        raise SerdeError(
            "null-value",
            f"topic {info.name!r} holds events, not rows that could be deleted",
            "send a value",
        )


class _Lines:
    """Parses lines of stdin as records."""

    def __init__(
        self,
        info: TopicInfo,
        key: str | None,
        separator: bytes | None,
        kinds: tuple[ValueKind | None, ValueKind | None],
        input_format: Input,
    ) -> None:
        self._info = info
        self._key_kind, self._value_kind = kinds
        self._key = None if key is None else _argument(key, self._key_kind, "KEY")
        self._separator = separator
        self._format = input_format
        self._clock = SystemClock()

    def read(self, line: bytes) -> Outgoing:
        now = self._clock.now()
        if self._format is Input.JSON:
            outgoing = from_json_line(line, self._key_kind, self._value_kind, now)
            _check_value(self._info, outgoing.row.value)
            return outgoing
        if self._value_kind is not ValueKind.BYTES:
            line = line.removesuffix(b"\r")
        key = self._key
        if self._separator is not None:
            found, separator, line = line.partition(self._separator)
            if not separator:
                raise ConfigError("no-key", "the line has no key separator", "write key, separator, value")
            key = from_text(found, self._key_kind)
        return Outgoing(Row(key, from_text(line, self._value_kind), now))

    def skips(self, line: bytes) -> bool:
        return self._format is Input.JSON and not line.strip()


def _send_lines(batches: Batches, reader: _Lines, numbered: list[tuple[int, bytes]]) -> None:
    """Send records until a bad line; then send what is before it and raise the error with the line."""
    outgoing: list[Outgoing] = []
    failed: tuple[int, TidegateError] | None = None
    for number, line in numbered:
        if reader.skips(line):
            continue
        try:
            outgoing.append(reader.read(line)._replace(line=number))
        except TidegateError as error:
            failed = number, error
            break
    batches.send(outgoing)
    if failed is not None:
        raise batches.at_line(*failed) from failed[1]


def _chunks(stream: BinaryIO, longest: int) -> Iterator[list[tuple[int, bytes]]]:
    """Yield numbered lines in chunks: large ones of a file, single lines of a slow pipe."""
    read = getattr(stream, "read1", stream.read)
    rest, number = b"", 1
    while chunk := read(CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield list(enumerate(lines, number))
            number += len(lines)
        if len(rest) > longest:
            raise LogError(
                "record-too-large",
                f"line {number} has more than {longest:,} bytes; the lines before it were sent",
                "each line is one record; if records are that large, raise max.message.bytes of the topic",
            )
    if rest:
        yield [(number, rest)]


def _longest(info: TopicInfo) -> int:
    """The longest line that can hold a record: JSON may need six bytes for one character."""
    return 6 * info.setting("max.message.bytes") + 65536
