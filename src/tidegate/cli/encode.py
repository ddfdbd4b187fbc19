"""What a user typed, as the bytes to send."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime
from typing import Any

import msgspec

from tidegate.cli.batches import Outgoing
from tidegate.cli.view import PLAIN_KINDS, Kind
from tidegate.errors import SerdeError
from tidegate.log.records import Headers, Row
from tidegate.names import check_header
from tidegate.serde.protocol import unencodable
from tidegate.typed_records import as_millis

_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER = re.compile(r"[+-]?(nan|inf|infinity|[0-9.]+(e[+-]?[0-9]+)?)", re.IGNORECASE)
_NULL = msgspec.Raw(b"null")


class JsonLine(msgspec.Struct, forbid_unknown_fields=True):
    """A record as an object: what `tail --json` prints is taken too."""

    value: msgspec.Raw
    key: msgspec.Raw = _NULL
    headers: dict[str, Any] | list[tuple[str, Any]] = {}
    timestamp: int | datetime | None = None
    partition: int | None = None
    topic: str | None = None
    offset: int | None = None


_lines = msgspec.json.Decoder(JsonLine)


def from_text(text: bytes, kind: Kind | None) -> bytes:
    """Text as the bytes of a kind; without one it stays as it is, if it is UTF-8."""
    if kind is Kind.BYTES:
        return text
    try:
        said = text.decode()
    except UnicodeDecodeError:
        raise unencodable("str", "it is no UTF-8", "use --type bytes to send bytes as they are") from None
    if kind is None or kind is Kind.STR:
        return text
    if kind is Kind.JSON:
        return _checked_json(text)
    return _plain(said.strip(), kind)


def from_json_line(line: bytes, key_kind: Kind | None, value_kind: Kind | None, now: int) -> Outgoing:
    """A record from an object on one line. null is no key, and as a value a tombstone."""
    try:
        parsed = _lines.decode(line)
        key, value = _from_json(parsed.key, key_kind), _from_json(parsed.value, value_kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SerdeError(
            "bad-json-line",
            f"it is no record: {error}",
            'write {"key": "ada", "value": {"cents": 5}}; headers, timestamp and partition may follow',
        ) from None
    timestamp = now if parsed.timestamp is None else as_millis(parsed.timestamp)
    return Outgoing(Row(key, value, timestamp, _headers(parsed.headers)), parsed.partition)


def _from_json(raw: msgspec.Raw, kind: Kind | None) -> bytes | None:
    text = bytes(raw)
    if text == b"null":
        return None
    if kind is Kind.JSON:
        return _checked_json(text)
    value = msgspec.json.decode(text)
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return _from_base64(value["base64"])
    if isinstance(value, str):
        return from_text(value.encode("utf-8", "surrogatepass"), kind)
    if kind is None:
        return text
    if kind is Kind.BYTES or isinstance(value, dict | list):
        raise unencodable(kind, "JSON has another type there", "name the type that it has, or none")
    return PLAIN_KINDS[kind].encode(value)


def _plain(said: str, kind: Kind) -> bytes:
    value: int | float | bool
    if kind is Kind.BOOL and said in ("true", "false"):
        value = said == "true"
    elif kind is Kind.INT and _WHOLE.fullmatch(said):
        value = int(said)
    elif kind is Kind.FLOAT and _NUMBER.fullmatch(said) and said.count(".") <= 1 and said != ".":
        value = float(said)
    else:
        raise unencodable(kind, f"{said[:40]!r} is none", "send another value, or name its type")
    return PLAIN_KINDS[kind].encode(value)


def _checked_json(text: bytes) -> bytes:
    try:
        msgspec.json.format(text).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unencodable("json", str(error), "send JSON, or name another type") from None
    return text


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
        raise unencodable("bytes", "it is no base64", "write padded base64") from None
