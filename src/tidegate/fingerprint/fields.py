"""The fields of an object, without running its code."""

from __future__ import annotations

import datetime
import decimal
import fractions
import ipaddress
import uuid
from contextlib import suppress
from dataclasses import is_dataclass
from types import MemberDescriptorType
from typing import Any

import msgspec

from tidegate.fingerprint.project import is_own

SHOWN_BY_REPR = (
    datetime.date,
    datetime.time,
    datetime.timedelta,
    datetime.tzinfo,
    decimal.Decimal,
    fractions.Fraction,
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
    msgspec.Meta,
    uuid.UUID,
    range,
    slice,
)

_NO_FIELDS = ("__dict__", "__weakref__", "__dictoffset__", "__vectorcalloffset__", "__weaklistoffset__")
"""Members that say nothing about an object. The offsets, which classes in C such as `functools.partial` have,
read as addresses."""


def fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of an object, sorted by name, without running its code."""
    found: dict[str, Any] = {}
    for kind in type(value).__mro__:
        slots = {name: one for name, one in kind.__dict__.items() if isinstance(one, MemberDescriptorType)}
        for name, slot in slots.items():  # names with two underscores are not those in __slots__
            with suppress(AttributeError):
                found.setdefault(name, slot.__get__(value))
        for name in kind.__dict__.get("__struct_fields__", ()):
            with suppress(AttributeError):
                found.setdefault(name, object.__getattribute__(value, name))
    if isinstance(value, BaseException):
        found["args"] = value.args
    with suppress(AttributeError):
        found.update(object.__getattribute__(value, "__dict__"))
    return {name: found[name] for name in sorted(found) if name not in _NO_FIELDS}


def declares_fields(kind: type) -> bool:
    """Whether a class lists its fields: a dataclass, a Struct, or the like."""
    if is_dataclass(kind) or issubclass(kind, msgspec.Struct):
        return True
    return hasattr(kind, "__attrs_attrs__") or hasattr(kind, "model_fields")


def is_settings(kind: type) -> bool:
    """Whether it is a class of settings: these know which of their fields count."""
    return any(is_own(one.__module__) and "counted" in one.__dict__ for one in kind.__mro__)


def uncounted_settings(kind: type) -> set[str]:
    """Return the settings of a class that do not count: operational ones and secrets."""
    if not is_settings(kind):
        return set()
    fields = kind.__dict__.get("__dataclass_fields__", {}).items()
    return {name for name, one in fields if one.metadata.get("operational") or "Secret" in str(one.type)}


def number_text(value: Any) -> str:
    """Return a plain value, or a list of such, as text."""
    try:
        return ascii(value)
    except ValueError:  # an integer of more digits than Python converts
        inner = value if isinstance(value, list) else [value]
        return ",".join(hex(one) if isinstance(one, int) else ascii(one) for one in inner)
