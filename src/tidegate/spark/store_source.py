"""Find a store's changelog in the manifest of its app, and build serdes from the schemas there.

The code of the app is not needed: the schemas in the manifest are enough to build types that read the same
bytes. Where they are not (a union, a fixed tuple) the column is JSON; for a user's own serde it is binary.
Required fields come first, then the others by name; a datetime that was declared without `tz` is text, as in
the manifest.
"""

from __future__ import annotations

import copy
import keyword
from datetime import date, datetime
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from tidegate.errors import ConfigError, StateError
from tidegate.log.location import LogLocation
from tidegate.log.protocol import Log
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.serde import Json, MsgPack, Serde
from tidegate.serde.java import JAVA
from tidegate.serde.plain import PLAIN
from tidegate.spark.topic_source import Shipped

_FORMATS: dict[str, Any] = {"json": Json, "msgpack": MsgPack}


def find_store(log: Log, app: str, store: str, location: LogLocation) -> Shipped:
    """Return what executors need to read the store's changelog.

    Raises `never-started` for an app without a manifest on this log, `no-such-store` with the stores that
    there are, `no-changelog` for a store whose rows are only on its host.
    """
    manifest = find_manifest(log, app)
    if manifest is None:
        raise ConfigError("never-started", f"app {app!r} never ran on this log", "start it: tidegate run")
    entry = manifest.stores.get(store)
    if entry is None:
        known = ", ".join(sorted(manifest.stores)) or "none"
        raise StateError("no-such-store", f"app {app!r} has no store {store!r}", f"its stores are: {known}")
    if entry.changelog is None:
        raise StateError(
            "no-changelog",
            f"store {store!r} of app {app!r} has no changelog to read",
            "leave .without_changelog() out, or read it on its host: tidegate state range",
        )
    raw = entry.kind.endswith("-timers")  # their keys hold times too; see state/key_timers.py
    key, value = (PLAIN[bytes], PLAIN[bytes]) if raw else (serde_of(entry.key), serde_of(entry.value))
    return Shipped(location, entry.changelog, table=True, key=key, value=value, kind=entry.kind)


def serde_of(schema: dict[str, Any]) -> Serde[Any]:
    """Return a serde that reads what was written with this schema; raw bytes if the schema is unknown."""
    for plain in (*PLAIN.values(), *JAVA):
        if plain.schema() == schema:
            return plain
    name = str(schema.get("format"))
    form, described = _FORMATS.get(name), schema.get("type")
    if form is None or not isinstance(described, dict):
        return PLAIN[bytes]
    # JSON within JSON stays text. MessagePack has no text form, and its keys may be of other types.
    unknown: Any = msgspec.Raw if name == "json" else Any
    if name == "msgpack" and "keys" in schema:
        declared = Any
    else:
        declared = _Types(described.get("$defs", {}), unknown).type_of(described)
    serde: Serde[Any] = form[declared]()
    return serde


class _Types:
    """Types built from JSON schemas, as msgspec writes them."""

    def __init__(self, definitions: dict[str, Any], unknown: Any) -> None:
        self._definitions = definitions
        self._unknown = unknown
        self._types: dict[str, Any] = {}

    def type_of(self, schema: Any) -> Any:  # noqa: PLR0911 - one for each kind
        """Return the type of a schema, or the unknown type."""
        if not isinstance(schema, dict):
            return self._unknown
        if "$ref" in schema:
            return self._by_name(schema["$ref"].rpartition("/")[2])
        if "anyOf" in schema:
            return self._optional(schema["anyOf"])
        if "enum" in schema:
            kinds = set(map(type, schema["enum"]))
            return kinds.pop() if kinds in ({str}, {int}) else self._unknown
        if schema.get("type") == "array":
            items = schema.get("items")
            return list[self.type_of(items)] if isinstance(items, dict) else self._unknown  # type: ignore[misc]
        if schema.get("type") == "object":
            return self._object(schema)
        return self._scalar(schema)

    def _by_name(self, name: str) -> Any:
        if name not in self._types:
            self._types[name] = self._unknown  # the type of a reference to itself
            self._types[name] = self.type_of(self._definitions.get(name))
        return self._types[name]

    def _optional(self, members: list[Any]) -> Any:
        others = [member for member in members if member != {"type": "null"}]
        if len(others) != 1 or len(members) != 2:
            return self._unknown
        found = self.type_of(others[0])
        return found if found is self._unknown else found | None

    def _object(self, schema: dict[str, Any]) -> Any:
        if "properties" not in schema:
            values = schema.get("additionalProperties")
            return dict[str, self.type_of(values)] if isinstance(values, dict) else self._unknown  # type: ignore[misc]
        properties, required = schema["properties"], schema.get("required", [])
        names = [*required, *(name for name in properties if name not in required)]
        if not all(name.isidentifier() and not keyword.iskeyword(name) for name in names):
            return self._unknown
        fields = [self._field(name, properties[name], required=name in required) for name in names]
        return msgspec.defstruct(schema.get("title", "Row"), fields, module=__name__, kw_only=True)

    def _field(self, name: str, schema: dict[str, Any], *, required: bool) -> tuple[str, Any, Any]:
        found = self.type_of(schema)
        if required:
            return name, found, msgspec.field()
        if "default" not in schema or found is self._unknown:
            return name, found | msgspec.UnsetType if found is not Any else Any, msgspec.UNSET
        default = msgspec.convert(schema["default"], found)
        return name, found, msgspec.field(default_factory=partial(copy.deepcopy, default))

    def _scalar(self, schema: dict[str, Any]) -> Any:
        if schema.get("contentEncoding") == "base64":
            return bytes
        named = _BY_FORMAT.get(schema.get("format", ""))
        return named or _BY_TYPE.get(schema.get("type", ""), self._unknown)


_BY_TYPE: dict[str, Any] = {"integer": int, "number": float, "string": str, "boolean": bool}
_BY_FORMAT: dict[str, Any] = {"date-time": datetime, "date": date, "uuid": UUID}
