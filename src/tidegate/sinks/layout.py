"""Which columns the rows of a topic have, and how bytes become their values.

    a model                 id, life, sequence, hash, gone, floor, state, stamps
    a table topic           the key: `key`, or a column `key_FIELD` for each field of a struct or tuple
                            the value: a column for each field of a struct or dataclass, else `value`

int, float, str, bool, bytes, datetime and UUID have columns of their own kind; everything else is JSON text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

import msgspec
from msgspec import inspect

from tidegate.errors import ConfigError, SerdeError
from tidegate.models.columns import COLUMNS, to_columns
from tidegate.models.row import FORMAT, decode_row
from tidegate.serde.plain import PLAIN
from tidegate.serde.protocol import Serde
from tidegate.serde.structured import Structured
from tidegate.topics import TableTopic

Kind = Literal["int", "float", "str", "bool", "bytes", "datetime", "json"]
LONGEST_NAME = 63
"""Bytes of an identifier in PostgreSQL."""
_MODEL_KINDS: tuple[Kind, ...] = ("int", "int", "str", "bool", "int", "str", "bytes")
_KINDS: dict[type[inspect.Type], Kind] = {
    inspect.IntType: "int",
    inspect.FloatType: "float",
    inspect.StrType: "str",
    inspect.BoolType: "bool",
    inspect.BytesType: "bytes",
    inspect.DateTimeType: "datetime",
    inspect.UUIDType: "str",
}
_RESERVED = {"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"}
"""PostgreSQL has columns of these names in every table."""
OWN = "tidegate_"
Read = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column: its name, and what is in it."""

    name: str
    kind: Kind
    required: bool = False


class Layout(Protocol):
    """How the records of one topic become rows. `key` and `value` raise SerdeError for bytes that they cannot
    read."""

    keys: list[ColumnSpec]
    values: list[ColumnSpec]

    def key(self, data: bytes) -> dict[str, Any]: ...

    def value(self, data: bytes) -> dict[str, Any]: ...


class ModelLayout:
    """The rows of a model's changelog."""

    def __init__(self) -> None:
        kinds = zip(COLUMNS, _MODEL_KINDS, strict=True)
        self.keys = [ColumnSpec("id", "str", required=True)]
        self.values = [ColumnSpec(name, kind, required=name != "state") for name, kind in kinds]

    def key(self, data: bytes) -> dict[str, Any]:
        return {"id": data.decode()}

    def value(self, data: bytes) -> dict[str, Any]:
        row = decode_row(data)
        if row.format != FORMAT:
            raise ValueError(f"it has format {row.format}, and this version of tidegate reads {FORMAT}")
        return to_columns(row)


class TableLayout:
    """The rows of a table topic, by its declared types."""

    def __init__(self, topic: TableTopic[Any, Any]) -> None:
        self._topic = topic
        keys = _key_fields(_declared(topic.key_serde))
        values = _value_fields(_declared(topic.value_serde))
        taken = {name for name, _, _ in keys} | _RESERVED
        self.keys = [ColumnSpec(_name(topic.name, name), kind, required=True) for name, kind, _ in keys]
        self.values: list[ColumnSpec] = []
        for name, kind, _ in values:
            free = _free(name, taken)
            taken.add(free.lower())
            self.values.append(ColumnSpec(_name(topic.name, free), kind))
        self._key = [(column.name, read) for column, (_, _, read) in zip(self.keys, keys, strict=True)]
        self._value = [(column.name, read) for column, (_, _, read) in zip(self.values, values, strict=True)]

    def key(self, data: bytes) -> dict[str, Any]:
        key = self._topic.decode_key(data)
        return {name: read(key) for name, read in self._key}

    def value(self, data: bytes) -> dict[str, Any]:
        value = self._topic.decode_value(data)
        return {name: read(value) for name, read in self._value}


