"""`Avro[Order]()`: Avro in Confluent's wire format, with a schema registry.

    ORDERS = Topic("orders", Avro[Order]())
    ORDERS = Topic("orders", Avro[Order](files("shop") / "order.avsc", register=False))

The schema is derived from the type, or passed in. A record is read with the schema it was written with, whose
id it carries, and resolved to the declared one: fields that the type lacks are dropped, missing ones get its
defaults. fastavro writes and reads; confluent-kafka provides only the registry's client, since its
deserializer takes several times as long.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from tidegate.errors import ConfigError, RegistryError
from tidegate.serde.avro_schema import avro_schema
from tidegate.serde.avro_values import Prepare, prepare_for
from tidegate.serde.framed import HEAD, Framed
from tidegate.serde.protocol import T
from tidegate.serde.registry import Registered

_AS_THEY_ARE = (bytes, bytearray, datetime, date, time, UUID, Decimal)


class Avro(Framed[T]):
    """Avro: `Avro[Order]()`. Small and checked by a registry; ints have 64 bits at most.

    - `schema`: the text of a schema, or a file with it; without one it is derived from the type.
    - `subject`: "topic-name" (default), "record-name" or "topic-record-name".
    - `register`: whether to register the schema when the first value is written; else it must be registered.
    - `latest`: write with the newest schema of the subject, as it was when the process first wrote.
    - `name`: the full name of the record, as in "com.shop.Order", for a schema derived from the type.

    The registry is not contacted before the first value is written or read.
    """

    format = "avro"
    kind = "AVRO"

    _avro: Any
    """The functions of `avro_bytes`."""
    _schema: Any
    _own: Any
    _prepare: Prepare | None
    _convert: Callable[[Any], Any]

    def _own_schema(self) -> tuple[str, str | None]:
        avro = self._avro = _avro(self.name)
        if self._given_schema is None:
            made = avro_schema(self._declared, self._named)
            text, names = json.dumps(made.schema), made.names
            as_read = json.dumps(avro_schema(self._declared, self._named, tags=True).schema)
        else:
            text, as_read, names = self._given_schema, self._given_schema, {}
        try:
            self._schema, self._own = avro.parsed(text), avro.parsed(as_read)
        except avro.NoSchemaError as error:
            raise ConfigError("bad-schema", f"{self.name}: {error}", "correct the schema") from None
        self._prepare = prepare_for(self._declared, names)
        record = self._schema.get("name") if isinstance(self._schema, dict) else None
        return text, record

    def _write_as(self, found: Registered) -> None:
        avro = self._avro
        try:
            self._schema = avro.parsed(found.text, found.references)
        except avro.NoSchemaError as error:
            message = f"{self.subject!r}: its latest schema (id {found.id}) cannot be used: {error}"
            raise RegistryError("not-registered", message, "register a valid schema") from None

    def _body(self, value: T, head: bytes) -> bytes:
        plain = msgspec.to_builtins(value, builtin_types=_AS_THEY_ARE, str_keys=True)
        # Avro would write 1.5 as 1 if the schema has long.
        msgspec.convert(plain, self._declared, str_keys=True)
        if self._prepare is not None:
            self._prepare(plain)
        data: bytes = self._avro.write(self._schema, plain, head)
        return data

    def _learn(self, found: Registered) -> Any:
        return self._avro.reader(self._avro.parsed(found.text, found.references), self._own)

    def _value(self, data: bytes, learned: Any) -> T:
        try:
            plain = learned(data, HEAD)
        except self._avro.UnlikeError as error:
            raise self._refused("incompatible-schema", data, str(error)) from None
        except self._avro.CutOffError as error:
            raise self._refused("truncated", data, str(error)) from None
        value: T = msgspec.convert(plain, self._declared, str_keys=True)
        return value


def _avro(name: str) -> Any:
    """Import the Avro functions at the first use: fastavro is an extra, which `import tidegate` must not
    need."""
    try:
        from tidegate.serde import avro_bytes
    except ImportError as error:
        raise ConfigError(
            "missing-extra", f"{name} needs fastavro: {error}", "pip install tidegate[avro]"
        ) from None
    return avro_bytes
