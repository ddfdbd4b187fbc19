"""The base class of serdes, which convert values to bytes and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Literal, TypeVar

from tidegate.errors import SerdeError

T = TypeVar("T")

Side = Literal["key", "value"]

_ENCODE_HINT = "send what the type declares, or declare the type that is sent"
_DECODE_HINT = (
    "declare the type and format that the bytes were written with, "
    'or set on_error="dead-letter" on the source'
)


class Serde(ABC, Generic[T]):
    """Encodes values of one type as bytes, and decodes them.

    - `decode(encode(value)) == value` for every value of the type.
    - Both raise only `SerdeError`, for values and bytes that they refuse; a serde with a schema registry
      raises `RegistryError` if that does not answer, which does not concern the record.
    - `None` is never passed in or returned: a missing key and a missing value (a tombstone) have no bytes,
    and
      are handled before a serde is called.
    - The same value always has the same bytes; a serde reads nothing but its arguments.

    `decode` accepts any bytes-like object, also a memoryview over a batch.
    """

    name: str
    """The format's name, as displayed and as stored in the manifest: `int`, `json[Order]`."""

    stable: bool = True
    """Whether equal values always have equal bytes. A key must: its bytes choose its partition and row."""

    def __init_subclass__(cls, **options: Any) -> None:
        """A class that overrides `encode` or `decode`, itself or by a mixin, does not inherit the form for
        many values, which does what its parent does."""
        super().__init_subclass__(**options)

        def depth(name: str) -> int:
            return next(number for number, base in enumerate(cls.__mro__) if name in vars(base))

        if depth("encode") < depth("encode_many"):
            cls.encode_many = Serde.encode_many  # type: ignore[method-assign]
        if depth("decode") < depth("decode_many"):
            cls.decode_many = Serde.decode_many  # type: ignore[method-assign]

    @abstractmethod
    def encode(self, value: T) -> bytes:
        """Return the bytes of a value."""

    @abstractmethod
    def decode(self, data: bytes) -> T:
        """Return the value of bytes that `encode` returned."""

    def encode_many(self, values: Sequence[T]) -> list[bytes]:
        """Return the bytes of each value: the same as `encode`, in less time."""
        return [self.encode(value) for value in values]

    def decode_many(self, data: Sequence[bytes]) -> list[T]:
        """Return the value of each: the same as `decode`, in less time."""
        return [self.decode(one) for one in data]

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """Return the format and type as plain JSON values with sorted keys.

        Two serdes with equal schemas read each other's bytes. An upgrade compares schemas, so docstrings,
        which change no byte, are left out.
        """

    def of_topic(self, topic: str, side: Side) -> Serde[T]:  # noqa: ARG002 - for those that care
        """Return this serde for use by a topic. Most serdes are the same everywhere."""
        return self

    def __repr__(self) -> str:
        return f"<serde {self.name}>"


def wrong_type(serde: str, value: object, why: str = "") -> SerdeError:
    """Return the error for a value of a class that the serde does not write. It never contains the value."""
    message = f"serde {serde} cannot write a {type(value).__qualname__}"
    return SerdeError("wrong-type", f"{message}: {why}" if why else message, _ENCODE_HINT)


def unencodable(serde: str, why: str, hint: str = _ENCODE_HINT) -> SerdeError:
    """Return the error for a value of the right class that this format cannot represent."""
    return SerdeError("unencodable", f"serde {serde} cannot write this value: {why}", hint)


def undecodable(serde: str, data: bytes, why: str) -> SerdeError:
    """Return the error for bytes that are not a value of this format. It contains their number, never the
    bytes."""
    return SerdeError(
        "undecodable", f"serde {serde} cannot read these {len(data)} bytes: {why}", _DECODE_HINT
    )
