"""Confluent's wire format: values preceded by the id of their schema.

    0        the magic byte, 0
    1 to 4   the id of the writer's schema in the registry, big endian
    5 on     the value

What a writer requests from the registry depends on two options: with `register` it registers its own schema,
without it only looks the schema up; with `latest` it writes with the newest schema of the subject, whoever
registered that. Subjects have Confluent's names:

    topic-name          orders-value, orders-key
    record-name         com.shop.Order
    topic-record-name   orders-com.shop.Order

Outside of a topic (in a store) the subject is the record's name.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, ClassVar, Literal, Protocol, Self, get_args

from tidegate.errors import ConfigError, RegistryError, SerdeError
from tidegate.serde.current_registry import current_registry
from tidegate.serde.protocol import Side, T
from tidegate.serde.registry import Registered, Registry
from tidegate.serde.structured import Structured

HEAD = 5
Subject = Literal["topic-name", "record-name", "topic-record-name"]


class SchemaFile(Protocol):
    """A file with a schema: a `Path`, or a file of a package, by `importlib.resources.files`."""

    def read_text(self) -> str: ...


class Framed(Structured[T]):
    """Base class of the formats with a registry."""

    kind: ClassVar[str]
    """The registry's name of the format."""

    def __init__(
        self,
        schema: str | SchemaFile | None = None,
        *,
        subject: Subject = "topic-name",
        register: bool = True,
        latest: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if subject not in get_args(Subject):
            hint = f"use one of: {', '.join(get_args(Subject))}"
            raise ConfigError("bad-subject", f"{self.name}: unknown subject strategy {subject!r}", hint)
        self._given_schema = (
            None if schema is None else schema if isinstance(schema, str) else _read(self.name, schema)
        )
        self._naming: Subject = subject
        self._register = register
        self._latest = latest
        self._named = name
        self._registry: Registry | None = None
        self._head: bytes | None = None
        self._learned: dict[int, Any] = {}
        self.stable = self.stable and not latest
        self._to_bytes, self._from_bytes = self._write, self._read
        self.text, self.record = self._own_schema()

    # --- what each format implements -----------------------------------------------------------------

    @abstractmethod
    def _own_schema(self) -> tuple[str, str | None]:
        """Return the schema as text, and the full name of the record in it, if it has one."""

    @abstractmethod
    def _write_as(self, found: Registered) -> None:
        """Write values with this schema from now on, instead of the serde's own."""

    @abstractmethod
    def _body(self, value: T, head: bytes) -> bytes:
        """Return the head followed by the encoded value."""

    @abstractmethod
    def _learn(self, found: Registered) -> Any:
        """Return what `_value` needs to read values of this schema. Raises ValueError for an invalid one."""

    @abstractmethod
    def _value(self, data: bytes, learned: Any) -> T:
        """Decode the value after the head."""

    # --- what they share -----------------------------------------------------------------------------

    def of_topic(self, topic: str, side: Side) -> Self:
        bound = copy.copy(self)
        bound.topic, bound._registry, bound._head = (topic, side), None, None
        bound._to_bytes, bound._from_bytes = bound._write, bound._read
        return bound

    @property
    def subject(self) -> str:
        """The subject of the schema in the registry."""
        if self._naming == "topic-name" and self.topic is not None:
            return "-".join(self.topic)
        if self.record is None:
            raise RegistryError(
                "no-subject",
                f"{self.name} is not a named record, so it has no subject outside of a topic",
                'use a Struct, or subject="topic-name" and a topic',
            )
        if self._naming == "topic-record-name" and self.topic is not None:
            return f"{self.topic[0]}-{self.record}"
        return self.record

    def options(self) -> dict[str, Any]:
        return {
            "schema": self._given_schema,
            "subject": self._naming,
            "register": self._register,
            "latest": self._latest,
            "name": self._named,
        }

    def schema(self) -> dict[str, Any]:
        """Return the schema, including its text in the registry. Options are left out: they do not change the
        bytes of a value."""
        return {"schema": self.text, **super().schema()}

    def _write(self, value: T) -> bytes:
        if self._head is None or self._registry is not current_registry():
            self._head = self._make_head()
        return self._body(value, self._head)

    def _make_head(self) -> bytes:
        known, subject = self._use_current_registry(), self.subject
        if self._latest:
            found = known.latest(subject)
            if found.kind != self.kind:
                raise RegistryError(
                    "not-registered",
                    f"{subject!r} holds schemas of kind {found.kind}, not {self.kind}",
                    "use another subject, or declare the format that it holds",
                )
            self._write_as(found)
            number = found.id
        else:
            find = known.register if self._register else known.find
            number = find(subject, self.kind, self.text)
        return b"\0" + number.to_bytes(4, "big")

    def _read(self, data: bytes) -> T:
        if self._registry is not current_registry():
            self._use_current_registry()
        if len(data) < HEAD:
            raise self._refused("truncated", data, f"the head alone has {HEAD}")
        if data[0]:
            raise self._refused(
                "no-magic-byte", data, f"they begin with {data[0]}, not with 0 and a schema id"
            )
        number = int.from_bytes(data[1:HEAD], "big")
        learned = self._learned.get(number)
        if learned is None:
            learned = self._learned[number] = self._learn_schema(number, data)
        return self._value(data, learned)

    def _use_current_registry(self) -> Registry:
        """Return the current registry; forget schema ids if it is another one than before."""
        found = current_registry()
        if found is not self._registry:
            self._head, self._learned, self._registry = None, {}, found
        return found

    def _learn_schema(self, number: int, data: bytes) -> Any:
        assert self._registry is not None  # noqa: S101 - set by the caller
        found = self._registry.schema(number)
        if found.kind != self.kind:
            raise self._refused("incompatible-schema", data, f"schema {number} is of kind {found.kind}")
        try:
            return self._learn(found)
        except (ValueError, RecursionError) as error:
            raise self._refused("incompatible-schema", data, f"schema {number}: {error}") from None

    def _refused(self, code: str, data: bytes, why: str) -> SerdeError:
        return SerdeError(
            code,
            f"serde {self.name} cannot read these {len(data)} bytes: {why}",
            'declare what the topic holds, or set on_error="dead-letter" on the source',
        )


def _read(name: str, file: SchemaFile) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError, AttributeError) as error:
        raise ConfigError(
            "bad-schema",
            f"{name}: its schema cannot be read: {error}",
            "pass the text, a Path, or a file of your package by importlib.resources",
        ) from None
