"""`JsonSchema[Order]()`: JSON in Confluent's wire format, with its JSON Schema in a registry.

    ORDERS = Topic("orders", JsonSchema[Order]())

The value is written and checked by msgspec, as in `Json[Order]()`; the registry holds the schema for other
programs, and refuses incompatible ones. A record's schema must be known to the registry and be a JSON Schema;
values are checked against the type.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from tidegate.errors import ConfigError
from tidegate.serde.framed import HEAD, Framed
from tidegate.serde.protocol import T
from tidegate.serde.registry import Registered
from tidegate.serde.structured import Json

_REFERENCE = "#/definitions/{name}"
DIALECT = "http://json-schema.org/draft-07/schema#"


class JsonSchema(Framed[T]):
    """JSON with a schema: `JsonSchema[Order]()`. The options are those of `Avro`.

    `name` is the schema's title, which names the subject with "record-name". A schema that is passed in is
    registered as it is; values are checked against the type, not against that schema.
    """

    format = "json-schema"
    kind = "JSON"

    _encode: Callable[[Any], bytes]
    _decode: Callable[[Any], Any]

    def _own_schema(self) -> tuple[str, str | None]:
        form: Any = Json[self._declared]()  # type: ignore[name-defined]
        self._encode, self._decode = form._to_bytes, form._from_bytes
        text = (
            json.dumps(_described(self._declared, self._named))
            if self._given_schema is None
            else self._given_schema
        )
        try:
            schema = json.loads(text)
        except (ValueError, RecursionError):
            schema = None
        if not isinstance(schema, dict):
            raise ConfigError(
                "bad-schema", f"{self.name}: its schema is not a JSON object", "correct the schema"
            )
        title = schema.get("title")
        return text, title if isinstance(title, str) else None

    def _write_as(self, found: Registered) -> None:
        """Do nothing: only the id changes."""

    def _body(self, value: T, head: bytes) -> bytes:
        return head + self._encode(value)

    def _learn(self, found: Registered) -> Any:
        return found

    def _value(self, data: bytes, learned: Any) -> T:  # noqa: ARG002 - that the registry has it is enough
        value: T = self._decode(memoryview(data)[HEAD:])
        return value


def _described(declared: Any, name: str | None) -> dict[str, Any]:
    """Return the schema of the type without descriptions. The schema of a class is the outermost, not among
    the definitions, unless it refers to itself."""
    found = _bare(msgspec.json.schema(declared, ref_template=_REFERENCE))
    named = found.pop("$defs", {})
    outer = next((one for inner, one in named.items() if found == _refer(inner)), found)
    described = {"$schema": DIALECT, **outer}
    if name:
        described["title"] = name
    inside = json.dumps([outer, *(one for one in named.values() if one is not outer)])
    defined = {inner: one for inner, one in named.items() if json.dumps(_refer(inner)) in inside}
    return {**described, "definitions": defined} if defined else described


def _refer(name: str) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(name=name)}


def _bare(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        word: _bare(one) for word, one in schema.items() if word != "description" or not isinstance(one, str)
    }
