"""`Json[T]()` and `MsgPack[T]()`: structured values, by msgspec.

The type is passed in brackets, because only there can it be a union: `Json[Started | StepDone]()`. It is
available at run time through `__class_getitem__`, and type checkers see an ordinary generic class.

The same value has the same bytes: fields are in the order of their class, and a dict's items in the order of
the dict. Dicts are not sorted, since their order belongs to the user; so two equal dicts may have different
bytes, and a set's bytes may change from one process to the next. Neither may be in a key (`Serde.stable`).

Reading checks everything. Writing checks the class of the value, not its fields: that would cost as much
as reading it back. Nothing is ever unpickled or evaluated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import is_
from types import new_class
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from weakref import WeakValueDictionary

import msgspec

from tidegate.errors import ConfigError, RegistryError, SerdeError
from tidegate.serde.declared import accepted, is_open, shape, type_name
from tidegate.serde.protocol import Serde, Side, T, undecodable, unencodable, wrong_type
from tidegate.serde.schema import type_schema

_NOT_GIVEN: Any = object()
_REFUSED = (TypeError, ValueError, OverflowError, AttributeError)


class Structured(Serde[T]):
    """Base class of the structured formats: the type in brackets, and every failure as a `SerdeError`."""

    format: ClassVar[str]
    topic: tuple[str, Side] | None = None
    """The topic that it was created for, if that matters."""
    _declared: ClassVar[Any] = _NOT_GIVEN
    _made: ClassVar[WeakValueDictionary[Any, type[Structured[Any]]]]
    _to_bytes: Callable[[Any], bytes]
    _from_bytes: Callable[[bytes], Any]

    def __init__(self) -> None:
        if self._declared is _NOT_GIVEN or is_open(self._declared):
            name, _, _ = type(self).__name__.partition("[")
            raise ConfigError(
                "missing-serde", f"{name} does not name which type it writes", f"{name}[Order]()"
            )
        self.name = f"{self.format}[{type_name(self._declared)}]"
        self._shape = shape(self._declared)
        self.stable = self._shape.stable
        self._accepted = accepted(self._declared)

    def encode(self, value: T) -> bytes:
        if self._accepted is None:
            if value is None:
                raise wrong_type(self.name, value)
        elif type(value) not in self._accepted.exact and not self._accepted.takes(value):
            raise wrong_type(self.name, value, self._accepted.why_not(value))
        try:
            return self._to_bytes(value)
        except RecursionError:
            raise unencodable(
                self.name, "it is nested too deeply", "store the parts as separate rows"
            ) from None
        except _REFUSED as error:
            raise unencodable(self.name, str(error)) from error

    def decode(self, data: bytes) -> T:
        try:
            value: T = self._from_bytes(data)
        except RecursionError:
            raise undecodable(self.name, data, "they are nested too deeply") from None
        except (MemoryError, RegistryError, SerdeError):
            raise
        except Exception as error:  # a user's __post_init__ or Enum may raise anything
            raise undecodable(self.name, data, str(error) or type(error).__name__) from error
        if value is None:
            raise undecodable(self.name, data, "null is not a value; a tombstone has no bytes at all")
        return value

    def decode_many(self, data: Sequence[bytes]) -> list[T]:
        try:
            values = list(map(self._from_bytes, data))
        except RegistryError:
            raise
        except Exception:  # noqa: BLE001 - decoding one by one finds it
            return super().decode_many(data)
        return super().decode_many(data) if any(map(is_, values, repeat(None))) else values

    def schema(self) -> dict[str, Any]:
        return {"format": self.format, **type_schema(self._declared)}

    @property
    def declared_type(self) -> Any:
        """The type in brackets."""
        return self._declared

    def options(self) -> dict[str, Any]:
        """Return its options besides the type: `form[type](**options)` recreates it."""
        return {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structured):
            return NotImplemented
        same = self.format == other.format and self.options() == other.options()
        return same and bool(self._declared == other._declared)

    def __hash__(self) -> int:
        return hash(self.format)

    if not TYPE_CHECKING:

        def __init_subclass__(cls, **options: Any) -> None:
            super().__init_subclass__(**options)
            if "format" in cls.__dict__:
                cls._made = WeakValueDictionary()

        def __class_getitem__(cls, declared: Any) -> Any:
            """Return the subclass for one type, always the same one.

            The name is part of the cache key: in Python `A | B` equals `B | A`, and a name in a manifest must
            not depend on which of them was used first.
            """
            if isinstance(declared, TypeVar):
                return super().__class_getitem__(declared)
            name = type_name(declared)
            try:
                known = cls._made.get((name, declared))
            except TypeError:
                return cls._for(name, declared)
            return known or cls._made.setdefault((name, declared), cls._for(name, declared))

        @classmethod
        def _for(cls, name: str, declared: Any) -> type[Structured[Any]]:
            body = {"_declared": declared, "__module__": cls.__module__}
            return new_class(
                f"{cls.__name__}[{name}]", (cls,), exec_body=lambda namespace: namespace.update(body)
            )


class Json(Structured[T]):
    """JSON: `Json[Order]()`. The default for structured types, since people and other programs read it.

    JSON has no NaN and no infinity. They are refused, because msgspec would write null in their place.
    """

    format = "json"

    def __init__(self) -> None:
        super().__init__()
        self._from_bytes = msgspec.json.Decoder(self._declared).decode
        self._to_bytes = self._finite if self._shape.floats else _to_json

    def _finite(self, value: Any) -> bytes:
        data = _to_json(value)
        if b"null" in data and _holds_non_finite(value):
            raise unencodable(
                self.name, "JSON has no NaN and no infinity", "use None, or MsgPack in place of Json"
            )
        return data


class MsgPack(Structured[T]):
    """MessagePack: `MsgPack[Order]()`. Smaller and faster than JSON, with NaN; ints have 64 bits at most."""

    format = "msgpack"

    def __init__(self) -> None:
        super().__init__()
        self._from_bytes = msgspec.msgpack.Decoder(self._declared).decode
        self._to_bytes = _to_msgpack


_to_json = msgspec.json.Encoder().encode
_to_msgpack = msgspec.msgpack.Encoder().encode


_NON_FINITE_FLOAT = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")


def _holds_non_finite(value: object) -> bool:
    """Whether the value contains NaN or infinity. Called only if the JSON contains a null, so that usual
    records do not pay for it.

    MessagePack keeps every float as it is after the byte 0xcb: without the first bits of a NaN or infinity
    there is none. Text may contain the same bytes, so a match is verified value by value.
    """
    try:
        if not _NON_FINITE_FLOAT.search(_to_msgpack(value)):
            return False
    except OverflowError:
        pass
    waiting: list[Any] = [msgspec.to_builtins(value)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, float):
            if not math.isfinite(part):
                return True
        elif isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, list | tuple):
            waiting.extend(part)
    return False
