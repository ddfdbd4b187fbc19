"""Derive the Avro schema of a declared type.

    bool int float str bytes        boolean long double string bytes
    datetime                        long, timestamp-micros; local-timestamp-micros with Meta(tz=False)
    date time UUID                  int date, long time-micros, string uuid
    list, set, tuple[T, ...]        array
    dict                            map
    Struct, dataclass, TypedDict    record, under the name of the class
    Enum                            enum if its values can be symbols, else string or long
    T | None                        union with null; default null unless the type has another
    A | B                           union; records are distinguished by their names

Defaults of the type become defaults of the schema, so that readers of both versions can read each other's
records. Docstrings, which change no byte, are left out: editing one would create a new version.
"""

from __future__ import annotations

import enum
import re
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from tidegate.errors import ConfigError
from tidegate.serde.avro_default import made_default, plain_default
from tidegate.serde.declared import type_name

SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HINT = "give the schema yourself: Avro[...](schema=...)"
_PLAIN: dict[type[inspect.Type], Any] = {
    inspect.NoneType: "null",
    inspect.BoolType: "boolean",
    inspect.IntType: "long",
    inspect.FloatType: "double",
    inspect.StrType: "string",
    inspect.BytesType: "bytes",
    inspect.ByteArrayType: "bytes",
    inspect.DateType: {"type": "int", "logicalType": "date"},
    inspect.TimeType: {"type": "long", "logicalType": "time-micros"},
    inspect.UUIDType: {"type": "string", "logicalType": "uuid"},
}
_LISTS = (
    inspect.ListType,
    inspect.SetType,
    inspect.FrozenSetType,
    inspect.VarTupleType,
    inspect.CollectionType,
)
_RECORDS = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType)
_TEXT_KEYS = (inspect.StrType, inspect.IntType, inspect.UUIDType)


class Derived(NamedTuple):
    """A schema as plain JSON values, and the full names of the classes in it."""

    schema: Any
    names: dict[Any, str]


def avro_schema(declared: object, name: str | None = None, *, tags: bool = False) -> Derived:
    """Return the schema of a type; `name` is the full name of its outermost record, whose namespace applies
    to all. With `tags` the records have the tags of their Structs as defaults, so that values read have them.

    Raises ConfigError `unsupported-type` for a type that Avro cannot represent.
    """
    made = _SchemaBuilder(declared, name, tags=tags)
    schema = made.of(inspect.type_info(declared))
    return Derived(schema, {cls: full for full, cls in made.classes.items()})


class _SchemaBuilder:
    """Collects the types of one schema; each record and enum is defined once and then referred to by name."""

    def __init__(self, declared: object, name: str | None, *, tags: bool) -> None:
        self._declared = declared
        self._namespace, _, self._first = (name or "").rpartition(".")
        self._tags = tags
        self.classes: dict[str, Any] = {}

    def of(self, kind: inspect.Type) -> Any:  # noqa: PLR0911 - one for each kind
        if isinstance(kind, inspect.Metadata):
            return self.of(kind.type)
        plain = _PLAIN.get(type(kind))
        if plain is not None:
            return plain
        if isinstance(kind, inspect.DateTimeType):
            return {"type": "long", "logicalType": f"{'local-' if kind.tz is False else ''}timestamp-micros"}
        if isinstance(kind, _LISTS):
            return {"type": "array", "items": self.of(kind.item_type)}
        if isinstance(kind, inspect.DictType):
            if not isinstance(kind.key_type, _TEXT_KEYS):
                raise self._refused("a dict whose keys are not str, int or UUID")
            return {"type": "map", "values": self.of(kind.value_type)}
        if isinstance(kind, _RECORDS):
            return self._record(kind)
        return self._choice(kind)

    def _choice(self, kind: inspect.Type) -> Any:
        if isinstance(kind, inspect.EnumType):
            return self._enum(kind.cls)
        if isinstance(kind, inspect.LiteralType):
            return self._of_values(kind.values)
        if isinstance(kind, inspect.UnionType):
            return self._union(kind)
        raise self._refused(f"a {type(kind).__name__.removesuffix('Type')}")

    def _record(self, kind: Any) -> Any:
        name, known = self._name(kind.cls)
        if known:
            return name
        if getattr(kind, "array_like", False):
            raise self._refused("a Struct that is written as an array")
        fields = [self._field(field) for field in kind.fields]
        tag = getattr(kind, "tag", None)
        if self._tags and tag is not None:
            avro_type = "string" if isinstance(tag, str) else "long"
            fields.append({"name": kind.tag_field, "type": avro_type, "default": tag})
        return {"type": "record", "name": name, "fields": fields}

    def _field(self, field: inspect.Field) -> dict[str, Any]:
        if not SYMBOL.fullmatch(field.encode_name):
            raise self._refused(f"the field {field.encode_name!r}, which is not a valid name in Avro")
        absent = msgspec.NODEFAULT
        if not field.required and field.default is absent and field.default_factory is absent:
            raise self._refused(f"the field {field.encode_name!r}, which may be absent")
        described: dict[str, Any] = {"name": field.encode_name, "type": self.of(field.type)}
        members = described["type"] if isinstance(described["type"], list) else []
        default = field.default if field.default is not absent else made_default(field.default_factory)
        if "null" in members and (default is None or default is absent):
            described["default"] = None
        elif "null" in members and len(members) == 2:
            members.append(members.pop(0))  # a default is one of the first member
            described["default"] = plain_default(default)
        elif not members and default is not absent:
            described["default"] = plain_default(default)
        return described

    def _union(self, kind: inspect.UnionType) -> Any:
        members = [self.of(member) for member in kind.types if not isinstance(member, inspect.NoneType)]
        flat = [one for member in members for one in (member if isinstance(member, list) else [member])]
        avro_types = [
            one if isinstance(one, str) else one["name"] if "name" in one else one["type"] for one in flat
        ]
        if len(set(avro_types)) < len(avro_types):
            raise self._refused(
                f"a union of two types that are both {max(avro_types, key=avro_types.count)} in Avro"
            )
        return ["null", *flat] if kind.includes_none else flat

    def _enum(self, cls: type[enum.Enum]) -> Any:
        values = [member.value for member in cls]
        if all(isinstance(value, str) and SYMBOL.fullmatch(value) for value in values):
            name, known = self._name(cls)
            return name if known else {"type": "enum", "name": name, "symbols": values}
        return self._of_values(values)

    def _of_values(self, values: Any) -> Any:
        kinds = {type(value) for value in values}
        if kinds <= {str}:
            return "string"
        if kinds <= {int}:
            return "long"
        raise self._refused("an Enum or Literal of other values than str or int")

    def _name(self, cls: Any) -> tuple[str, bool]:
        """Return the full name of a class, and whether it is already defined."""
        simple = self._first or re.sub(r"\W+", "_", type_name(cls)).strip("_")
        self._first = ""
        for name, known in self.classes.items():
            if known == cls:
                return name, True
        name = f"{self._namespace}.{simple}" if self._namespace else simple
        if name in self.classes:
            raise self._refused(f"two classes called {simple!r}")
        if not all(SYMBOL.fullmatch(part) for part in name.split(".")):
            raise self._refused(f"{name!r}, which is not a valid name in Avro")
        self.classes[name] = cls
        return name, False

    def _refused(self, what: str) -> ConfigError:
        message = f"{type_name(self._declared)} holds {what}, and no Avro schema is made of that"
        return ConfigError("unsupported-type", message, _HINT)
