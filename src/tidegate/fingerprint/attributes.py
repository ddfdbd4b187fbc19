"""What a class itself holds, without what decorators and libraries generate."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Iterator
from typing import Any

from tidegate.fingerprint.fields import uncounted_settings

WRAPPERS = (staticmethod, classmethod)
_SKIPPED = (types.MemberDescriptorType, types.GetSetDescriptorType)


def attributes_of(
    kind: type, is_generated: Callable[[str, types.FunctionType], bool]
) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of a class by name: members, defaults of fields, methods, and later ones."""
    if issubclass(kind, enum.Enum):
        for name, member in kind.__members__.items():
            yield name, getattr(member, "_value_", None)
    uncounted = uncounted_settings(kind)
    for name in ("__struct_defaults__", "__struct_encode_fields__"):
        if hasattr(kind, name):
            yield name, [one for one in getattr(kind, name) if type(one).__module__ != "msgspec._core"]
    for name, value in kind.__dict__.get("__dataclass_fields__", {}).items():
        if name not in uncounted:
            yield f"{name} of the dataclass", [value.init, value.kw_only, *_default_of(value)]
    for name, value in sorted(kind.__dict__.items()):
        if name not in uncounted and _counts(kind, name, value, is_generated):
            yield name, value


def _counts(
    kind: type, name: str, value: Any, is_generated: Callable[[str, types.FunctionType], bool]
) -> bool:
    if isinstance(value, _SKIPPED) or name.startswith(("_abc_", "__tidegate")):
        return False
    inner = value.__func__ if isinstance(value, WRAPPERS) else value
    if isinstance(inner, types.FunctionType):
        return not is_generated(name, inner)
    if isinstance(inner, property):
        return True
    if issubclass(kind, enum.Enum) and (name in kind.__members__ or name.startswith("_")):
        return False
    return not (name.startswith("__") and name.endswith("__"))


def _default_of(field: Any) -> list[Any]:
    found = [field.default, field.default_factory]
    return [one for one in found if type(one).__name__ != "_MISSING_TYPE"]
