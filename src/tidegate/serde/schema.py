"""Describe a declared type as plain JSON values, the same in every process."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any

import msgspec
from msgspec import inspect

from tidegate.errors import ConfigError
from tidegate.serde.declared import parts, type_name

_MAPS_OF_NAMES = ("properties", "$defs", "mapping")
_ANY_ORDER = ("anyOf", "default")


def type_schema(declared: object) -> dict[str, Any]:
    """Return the JSON schema of a type, and the types of dict keys in it, which JSON schema leaves out.

    It is compared with earlier ones, so it contains only what changes bytes. Descriptions are left out: an
    edited docstring must not look like an upgrade. The members of unions and lists within defaults are
    sorted, since a default may be a set and a set's order changes from process to process."""
    return (_cached if isinstance(declared, Hashable) else _described)(declared)


def _described(declared: object) -> dict[str, Any]:
    try:
        described: dict[str, Any] = {"type": _tidy(msgspec.json.schema(declared))}
    except TypeError as error:
        raise ConfigError(
            "unsupported-type",
            f"{type_name(declared)} cannot be described: {error}",
            "use Structs, dataclasses, TypedDicts and plain values",
        ) from None
    keys = [
        part.key_type for part in parts(inspect.type_info(declared)) if isinstance(part, inspect.DictType)
    ]
    others = sorted(type(key).__name__ for key in keys if not isinstance(key, inspect.StrType))
    return {"keys": others, **described} if others else described


_cached = functools.lru_cache(maxsize=512)(_described)


def _tidy(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    tidy: dict[str, Any] = {}
    for word in sorted(schema):
        if word in _MAPS_OF_NAMES:
            tidy[word] = {name: _tidy(schema[word][name]) for name in sorted(schema[word])}
        elif word in _ANY_ORDER:
            tidy[word] = _sorted(schema[word] if word == "default" else _tidy(schema[word]))
        elif word != "description":
            tidy[word] = _tidy(schema[word])
    return tidy


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return sorted(map(_sorted, value), key=msgspec.json.encode)
    return value
