"""What turns values into bytes and back."""

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
    """One type, written as bytes and read back.

    - `decode(encode(value)) == value` for every value of the type.
    - Both raise `SerdeError` for what they do not take, and nothing else; a serde with a schema registry
      raises `RegistryError` where that does not answer, which says nothing about the record.
    - `None` never comes in and never goes out: no key, and no value (a tombstone), are no bytes at all,
      and that is settled before a serde is asked.
    - The same value gives the same bytes now and later; nothing is read but the arguments.

    `decode` takes anything that is like bytes, also a memoryview over a batch.
    """

    name: str
    """The format as people see it, and as the manifest keeps it: `int`, `json[Order]`."""

    stable: bool = True
    """Whether equal values always have equal bytes. A key must: its bytes choose its partition and row."""

    @abstractmethod
    def encode(self, value: T) -> bytes:
        """The bytes of a value."""

    @abstractmethod
    def decode(self, data: bytes) -> T:
        """The value of bytes that `encode` gave."""

    def encode_many(self, values: Sequence[T]) -> list[bytes]:
        """The bytes of each value: what `encode` gives, in less time."""
        return [self.encode(value) for value in values]

    def decode_many(self, data: Sequence[bytes]) -> list[T]:
        """The value of each: what `decode` gives, in less time."""
        return [self.decode(one) for one in data]

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """The format and type as plain JSON values with sorted keys.

        Two serdes with equal schemas read each other's bytes. An upgrade compares schemas, so texts
        that change no byte (docstrings) are left out.
        """

    def of_topic(self, topic: str, side: Side) -> Serde[T]:  # noqa: ARG002 - for those that care
        """This serde as a topic uses it. Most do the same everywhere."""
        return self

    def __repr__(self) -> str:
        return f"<serde {self.name}>"


def wrong_type(serde: str, value: object, why: str = "") -> SerdeError:
    """The error for a value of a class that the serde does not write. It never shows the value itself."""
    message = f"serde {serde} cannot write a {type(value).__qualname__}"
    return SerdeError("wrong-type", f"{message}: {why}" if why else message, _ENCODE_HINT)


def unencodable(serde: str, why: str, hint: str = _ENCODE_HINT) -> SerdeError:
    """The error for a value of the right class that has no bytes in this format."""
    return SerdeError("unencodable", f"serde {serde} cannot write this value: {why}", hint)


def undecodable(serde: str, data: bytes, why: str) -> SerdeError:
    """The error for bytes that are no value of this format. It tells their number, never what they are."""
    return SerdeError(
        "undecodable", f"serde {serde} cannot read these {len(data)} bytes: {why}", _DECODE_HINT
    )
