"""The records of a gate: requested statuses and triggers, which others write, and its own rows and audit
records.

Statuses, triggers and audit records are JSON, so that other services can write and read them; docs/gates.md
has their formats. An unknown `version` is refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from tidegate.errors import SerdeError
from tidegate.log.topic import LATEST_TIMESTAMP

VERSION: Final = 1
GATE_WIDE = b"\x00tidegate.everyone"
"""The key of gate-wide statuses, with one record in each partition of the status topic. The name is part of
the format."""
TOTALS = b""
"""The key under which the status store keeps the totals of its partition: no command can have it."""
LONGEST_RECORD = 64 << 10
LONGEST_TEXT = 4096

GateState = Literal["ACTIVE", "PAUSED"]
StatusCause = Literal["status", "trigger", "expiry"]
ExpiryMillis = Annotated[int, msgspec.Meta(ge=0, le=LATEST_TIMESTAMP)]
StatusEpoch = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class RequestedStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record of the status topic: the requested status of a key. Its offset is its epoch."""

    state: GateState
    actor: str = ""
    reason: str = ""
    expires_at: ExpiryMillis | None = None
    """When the pause expires, in milliseconds since 1970."""
    version: int = VERSION


class Trigger(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record of the trigger topic: ends the pause of an epoch."""

    epoch: StatusEpoch
    actor: str = ""
    reason: str = ""
    version: int = VERSION


class GateTotals(msgspec.Struct, frozen=True, array_like=True):
    """The totals of a gate in one partition, or in all of them."""

    paused: int = 0
    """Keys with a pause of their own."""
    keys: int = 0
    """Keys with held events."""
    held: int = 0
    bytes: int = 0
    oldest: int | None = None
    """When the oldest held event was held."""
    gate_wide: bool = False
    """Whether a gate-wide pause is in force."""

    def shown(self) -> dict[str, int | bool | None]:
        """The totals, as the server shows them."""
        return {
            "paused": self.paused,
            "waiting_keys": self.keys,
            "held": self.held,
            "bytes": self.bytes,
            "oldest": self.oldest,
            "gate_wide": self.gate_wide,
        }

    def __add__(self, other: GateTotals) -> GateTotals:
        times = [time for time in (self.oldest, other.oldest) if time is not None]
        return GateTotals(
            self.paused + other.paused,
            self.keys + other.keys,
            self.held + other.held,
            self.bytes + other.bytes,
            min(times, default=None),
            self.gate_wide or other.gate_wide,
        )


class InForce(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    """A row of the store `<gate>-status`: what the gate has applied."""

    state: GateState
    epoch: int
    at: int
    actor: str = ""
    reason: str = ""
    expires_at: int | None = None
    cause: StatusCause = "status"
    earlier: tuple[int, ...] = ()
    """Epochs of the statuses of this key that were in force before, the newest last."""
    totals: GateTotals | None = None
    """Only in the row with the key TOTALS."""

    def shown(self) -> dict[str, Any]:
        """Return the fields that others may see, by name."""
        hidden = ("earlier", "totals")
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in hidden}


class Held(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    """A row of the store `<gate>-held`: one event, with its origin."""

    value: bytes | None
    timestamp: int
    origin: str
    time: int
    """The stream time when it was held."""
    headers: tuple[tuple[str, bytes | None], ...] = ()
    at: int = 0
    """When it was held; 0 in rows of earlier versions."""

    @property
    def size(self) -> int:
        own = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.value or b"") + own


class Buffered(msgspec.Struct, frozen=True, array_like=True):
    """A row of the store `<gate>-index`: the number of held events of a key."""

    count: int
    bytes: int
    first: int
    """The sequence number of the oldest event."""
    next: int
    since: int
    """When the oldest one was held."""


class Audit(msgspec.Struct, frozen=True):
    """A record of the audit topic: a status that the gate applied, under its key."""

    gate: str
    state: GateState
    epoch: int
    at: int
    cause: StatusCause
    actor: str
    reason: str
    expires_at: int | None
    gate_wide: bool = msgspec.field(name="everyone")
    held: int
    """How many events of the key were held then."""
    version: int = VERSION


T = TypeVar("T", RequestedStatus, Trigger)

_decoders: dict[type, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (RequestedStatus, Trigger)
}


def decode(kind: type[T], data: bytes) -> T:
    """Decode a requested status or a trigger; raises SerdeError."""
    if len(data) > LONGEST_RECORD:
        raise _bad(f"{len(data)} bytes")
    try:
        found: T = _decoders[kind].decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(str(error)) from error
    if found.version != VERSION:
        raise _bad(f"version {found.version}")
    if len(found.actor) > LONGEST_TEXT or len(found.reason) > LONGEST_TEXT:
        raise _bad("its actor or reason is too long")
    return found


def _bad(why: str) -> SerdeError:
    return SerdeError(
        "bad-command", f"a record that controls a gate cannot be used: {why}", "docs/gates.md has the format"
    )


class GateNumbers(msgspec.Struct, frozen=True):
    """The numbers of a gate in a slot."""

    paused: int = 0
    """Keys with a pause of their own."""
    gate_wide: bool = msgspec.field(default=False, name="everyone")
    held: int = 0
    bytes: int = 0
    oldest: int | None = None
    """When the oldest held event came."""
    drained: int = 0
    """Since the slot's job began, like those below."""
    stale: int = 0
    refused: int = 0
    beyond: int = 0
    """Events that arrived when `max_held` was reached."""
