"""Read the types of a function's results from its annotations."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

UNKNOWN: Any = inspect.Parameter.empty
"""The type is not known: it has no serde, and where one is needed that is an error."""


def returned_by(function: Callable[..., Any]) -> Any:
    """Return the declared result of a function, or the class itself; UNKNOWN for a lambda."""
    if isinstance(function, type):
        return function
    hints = _hints(function)
    return hints.get("return", UNKNOWN)


def elements_of(iterable: Any) -> Any:
    """Return the element type of `list[str]`, `Iterator[Order]` and the like."""
    origin, arguments = typing.get_origin(iterable), typing.get_args(iterable)
    if isinstance(origin, type) and issubclass(origin, Iterable) and arguments:
        return arguments[0]
    return UNKNOWN


def without_none(hint: Any) -> Any:
    """Return `str` for `str | None`; any other type as it is."""
    if typing.get_origin(hint) not in (types.UnionType, typing.Union):
        return hint
    rest = [one for one in typing.get_args(hint) if one is not type(None)]
    return rest[0] if len(rest) == 1 else hint


def filled(hint: Any, generic: type) -> tuple[Any, Any]:
    """Return the two type arguments of a generic class: (str, Order) of Record[str, Order]."""
    if typing.get_origin(hint) is generic:
        key, value = typing.get_args(hint)
        return key, value
    return UNKNOWN, UNKNOWN


def arguments_of(function: Callable[..., Any], parameter: int, generic: type) -> tuple[Any, ...] | None:
    """Return the type arguments in a parameter's annotation: (str, Order) of Context[str, Order]."""
    target = function.process if isinstance(function, type) and hasattr(function, "process") else function
    names = list(inspect.signature(target).parameters)
    if parameter >= len(names):
        return None
    hint = _hints(target).get(names[parameter], UNKNOWN)
    return typing.get_args(hint) if typing.get_origin(hint) is generic else None


def parameter_of(function: Callable[..., Any], number: int) -> Any:
    """Return the annotation of a parameter; UNKNOWN if it has none."""
    names = list(inspect.signature(function).parameters)
    return _hints(function).get(names[number], UNKNOWN) if number < len(names) else UNKNOWN


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return typing.get_type_hints(target)
    except (NameError, TypeError, AttributeError):
        return {}
