"""What a function's annotations say about the values that come out of it."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

UNKNOWN: Any = inspect.Parameter.empty
"""No type is known. A serde cannot be found for it, and where one is needed that is an error."""


def returned_by(function: Callable[..., Any]) -> Any:
    """The declared result of a function, or the class itself; UNKNOWN for a lambda."""
    if isinstance(function, type):
        return function
    hints = _hints(function)
    return hints.get("return", UNKNOWN)


def elements_of(iterable: Any) -> Any:
    """The type inside of `list[str]`, `Iterator[Order]` and their like."""
    origin, arguments = typing.get_origin(iterable), typing.get_args(iterable)
    if isinstance(origin, type) and issubclass(origin, Iterable) and arguments:
        return arguments[0]
    return UNKNOWN


def without_none(hint: Any) -> Any:
    """`str` of `str | None`; any other type as it is."""
    if typing.get_origin(hint) not in (types.UnionType, typing.Union):
        return hint
    rest = [one for one in typing.get_args(hint) if one is not type(None)]
    return rest[0] if len(rest) == 1 else hint


def filled(hint: Any, generic: type) -> tuple[Any, Any]:
    """The two types that an annotation fills into a generic class: (str, Order) of Record[str, Order]."""
    if typing.get_origin(hint) is generic:
        key, value = typing.get_args(hint)
        return key, value
    return UNKNOWN, UNKNOWN


def arguments_of(function: Callable[..., Any], parameter: int, generic: type) -> tuple[Any, ...] | None:
    """What a parameter's annotation fills into a generic class: (str, Order) of Context[str, Order]."""
    target = function.process if isinstance(function, type) and hasattr(function, "process") else function
    names = list(inspect.signature(target).parameters)
    if parameter >= len(names):
        return None
    hint = _hints(target).get(names[parameter], UNKNOWN)
    return typing.get_args(hint) if typing.get_origin(hint) is generic else None


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return typing.get_type_hints(target)
    except (NameError, TypeError, AttributeError):
        return {}
