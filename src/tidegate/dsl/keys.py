"""Find the type of the keys that a function selects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidegate.dsl.inferred import result_of, type_of
from tidegate.dsl.types_of import UNKNOWN, returned_by, without_none


@dataclass(frozen=True, slots=True)
class UndeclaredKey:
    """A key type other than str that was inferred and not declared. A topic with its own key type can still
    write such keys; nothing else can, since keys are written as str unless declared otherwise."""

    kind: Any


def selected_key(function: Callable[..., Any], value: Any, declared: Any) -> Any:
    """Return `key=`, else the return annotation, else str, unless the function's bytecode shows another
    type."""
    if declared is not None:
        return declared
    known = without_none(returned_by(function))
    if known is not UNKNOWN:
        return known
    found = without_none(result_of(function, type_of(value)))
    if found is UNKNOWN or found is type(None) or (isinstance(found, type) and issubclass(found, str)):
        return str
    return UndeclaredKey(found)
