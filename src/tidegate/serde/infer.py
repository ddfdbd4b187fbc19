"""Find the serde of a declared type."""

from __future__ import annotations

import inspect
import typing
from types import NoneType
from typing import Any, overload

from tidegate.errors import ConfigError
from tidegate.serde.declared import bare, is_open, is_union, type_name
from tidegate.serde.plain import PLAIN
from tidegate.serde.protocol import Serde, T
from tidegate.serde.structured import Json

_UNKNOWN = (None, NoneType, Any, object, inspect.Parameter.empty, typing.Never, typing.NoReturn)
_BARE_CONTAINERS = {list: "list[Order]", dict: "dict[str, int]", tuple: "tuple[int, str]", set: "set[str]"}


@overload
def serde_for(declared: Serde[T]) -> Serde[T]: ...
@overload
def serde_for(declared: type[T]) -> Serde[T]: ...
@overload
def serde_for(declared: object) -> Serde[Any]: ...
def serde_for(declared: object) -> Serde[Any]:
    """Return the serde of a declared type; a serde is returned as it is.

    Plain types have their plain serde, everything else that msgspec supports is written as JSON. Raises
    ConfigError: `missing-serde` if the type is not known (nothing, `Any`, a `TypeVar`, an unsupported class),
    `union-needs-format` for a union. There is no default for these, since a wrong guess is written into
    topics and stays there."""
    if isinstance(declared, Serde):
        return declared
    declared = bare(declared)
    if is_union(declared):
        raise _union(declared)
    _refuse_unknown(declared)
    plain = PLAIN.get(declared) if isinstance(declared, type) else None
    if plain is not None:
        return plain
    try:
        found: Serde[Any] = Json[declared]()  # type: ignore[valid-type]
    except ConfigError as error:
        raise ConfigError("missing-serde", error.message, error.hint) from error
    return found


def _refuse_unknown(declared: object) -> None:
    if any(declared is nothing for nothing in _UNKNOWN):
        what = "no type" if declared is inspect.Parameter.empty else type_name(declared)
        raise _missing(
            f"{what} was declared, which does not define the bytes", "declare the type, as in Order"
        )
    if isinstance(declared, str):
        raise _missing(f"{declared!r} is a name, not a type", "declare the type itself, without quotes")
    if is_open(declared):
        raise _missing(f"{type_name(declared)} leaves a type variable open", "fill it in, as in Page[Order]")
    if isinstance(declared, type) and issubclass(declared, Serde):
        raise _missing(f"{declared.__name__} is a class of serdes", f"call it: {declared.__name__}()")
    if isinstance(declared, type) and declared in _BARE_CONTAINERS:
        raise _missing(
            f"{declared.__name__} does not name the type of its elements",
            f"write {_BARE_CONTAINERS[declared]}, or Json[{declared.__name__}]() to accept anything",
        )


def _missing(message: str, hint: str) -> ConfigError:
    return ConfigError("missing-serde", message, hint)


def _union(declared: object) -> ConfigError:
    members = [arg for arg in typing.get_args(declared) if arg is not NoneType]
    names = " | ".join(type_name(arg) for arg in members)
    if len(members) == 1:
        hint = f"None is a tombstone and needs no type: declare {names}"
    else:
        hint = f"Json[{names}]()"
    return ConfigError(
        "union-needs-format",
        f"{type_name(declared)} is a union, which has no default format",
        hint,
    )
