"""Conversion between the values of a serde and Spark's types.

    str, int, float, bool, bytes       string, bigint, double, boolean, binary
    datetime, date, UUID               timestamp (timestamp_ntz if declared without a zone), date, string
    Struct, dataclass, TypedDict       struct, with the names that the fields have in Python
    list, set, tuple[T, ...]           array
    dict                               map
    Enum, Literal                      string or bigint, if all its values are such
    T | None                           T, which may be null
    anything else (unions, Any, ...)   string: the value as JSON

A datetime without a zone, where the type allows one, counts as UTC. The types
themselves are sent to executors by `pickled`.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from types import FunctionType
from typing import Any
from uuid import UUID

import msgspec
import pyspark.sql.types as spark
from msgspec import inspect
from pyspark.cloudpickle import CloudPickler

from tidegate.errors import ConfigError, SerdeError
from tidegate.serde import Serde
from tidegate.serde.plain import PLAIN
from tidegate.serde.protocol import unencodable
from tidegate.serde.structured import Structured

Convert = Callable[[Any], Any]
"""Converts a value; never called with None. None in place of a function: the value stays as it is."""


@dataclass(frozen=True, slots=True)
class Part:
    """One type inside a value: its Spark type, and the conversions to Arrow and back."""

    type: spark.DataType
    out: Convert | None = None
    back: Convert | None = None


def part_of(serde: Serde[Any]) -> Part:
    """Return the Spark type of a serde's values, with both conversions; `back` returns values for
    `encode`."""
    for plain, part in _PLAIN.items():
        if isinstance(serde, type(PLAIN[plain])):
            return part
    if not isinstance(serde, Structured):
        return _JSON
    part = _part(inspect.type_info(serde._declared), ())
    back, declared = part.back, serde._declared

    def typed(value: Any) -> Any:
        try:
            plain = value if back is None else back(value)
            return msgspec.convert(plain, declared, str_keys=True)
        except SerdeError:
            raise
        except Exception as error:  # a user's __post_init__ or Enum may raise anything
            raise unencodable(serde.name, str(error) or type(error).__name__) from error

    return Part(part.type, part.out, typed)


def converted(convert: Convert | None, values: Sequence[Any]) -> Sequence[Any]:
    """Convert each value; None stays None."""
    return values if convert is None else [None if value is None else convert(value) for value in values]


def misfit(found: spark.DataType, expected: spark.DataType, path: str) -> str:
    """Return the reason, with the path, why a column of one type cannot be written as another; "" if it can.

    Numbers may widen, and fields may be left out of a struct: the declared type defines whether they have a
    default. A field that the type does not have is refused, since it would be lost.
    """
    if isinstance(found, spark.StructType) and isinstance(expected, spark.StructType):
        known = {field.name: field.dataType for field in expected}
        beyond = [field.name for field in found if field.name not in known]
        if beyond:
            return f"{path}.{beyond[0]} is not a field of the declared type"
        fields = (misfit(one.dataType, known[one.name], f"{path}.{one.name}") for one in found)
        return next(filter(None, fields), "")
    if isinstance(found, spark.ArrayType) and isinstance(expected, spark.ArrayType):
        return misfit(found.elementType, expected.elementType, f"{path}[]")
    if isinstance(found, spark.MapType) and isinstance(expected, spark.MapType):
        keys = misfit(found.keyType, expected.keyType, f"{path} keys")
        return keys or misfit(found.valueType, expected.valueType, f"{path} values")
    if isinstance(found, (type(expected), spark.NullType, *_WIDER.get(type(expected), ()))):
        return ""
    return f"{path} is {found.simpleString()}, and {expected.simpleString()} is written"


def _part(kind: inspect.Type, path: tuple[type, ...]) -> Part:  # noqa: PLR0911 - one line for each kind
    if isinstance(kind, inspect.Metadata):
        return _part(kind.type, path)
    if isinstance(kind, inspect.UnionType):
        members = [member for member in kind.types if not isinstance(member, inspect.NoneType)]
        return _part(members[0], path) if len(members) == 1 else _JSON
    if isinstance(kind, inspect.DateTimeType) and kind.tz is False:
        return Part(spark.TimestampNTZType())
    if isinstance(kind, inspect.LiteralType):
        return _listed(kind.values, None)
    if isinstance(kind, inspect.EnumType):
        return _listed([member.value for member in kind.cls], lambda member: member.value)
    if isinstance(kind, inspect.CollectionType):
        return _array(_part(kind.item_type, path))
    if isinstance(kind, inspect.DictType):
        return _map(kind, path)
    if isinstance(kind, _RECORDS):
        return _record(kind, path)
    return _SCALARS.get(type(kind), _JSON)


def _listed(values: Sequence[Any], out: Convert | None) -> Part:
    kinds = set(map(type, values))
    if kinds == {str}:
        return Part(spark.StringType(), out)
    return Part(spark.LongType(), out) if kinds == {int} else _JSON


def _array(item: Part) -> Part:
    out, back = item.out, item.back
    return Part(
        spark.ArrayType(item.type),
        lambda values: converted(out, list(values)),
        None if back is None else lambda values: converted(back, values),
    )


def _map(kind: inspect.DictType, path: tuple[type, ...]) -> Part:
    key, value = _part(kind.key_type, path), _part(kind.value_type, path)
    if not isinstance(key.type, spark.AtomicType):
        return _JSON
    return Part(
        spark.MapType(key.type, value.type),
        lambda items: list(
            zip(converted(key.out, list(items)), converted(value.out, list(items.values())), strict=True)
        ),
        lambda pairs: dict(
            zip(
                converted(key.back, [k for k, _ in pairs]),
                converted(value.back, [v for _, v in pairs]),
                strict=True,
            )
        ),
    )


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    written: str
    part: Part
    may_lack: bool
    """Null means that the field is absent, not that it is None."""


def _record(kind: Any, path: tuple[type, ...]) -> Part:
    if kind.cls in path or not kind.fields:
        return _JSON  # Spark has no recursive types, and Parquet no empty ones
    fields = [
        _Field(
            field.name,
            field.encode_name,
            _part(field.type, (*path, kind.cls)),
            not field.required and not _takes_none(field.type) and _may_lack(kind, field.name),
        )
        for field in kind.fields
    ]
    row = _Row(fields, positional=_positional(kind), tag=getattr(kind, "tag", None))
    columns = [spark.StructField(field.name, field.part.type) for field in fields]
    return Part(spark.StructType(columns), row.out, row.back)


@dataclass(frozen=True, slots=True)
class _Row:
    """Conversion of a record of named values."""

    fields: list[_Field]
    positional: bool
    tag: str | int | None

    def out(self, record: Any) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field in self.fields:
            value = record.get(field.name) if isinstance(record, dict) else getattr(record, field.name)
            if value is None or value is msgspec.UNSET:
                values[field.name] = None
            else:
                values[field.name] = value if field.part.out is None else field.part.out(value)
        return values

    def back(self, row: dict[str, Any]) -> Any:
        values: dict[str, Any] = {}
        for field in self.fields:
            value = row.get(field.name)
            if field.name in row and not (value is None and field.may_lack):
                convert = field.part.back
                values[field.written] = value if value is None or convert is None else convert(value)
        if not self.positional:
            return values
        return ([] if self.tag is None else [self.tag]) + [values.get(field.written) for field in self.fields]


def _positional(kind: Any) -> bool:
    return isinstance(kind, inspect.NamedTupleType) or getattr(kind, "array_like", False)


def _takes_none(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.NoneType | inspect.AnyType) or (
        isinstance(kind, inspect.UnionType) and kind.includes_none
    )


def _may_lack(kind: Any, name: str) -> bool:
    if isinstance(kind, inspect.TypedDictType):
        return True
    if not isinstance(kind, inspect.StructType):
        return False
    defaults = {field.name: field.default for field in msgspec.structs.fields(kind.cls)}
    return defaults[name] is msgspec.UNSET


def _as_utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except (ValueError, AttributeError):
        raise unencodable("uuid", "the text is not a UUID") from None


def _from_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise unencodable("json", str(error)) from None


_STRING = Part(spark.StringType())
_LONG = Part(spark.LongType())
_DOUBLE = Part(spark.DoubleType())
_BOOL = Part(spark.BooleanType())
_BINARY = Part(spark.BinaryType(), bytes)
_TIMESTAMP = Part(spark.TimestampType(), None, _as_utc)
_JSON = Part(spark.StringType(), lambda value: msgspec.json.encode(value).decode(), _from_json)
_PLAIN: dict[object, Part] = {
    bytes: Part(spark.BinaryType()),
    str: _STRING,
    int: _LONG,
    float: _DOUBLE,
    bool: _BOOL,
    UUID: Part(spark.StringType(), str, _uuid),
    datetime: _TIMESTAMP,
}
_SCALARS: dict[type[inspect.Type], Part] = {
    inspect.StrType: _STRING,
    inspect.IntType: _LONG,
    inspect.FloatType: _DOUBLE,
    inspect.BoolType: _BOOL,
    inspect.BytesType: _BINARY,
    inspect.ByteArrayType: _BINARY,
    inspect.MemoryViewType: _BINARY,
    inspect.DateTimeType: _TIMESTAMP,
    inspect.DateType: Part(spark.DateType()),
    inspect.UUIDType: Part(spark.StringType(), str),
}
_RECORDS = (
    inspect.StructType,
    inspect.DataclassType,
    inspect.TypedDictType,
    inspect.NamedTupleType,
)
_WHOLE = (spark.ByteType, spark.ShortType, spark.IntegerType)
_WIDER: dict[type[spark.DataType], tuple[type[spark.DataType], ...]] = {
    spark.LongType: _WHOLE,
    spark.DoubleType: (*_WHOLE, spark.LongType, spark.FloatType),
}


def pickled(content: object) -> bytes:
    """Pickle content with its types: importable ones by name, others by definition. Cloudpickle alone
    supports neither Structs nor decoders of msgspec. `pickle.loads` reads the result."""
    target = io.BytesIO()
    _Pickler(target).dump(content)  # type: ignore[no-untyped-call]
    return target.getvalue()


class _Pickler(CloudPickler):
    """Cloudpickle with support for the types of msgspec."""

    def __init__(self, target: io.BytesIO) -> None:
        super().__init__(target)  # type: ignore[no-untyped-call]
        self._inside: list[type] = []

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Structured):
            form = next(kind for kind in type(obj).__mro__ if "format" in vars(kind))
            return _rebuild_serde, (form, obj._declared, obj.options(), obj.topic)
        if id(obj) in _SENTINELS:
            return getattr, (dataclasses, _SENTINELS[id(obj)])
        if isinstance(obj, type) and not _importable(obj):
            if isinstance(obj, msgspec.StructMeta):
                return self._struct(obj)
            if "__msgspec_cache__" in vars(obj):
                delattr(obj, "__msgspec_cache__")  # recreated when it is missing
        return super().reducer_override(obj)  # type: ignore[no-untyped-call]

    def _struct(self, kind: Any) -> Any:
        if kind in self._inside or getattr(kind, "__parameters__", None):
            raise ConfigError(
                "cannot-ship",
                f"{kind.__name__} is generic or refers to itself, and is not in a module",
                "put it into a module that executors can import",
            )
        fields = [
            (one.name, one.type, one.default, one.default_factory) for one in msgspec.structs.fields(kind)
        ]
        config = {name: getattr(kind.__struct_config__, name) for name in _CONFIG}
        config["rename"] = tuple(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
        methods = {
            name: found
            for parent in reversed(kind.__mro__)
            if isinstance(parent, msgspec.StructMeta) and parent is not msgspec.Struct
            for name, found in vars(parent).items()
            if isinstance(found, FunctionType | property | classmethod | staticmethod)
        }
        # Pickled here, since pickle would come by the fields only after this class is done.
        self._inside.append(kind)
        inner = io.BytesIO()
        within = _Pickler(inner)
        within._inside = self._inside
        within.dump((fields, methods))  # type: ignore[no-untyped-call]
        self._inside.pop()
        return _rebuild_struct, (kind.__name__, inner.getvalue(), tuple(config.items()))


_SENTINELS = {
    id(getattr(dataclasses, name)): name
    for name in ("MISSING", "KW_ONLY", "_FIELD", "_FIELD_CLASSVAR", "_FIELD_INITVAR")
}
"""Objects that a dataclass compares by identity, which a copy would lose."""
_CONFIG = (
    "frozen",
    "eq",
    "order",
    "array_like",
    "omit_defaults",
    "forbid_unknown_fields",
    "tag",
    "tag_field",
    "dict",
    "weakref",
    "gc",
    "cache_hash",
)


def _importable(kind: type) -> bool:
    if kind.__module__ == "__main__":
        return False
    found: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind


def _rebuild_serde(form: Any, declared: Any, options: dict[str, Any], topic: Any) -> Serde[Any]:
    serde: Serde[Any] = form[declared](**options)
    return serde if topic is None else serde.of_topic(*topic)


@lru_cache(256)
def _rebuild_struct(name: str, data: bytes, config: tuple[tuple[str, Any], ...]) -> Any:
    """Return the Struct of this definition, the same object each time: it may be part of several others."""
    fields, methods = pickle.loads(data)  # noqa: S301 - the user's own job sent it
    options = dict(config)
    options["rename"] = dict(options["rename"])
    make_field: Any = msgspec.field  # mypy knows it with one of both only
    listed = [
        (field, kind, make_field(default=default, default_factory=factory))
        for field, kind, default, factory in fields
    ]
    required = [default is factory for _, _, default, factory in fields]  # NODEFAULT both
    options["kw_only"] = required != sorted(required, reverse=True)
    return msgspec.defstruct(name, listed, module=__name__, namespace=methods, **options)
