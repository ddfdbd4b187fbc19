"""Keys and values as an app declared them, for people. No code of the app is loaded: Structs are shown as the
format has them, without the checks of their class."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from tidegate.errors import SerdeError
from tidegate.serde.framed import HEAD
from tidegate.serde.plain import PLAIN
from tidegate.serde.protocol import undecodable
from tidegate.text.render import ValueKind, as_json

_KINDS = {kind.value: kind for kind in ValueKind if kind is not ValueKind.BYTES}
_OTHER_PLAIN = {serde.name: serde for serde in PLAIN.values() if serde.name not in _KINDS}
_MAGIC = b"\x00"


class DeclaredFormat(NamedTuple):
    """The format of keys or values."""

    name: str
    """`json`, `msgpack`, `avro`, `int` and so on; empty if it is unknown, or only bytes."""
    schema: str = ""
    """The text of an Avro schema."""

    def decode(self, data: bytes) -> Any:
        """Return the value for JSON. Raises SerdeError if the bytes are not of this format."""
        if self.name in _KINDS:
            return as_json(data, _KINDS[self.name])
        try:
            if self.name == "msgpack":
                return msgspec.Raw(
                    msgspec.json.encode(msgspec.to_builtins(msgspec.msgpack.decode(data), str_keys=True))
                )
            if self.name in ("avro", "json-schema") and data[:1] == _MAGIC:
                return self._framed(data)
        except (ValueError, TypeError, RecursionError, ImportError, LookupError) as error:
            raise undecodable(self.name, data, str(error)) from None
        if self.name in _OTHER_PLAIN and self.name != "bytes":
            return msgspec.Raw(msgspec.json.encode(_OTHER_PLAIN[self.name].decode(data)))
        raise undecodable(self.name or "bytes", data, "its format is unknown")

    def _framed(self, data: bytes) -> Any:
        if self.name == "json-schema":
            return as_json(data[HEAD:], ValueKind.JSON)
        return msgspec.Raw(msgspec.json.encode(_avro_reader(self.schema)(data, HEAD)))


def shown_value(data: bytes | None, declared: DeclaredFormat | None) -> tuple[Any, str]:
    """Return bytes as the app declared them, with the name of the format; else by their look, with ""."""
    if data is not None and declared is not None and declared.name:
        try:
            return declared.decode(data), declared.name
        except SerdeError:
            pass
    return as_json(data), ""


@lru_cache(maxsize=64)
def _avro_reader(schema: str) -> Any:
    """A function that reads values which were written with this schema. Avro is an extra."""
    from tidegate.serde import avro_bytes

    known = avro_bytes.parsed(schema)
    return avro_bytes.reader(known, known)
