"""Records as responses show them: bytes decoded as requested, else as the app declared them; long values
cut."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tidegate.errors import SerdeError
from tidegate.log.merged import LocatedRow
from tidegate.server.parameters import quoted, shown, shown_headers, shown_key
from tidegate.server.topic_formats import TopicFormat
from tidegate.text.declared_format import shown_value
from tidegate.text.render import ValueKind


@dataclass(frozen=True, slots=True)
class RecordView:
    """The requested types of keys and values, and how much of a record is shown."""

    key: ValueKind | None = None
    value: ValueKind | None = None
    internal_headers: bool = False
    """Whether `tidegate.*` headers are shown."""
    preview: int | None = None
    """The longest value in bytes that is shown whole."""
    formats: Mapping[str, TopicFormat] = field(default_factory=dict, compare=False)
    """How apps declared the topics."""

    def record(self, located: LocatedRow) -> dict[str, Any]:
        """Return a record for JSON. `format` is the declared format of the value, if it is shown by that. Of
        a value that is too long, `cut` has the first bytes, the size, and the path of the whole record."""
        partition, row = located
        found: dict[str, Any] = {
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": row.offset,
            "timestamp": row.timestamp,
            **key_fields(row.key, self.key, self.formats.get(partition.topic)),
            "value": None,
            "headers": shown_headers(row.headers, internal=self.internal_headers),
        }
        if self.preview is not None and row.value is not None and len(row.value) > self.preview:
            return {
                **found,
                "cut": {
                    "preview": shown_key(whole_characters(row.value[: self.preview]), None),
                    "bytes": len(row.value),
                    "path": f"/topics/{partition.topic}/records/{partition.partition}/{row.offset}",
                },
            }
        if self.value is not None:
            return {**found, "value": shown(row.value, self.value)}
        declared = self.formats.get(partition.topic)
        value, name = shown_value(row.value, None if declared is None else declared.value)
        return {**found, "value": value, **({"format": name} if name else {})}


def key_fields(key: bytes | None, kind: ValueKind | None, declared: TopicFormat | None) -> dict[str, Any]:
    """A key for JSON, by the requested type, else as declared; one that is not shown as its text also as it
    is written in paths."""
    if key is None:
        return {"key": None}
    found = shown_key(key, kind)
    if kind is None and declared is not None and declared.key.name not in ("", "str"):
        with suppress(SerdeError):
            found = declared.key.decode(key)
    return {"key": found} if isinstance(found, str) else {"key": found, "key_path": quoted(key)}


def whole_characters(data: bytes) -> bytes:
    """The bytes without a character of UTF-8 that was cut in the middle."""
    for end in range(len(data), max(len(data) - 4, 0), -1):
        try:
            data[:end].decode()
        except UnicodeDecodeError:
            continue
        return data[:end]
    return data
