"""The row of an id: all that is needed to answer any client, and to decide on any request.

    never existed ── first diff, or create ──> alive, life 1 ── removed ──> gone ── created again ──> life 2

The sequence counts the versions of a life, from 1. A removal is a version too. A row is never deleted: the
next life needs the number of the last one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidegate.models.canonical import Json
from tidegate.models.stamps import Stamps
from tidegate.models.token import Token

FORMAT = 1
MOST_OUTCOMES = 64
"""So many requests of an id are remembered: those that are sent again have no second effect."""


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """What became of a request."""

    request: str
    """Its id: the same one when it is sent again."""
    body: str
    """A digest of its content: another request must not have its id."""
    code: str
    """`created`, `appended`, `unchanged`, `deleted`, or the code of the error."""
    message: str = ""
    token: str = ""
    """Of the version after it."""


class ModelRow(msgspec.Struct, frozen=True, array_like=True):
    """One row of a model's store. `id` is its key."""

    format: int = FORMAT
    life: int = 0
    """How often the id was created; 0 if never."""
    sequence: int = 0
    hash: str = ""
    floor: int = 0
    """The oldest sequence from which `since` can make a patch."""
    gone: bool = True
    state: bytes = b""
    """JSON with sorted keys."""
    stamps: bytes = b""
    """MessagePack of `Stamps`."""
    outcomes: tuple[Outcome, ...] = ()
    """Of the last requests, the newest last."""

    def token(self, id: str) -> str:
        """The token of this version."""
        return Token(self.life, self.sequence, self.hash).text(id)

    def document(self) -> Json:
        """The state as a JSON value."""
        found: Json = None if self.gone else _json(self.state)
        return found

    def decoded_stamps(self) -> Stamps:
        found: Stamps = _stamps(self.stamps)
        return found

    def outcome(self, request: str) -> Outcome | None:
        """What became of a request, if it is among the last ones."""
        return next((one for one in reversed(self.outcomes) if one.request == request), None)

    def with_outcome(self, outcome: Outcome) -> ModelRow:
        return msgspec.structs.replace(self, outcomes=(*self.outcomes, outcome)[-MOST_OUTCOMES:])


NEVER = ModelRow()
"""Stands for the row of an id that never existed."""

_json: Any = msgspec.json.Decoder().decode
_row = msgspec.msgpack.Decoder(ModelRow)
_encode_row = msgspec.msgpack.Encoder().encode
_stamps: Any = msgspec.msgpack.Decoder(Stamps).decode
encode_stamps = msgspec.msgpack.Encoder().encode


def decode_row(data: bytes | None) -> ModelRow:
    """Return the row of a store or changelog; NEVER for none."""
    return NEVER if data is None else _row.decode(data)


def encode_row(row: ModelRow) -> bytes:
    """Return the row as a store and its changelog keep it."""
    return _encode_row(row)
