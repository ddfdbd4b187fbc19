"""The records of a model's topics, as JSON: requests, which servers write, and events, which others read."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from tidegate.errors import SerdeError
from tidegate.models.patch import Patch

VERSION: Final = 1
LONGEST_ID = 512
"""Bytes of an id: it is a key of LMDB and a part of URLs."""
NO_DIFF = msgspec.Raw(b"null")
RequestKind = Literal["create", "append", "delete"]


class ModelRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record of the requests topic, under the id. The task decides what becomes of it."""

    kind: RequestKind
    request: str
    """Its own id: sent again with the same one, it has no second effect."""
    body: str = ""
    """A digest of its content."""
    diff: msgspec.Raw = NO_DIFF
    expect: str | None = None
    """The token of the version that it must find."""
    actor: str = ""
    version: int = VERSION


class ModelEvent(msgspec.Struct, frozen=True):
    """A record of the events topic, under the id: one version of its state."""

    id: str
    life: int
    sequence: int
    previous: str
    """The hash of the version before."""
    hash: str
    kind: Literal["created", "changed", "gone"]
    patch: Patch
    """From the version before; of a created one the whole state."""
    at: int
    """The time of the record that caused it, in milliseconds since 1970."""
    origin: str
    """The position of that record: topic, partition and offset."""
    version: int = VERSION


_request = msgspec.json.Decoder(ModelRequest)


def decode_request(data: bytes | None) -> ModelRequest:
    """Raises SerdeError."""
    if data is None:
        raise _bad("it has no value")
    try:
        found = _request.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(str(error)) from error
    if found.version != VERSION:
        raise _bad(f"version {found.version}")
    return found


def _bad(why: str) -> SerdeError:
    message = f"a request to a model cannot be used: {why}"
    return SerdeError("bad-request", message, "docs/models.md has the format")


def encode_json(value: Any) -> bytes:
    """JSON with sorted keys: equal values have equal bytes."""
    return _sorted(value)


_sorted = msgspec.json.Encoder(order="deterministic").encode
