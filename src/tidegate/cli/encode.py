"""Encode typed text as the bytes to send."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Any

import msgspec

from tidegate.cli.batches import Outgoing
from tidegate.connect.typed_records import as_millis
from tidegate.errors import SerdeError
from tidegate.log.names import check_header
from tidegate.log.records import Headers, Row
from tidegate.serde.protocol import unencodable
from tidegate.text.parse import checked_json, from_text
from tidegate.text.render import PLAIN_KINDS, ValueKind

_NULL = msgspec.Raw(b"null")


class JsonLine(msgspec.Struct, forbid_unknown_fields=True):
    """A record as an object; the output of `tail --json` is accepted too."""

    value: msgspec.Raw
    key: msgspec.Raw = _NULL
    headers: dict[str, Any] | list[tuple[str, Any]] = {}
    timestamp: int | datetime | None = None
    partition: int | None = None
    topic: str | None = None
    offset: int | None = None


_lines = msgspec.json.Decoder(JsonLine)


def from_json_line(
    line: bytes, key_kind: ValueKind | None, value_kind: ValueKind | None, now: int
) -> Outgoing:
    """Parse a record from an object on one line. null is no key, and as a value a tombstone."""
    try:
        parsed = _lines.decode(line)
        key, value = _from_json(parsed.key, key_kind), _from_json(parsed.value, value_kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SerdeError(
            "bad-json-line",
            f"it is not a record: {error}",
            'write {"key": "ada", "value": {"cents": 5}}; headers, timestamp and partition may follow',
        ) from None
    timestamp = now if parsed.timestamp is None else as_millis(parsed.timestamp)
    return Outgoing(Row(key, value, timestamp, _headers(parsed.headers)), parsed.partition)


def _from_json(raw: msgspec.Raw, kind: ValueKind | None) -> bytes | None:
    text = bytes(raw)
    if text == b"null":
        return None
    if kind is ValueKind.JSON:
        return checked_json(text)
    value = msgspec.json.decode(text)
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return _from_base64(value["base64"])
    if isinstance(value, str):
        return from_text(value.encode("utf-8", "surrogatepass"), kind)
    if kind is None:
        return text
    if kind is ValueKind.BYTES or isinstance(value, dict | list):
        raise unencodable(kind, "the JSON value has another type", "name the right type, or none")
    return PLAIN_KINDS[kind].encode(value)


def _headers(given: dict[str, Any] | list[tuple[str, Any]]) -> Headers:
    pairs = list(given.items()) if isinstance(given, dict) else given
    return [(check_header(name), _header(value)) for name, value in pairs]


def _header(value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return _from_base64(value["base64"])
    return msgspec.json.encode(value)


def _from_base64(text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError):
        raise unencodable("bytes", "it is not base64", "write padded base64") from None
