"""Inspect declared types, before any value is encoded."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union

import msgspec
from msgspec import inspect

from tidegate.errors import ConfigError


def type_name(declared: object) -> str:
    """Return the type's name without modules: `list[Order]`, `Started | StepDone`."""
    origin, args = typing.get_origin(declared), typing.get_args(declared)
    if is_union(declared):
        return " | ".join(map(type_name, args))
    if origin is Annotated:
        return type_name(args[0])
    if origin is not None:
        names = map(repr if origin is Literal else type_name, args)
        return f"{type_name(origin)}[{', '.join(names)}]"
    if declared is None or declared is NoneType:
        return "None"
    name = "..." if declared is ... else getattr(declared, "__name__", None)
    return name if isinstance(name, str) else repr(declared)


def is_union(declared: object) -> bool:
    """Whether it is `A | B` or `Union[A, B]`, with `A | None` among them."""
    return typing.get_origin(declared) in (Union, UnionType)


def is_open(declared: object) -> bool:
    """Whether a type variable is left open: `T` itself, `list[T]`, or a generic class without brackets."""
    return isinstance(declared, TypeVar) or bool(getattr(declared, "__parameters__", None))


def bare(declared: object) -> object:
    """Return the type behind `NewType`s and type aliases: the class of its values at run time."""
    while True:
        inner = getattr(declared, "__supertype__", None) or getattr(declared, "__value__", None)
        if inner is None or isinstance(declared, type):
            return declared
        declared = inner


class Shape(NamedTuple):
    """What a structured type contains at any depth."""

    floats: bool
    """A float may be inside, so a NaN may be."""
    stable: bool
    """No dict, set or Any inside: equal values of these can be written as different bytes."""


def shape(declared: object) -> Shape:
    """Inspect a type; raise ConfigError for one that no structured format can write and read."""
    try:
        root = inspect.type_info(declared)
    except (TypeError, NameError, AttributeError) as error:
        raise ConfigError(
            "unsupported-type",
            f"{type_name(declared)} cannot be written: {error}",
            "use Structs (with tag= in a union), dataclasses, TypedDicts and plain values",
        ) from None
    if isinstance(root, inspect.NoneType) or (isinstance(root, inspect.UnionType) and root.includes_none):
        raise ConfigError(
            "optional-value",
            f"{type_name(declared)} includes None, and None is a tombstone: it is never written as a value",
            "leave None out of the type",
        )
    floats, stable = False, True
    for part in parts(root):
        if isinstance(part, inspect.CustomType):
            raise ConfigError(
                "unsupported-type",
                f"{type_name(declared)} holds a {type_name(part.cls)}, which has no form of its own",
                "use Structs, dataclasses, TypedDicts and plain values, or pass a Serde of your own",
            )
        floats = floats or isinstance(part, _MAY_BE_FLOAT)
        stable = stable and not isinstance(part, _UNSTABLE)
    return Shape(floats, stable)


_MAY_BE_FLOAT = (inspect.FloatType, inspect.AnyType)
_UNSTABLE = (
    inspect.DictType,
    inspect.TypedDictType,
    inspect.SetType,
    inspect.FrozenSetType,
    inspect.AnyType,
)


def parts(root: inspect.Type) -> Iterator[inspect.Type]:
    """Yield the type and every type in it, each once: types may be recursive."""
    seen: set[int] = set()
    waiting: list[object] = [root]
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting.extend(part)
        elif isinstance(part, inspect.Field):
            waiting.append(part.type)
        elif isinstance(part, inspect.Type) and id(part) not in seen:
            seen.add(id(part))
            yield part
            waiting.extend(getattr(part, name) for name in part.__struct_fields__)


class Accepted(NamedTuple):
    """The classes whose values a declared type accepts."""

    exact: frozenset[type]
    """Accepted as they are."""
    bases: tuple[type, ...]
    """Instances of subclasses are accepted too, because they are written and read back as an equal value."""

    def takes(self, value: object) -> bool:
        """Whether the value's class is one of these. A bool is not an int here: JSON writes it as `true`."""
        if type(value) in self.exact:
            return True
        return isinstance(value, self.bases) and not isinstance(value, bool)

    def why_not(self, value: object) -> str:
        """Return what an error should explain beyond the name of the class."""
        if isinstance(value, tuple(self.exact)) and not isinstance(value, bool):
            return "it would come back as its parent class, without its own fields"
        return ""


def accepted(declared: object) -> Accepted | None:
    """Return the classes that a value of the declared type can have; None if that is not known.

    A subclass of a Struct or dataclass is not taken: it would come back as its parent, without its own
    fields, and the state after a restore would differ from the state before.
    """
    classes = _classes(declared)
    if classes is None:
        return None
    return Accepted(frozenset(classes), tuple(cls for cls in classes if not _is_record(cls)))


def _classes(declared: object) -> list[type] | None:
    declared = bare(declared)
    origin, args = typing.get_origin(declared), typing.get_args(declared)
    if origin is Annotated:
        return _classes(args[0])
    if is_union(declared):
        members = [_classes(arg) for arg in args]
        return None if None in members else [cls for member in members for cls in member or ()]
    if origin is Literal:
        return [type(arg) for arg in args]
    if declared is float:
        return [float, int]
    found = origin or declared
    found = dict if typing.is_typeddict(found) else found
    return [found] if isinstance(found, type) and found not in (Any, object) else None


def _is_record(cls: type) -> bool:
    return issubclass(cls, msgspec.Struct) or dataclasses.is_dataclass(cls)
