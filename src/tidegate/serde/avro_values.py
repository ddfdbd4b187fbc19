"""Prepare values for an Avro writer: what the schema alone cannot decide is decided here by the declared
type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import inspect

from tidegate.serde.declared import parts

Prepare = Callable[[Any], None]
MARK = "-type"
"""The key under which the writer finds which record of a union a dict is."""
_RECORDS = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType)
_DICTS = (*_RECORDS, inspect.DictType)


def prepare_for(declared: object, names: Mapping[Any, str]) -> Prepare | None:
    """Return the function that prepares plain values of a type for writing; None if there is nothing to do.

    Records in unions are marked with their `names`, since two of them may have the same fields. A datetime
    without a time zone raises ValueError: the writer would interpret it as UTC.
    """
    root = inspect.type_info(declared)
    return _ValueBuilder(names).of(root) if any(map(_matters, parts(root))) else None


def _matters(part: inspect.Type) -> bool:
    if isinstance(part, inspect.UnionType):
        return sum(isinstance(member, inspect.StructType) for member in part.types) > 1
    return isinstance(part, inspect.DateTimeType) and part.tz is not False


class _ValueBuilder:
    """The functions of one type. Each record has one, since types may be recursive."""

    def __init__(self, names: Mapping[Any, str]) -> None:
        self._names = names
        self._records: dict[Any, Prepare] = {}

    def of(self, kind: inspect.Type) -> Prepare | None:
        if isinstance(kind, inspect.Metadata):
            return self.of(kind.type)
        if isinstance(kind, inspect.DateTimeType):
            return None if kind.tz is False else _check_zone
        if isinstance(kind, _RECORDS):
            return self._records.get(kind.cls) or self._record(kind)
        if isinstance(kind, inspect.UnionType):
            return self._union(kind)
        if isinstance(kind, inspect.DictType):
            of_value = self.of(kind.value_type)
            return None if of_value is None else partial(_each_value, of_value)
        inner = self.of(kind.item_type) if hasattr(kind, "item_type") else None
        return None if inner is None else partial(_each, inner)

    def _record(self, kind: Any) -> Prepare:
        fields: list[tuple[str, Prepare]] = []

        def prepare(record: Any) -> None:
            for name, inner in fields:
                if name in record:
                    inner(record[name])

        self._records[kind.cls] = prepare
        for field in kind.fields:
            inner = self.of(field.type)
            if inner is not None:
                fields.append((field.encode_name, inner))
        return prepare

    def _union(self, kind: inspect.UnionType) -> Prepare:
        structs = [member for member in kind.types if isinstance(member, inspect.StructType)]
        if len(structs) > 1:
            of_dict: Prepare | None = self._tagged(structs)
        else:
            of_dict = self._first(member for member in kind.types if isinstance(member, _DICTS))
        of_list = self._first(member for member in kind.types if hasattr(member, "item_type"))

        def prepare(value: Any) -> None:
            if isinstance(value, datetime):
                _check_zone(value)
            elif isinstance(value, dict) and of_dict is not None:
                of_dict(value)
            elif isinstance(value, list | tuple) and of_list is not None:
                of_list(value)

        return prepare

    def _first(self, kinds: Iterable[inspect.Type]) -> Prepare | None:
        return next((self.of(kind) for kind in kinds), None)

    def _tagged(self, structs: list[inspect.StructType]) -> Prepare:
        field = structs[0].tag_field
        by_tag = {one.tag: (self._names.get(one.cls, one.cls.__name__), self.of(one)) for one in structs}

        def prepare(record: Any) -> None:
            record[MARK], inner = by_tag[record[field]]
            if inner is not None:
                inner(record)

        return prepare


def _each(prepare: Prepare, values: Iterable[Any]) -> None:
    for value in values:
        prepare(value)


def _each_value(prepare: Prepare, values: Mapping[str, Any]) -> None:
    _each(prepare, values.values())


def _check_zone(value: Any) -> None:
    if isinstance(value, datetime) and value.utcoffset() is None:
        raise ValueError(
            "a datetime without a time zone; use datetime.now(UTC), or Meta(tz=False) in the type"
        )
