"""Classes that a call made, such as `defstruct` or `make_dataclass`: no source shows their fields."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator
from typing import Any, ForwardRef

_OF_EACH_CLASS = {"__module__", "__doc__", "__qualname__", "__firstlineno__", "__dictoffset__"}
_PLAIN = (str, bytes, int, float, tuple, frozenset)
_OPTIONS = (
    "array_like",
    "omit_defaults",
    "forbid_unknown_fields",
    "tag",
    "tag_field",
    "eq",
    "order",
    "frozen",
)
_NAME = re.compile(r"[^\W\d]\w*")


def is_made_by_types(kind: type) -> bool:
    """Whether it was made by `types.new_class`, for example in `make_dataclass` of Python 3.11."""
    return kind.__module__ == "types" and getattr(types, kind.__name__, None) is not kind


def declaration_of(kind: type) -> dict[str, Any]:
    """Return the fields of a class with their types, and its options."""
    found: dict[str, Any] = {"types": inspect.get_annotations(kind)}
    options = getattr(kind, "__struct_config__", None)
    if options is not None:
        found["options"] = [getattr(options, name, None) for name in _OPTIONS]
    return found | {
        name: value
        for name, value in kind.__dict__.items()
        if name.startswith("__") and name not in _OF_EACH_CLASS and isinstance(value, _PLAIN)
    }


def names_in_quotes(kind: type) -> Iterator[str]:
    """Yield the names in types that are given as text."""
    for one in inspect.get_annotations(kind).values():
        text = one.__forward_arg__ if isinstance(one, ForwardRef) else one
        if isinstance(text, str):
            yield from _NAME.findall(text)