def checked(kind: Kind, value: Any, *, nul: bool) -> Any:
    """Return a value as a database takes it; `nul` is whether its text may contain NUL. Raises ValueError."""
    if value is None:
        return None
    if kind == "json":
        return msgspec.json.encode(value).decode()
    if kind == "int" and not -(1 << 63) <= value < 1 << 63:
        raise ValueError("an integer has more than 64 bits")
    if kind == "str":
        text = str(value)
        if not nul and "\0" in text:
            raise ValueError("PostgreSQL cannot keep text with a NUL character")
        return text
    if kind == "datetime":
        return _in_utc(value)
    return value


def bad_row(error: Exception) -> SerdeError:
    """The error of a record that cannot be a row; `at` adds its position."""
    if isinstance(error, SerdeError):
        return error
    hint = 'correct the row at its source, or set on_error = "skip" in the section of the sink'
    return SerdeError("bad-row", f"the record cannot be a row of the database: {error}", hint)


def _in_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.utcoffset() is None else value.astimezone(UTC)


Field = tuple[str, Kind, Read]


def _declared(serde: Serde[Any]) -> inspect.Type:
    """The type that a serde reads; `Any` if that is not known."""
    if isinstance(serde, Structured):
        return inspect.type_info(serde.declared_type)
    plain = (kind for kind, known in PLAIN.items() if isinstance(serde, type(known)))
    return inspect.type_info(next(plain, Any))


def _kind(found: inspect.Type) -> Kind:
    """The kind of a column for values of a type, None aside."""
    if isinstance(found, inspect.UnionType):
        left = [one for one in found.types if not isinstance(one, inspect.NoneType)]
        return _kind(left[0]) if len(left) == 1 else "json"
    return _KINDS.get(type(found), "json")


def _fields(found: inspect.Type) -> Mapping[str, tuple[inspect.Type, Read]] | None:
    """The fields of a value that has some, each with how to read it."""
    if isinstance(found, inspect.StructType | inspect.DataclassType | inspect.NamedTupleType):
        return {field.name: (field.type, _attribute(field.name)) for field in found.fields}
    if isinstance(found, inspect.TypedDictType):
        return {field.name: (field.type, _item(field.name)) for field in found.fields}
    return None


def _attribute(name: str) -> Read:
    return lambda value: getattr(value, name)


def _item(name: str) -> Read:
    return lambda value: value.get(name)


def _value_fields(found: inspect.Type) -> list[Field]:
    fields = _fields(found)
    if not fields:
        return [("value", _kind(found), _itself)]
    return [(name, _kind(kind), read) for name, (kind, read) in fields.items()]


def _key_fields(found: inspect.Type) -> list[Field]:
    """Columns of a key are never null: a key with other fields than plain ones is one JSON text."""
    if isinstance(found, inspect.TupleType):
        numbered = enumerate(found.item_types)
        fields = {str(number): (kind, _at(number)) for number, kind in numbered}
    else:
        fields = dict(_fields(found) or {})
    plain = [kind for kind, _ in fields.values() if _KINDS.get(type(kind)) not in (None, "float")]
    if fields and len(plain) == len(fields):
        return [(f"key_{name}", _kind(kind), read) for name, (kind, read) in fields.items()]
    kind = _KINDS.get(type(found), "json")
    return [("key", "json" if kind == "float" else kind, _itself)]


def _at(number: int) -> Read:
    return lambda value: value[number]


def _itself(value: Any) -> Any:
    return value


def _free(name: str, taken: set[str]) -> str:
    while name.lower() in taken or name.lower().startswith(OWN):
        name = f"value_{name}"
    return name


def _name(topic: str, name: str) -> str:
    if len(name.encode()) > LONGEST_NAME:
        message = f"topic {topic!r}: a column would be called {name[:80]!r}, and PostgreSQL allows 63 bytes"
        raise ConfigError("bad-column", message, "rename the field; rename= keeps its name in the records")
    return name
