"""Write and read Avro with fastavro, protected against malicious schemas and bytes.

Schemas come from the registry and bytes from the topic; neither is trusted. A recursive schema is read by the
slower pure Python reader: the compiled one has no depth limit, and a few KB of nesting crash the process. A
list of values that take no bytes is refused: ten bytes could claim 2**63 of them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

from fastavro import _read_py, parse_schema, schemaless_reader, schemaless_writer
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType

from tidegate.serde.registry import Registered


class NoSchemaError(ValueError):
    """A text that is not an Avro schema, or one that cannot be used."""


class UnlikeError(ValueError):
    """Bytes of one schema that cannot be read as the other."""


class CutOffError(ValueError):
    """Bytes that end before their value does, or continue after it."""


def parsed(text: str, references: tuple[Registered, ...] = ()) -> Any:
    """Parse a schema for the functions below; raise NoSchemaError if it is invalid."""
    named: dict[str, Any] = {}
    try:
        for one in references:
            parse_schema(json.loads(one.text), named)
        return parse_schema(json.loads(text), named)
    except (SchemaParseException, UnknownType, ValueError, TypeError, KeyError, RecursionError) as error:
        raise NoSchemaError(f"it is not an Avro schema: {str(error)[:300] or type(error).__name__}") from None


def write(schema: Any, value: Any, head: bytes) -> bytes:
    """Return the head followed by the encoded value. Raises ValueError, whose text never contains the value,
    if it does not match the schema."""
    target = io.BytesIO()
    target.write(head)
    try:
        schemaless_writer(target, schema, value, disable_tuple_notation=True)
    except OverflowError:
        raise ValueError("an int in it has more bits than the schema") from None
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise ValueError(f"it does not match the schema ({type(error).__name__})") from None
    return target.getvalue()


def reader(writer: Any, own: Any) -> Callable[[bytes, int], Any]:
    """Return a function (bytes, start of the value) -> plain value, which reads the writer's schema as
    `own`."""
    shape = _Shape(writer)
    if shape.endless:
        raise NoSchemaError("it holds a list of values that take no bytes")
    read = _read_py.schemaless_reader if shape.recursive or _Shape(own).recursive else schemaless_reader
    as_own = None if writer == own else own

    def value(data: bytes, start: int) -> Any:
        source = io.BytesIO(data)
        source.seek(start)
        try:
            found = read(source, writer, as_own)
        except SchemaResolutionError as error:
            raise UnlikeError(str(error)[:300]) from None
        except (EOFError, IndexError):
            raise CutOffError("they end before the value does") from None
        if source.tell() != len(data):
            raise CutOffError(f"the value ends {len(data) - source.tell()} bytes before they do")
        return found

    return value


class _Shape:
    """Properties of a schema that are known before any byte is read."""

    def __init__(self, schema: Any) -> None:
        self.recursive = False
        self.endless = False
        self._named: dict[str, Any] = {}
        self._open: set[str] = set()
        self._referred = schema.get("__named_schemas", {}) if isinstance(schema, dict) else {}
        self._least(schema)

    def _least(self, schema: Any) -> int:  # noqa: PLR0911 - one for each kind
        """Return a lower bound of the bytes of a value: 0 if it may take none, else more."""
        if isinstance(schema, list):
            for member in schema:
                self._least(member)
            return 1
        if isinstance(schema, str):
            return self._least_named(schema)
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._least_record(schema)
        if kind == "array":
            self.endless |= self._least(schema["items"]) == 0
            return 1
        if kind == "map":
            self._least(schema["values"])
            return 1
        if kind == "fixed":
            self._named[schema["name"]] = int(schema["size"])
            return int(schema["size"])
        if kind == "enum":
            self._named[schema["name"]] = 1
            return 1
        return self._least(kind)

    def _least_named(self, name: str) -> int:
        if name in self._open:
            self.recursive = True
            return 1
        if name not in self._named and name in self._referred:
            return self._least(self._referred[name])
        return 0 if name == "null" else int(self._named.get(name, 1))

    def _least_record(self, schema: Any) -> int:
        name = schema["name"]
        self._open.add(name)
        least = sum([self._least(field["type"]) for field in schema["fields"]])
        self._open.discard(name)
        self._named[name] = least
        return least
