"""The decisions of a gate, as one pure function of the known state of a key and an input.

| input                  | known state                                  | result                     |
|------------------------|----------------------------------------------|----------------------------|
| an event               | the key is held, or has held events          | held                       |
|                        | else                                         | passes                     |
| a status at an epoch   | an epoch at least as new                     | ignored, and counted       |
|                        | else                                         | in force                   |
| a trigger for an epoch | the status partition was not read that far   | waits; beyond its end: bad |
|                        | that very epoch, paused                      | in force: ACTIVE           |
|                        | that very epoch, active; or an earlier one   | ignored, and counted       |
|                        | it was never one of this key                 | bad                        |
| the time               | a pause that has expired                     | in force: ACTIVE           |

The last 64 epochs of each key are remembered; what is older than all of these counts as an earlier one.

A key is held while its own status is PAUSED, or while the gate is paused, unless its own ACTIVE is newer than
that. Only a status exempts a key from a gate-wide pause: a trigger and an expiry end the key's own pause
only. A gate-wide resume ends the gate-wide pause only: a key that was paused individually stays paused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidegate.gate.formats import InForce, RequestedStatus, Trigger

REMEMBERED = 64
"""How many epochs of a key are remembered, besides the one in force."""


class Decision(Enum):
    """The result of a decision that changes no status."""

    PASSES = "passes"
    HELD = "held"
    STALE = "stale"
    NOT_YET = "not yet"
    BAD = "bad"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Known:
    """The known state of one key."""

    own: InForce | None = None
    gate_wide: InForce | None = None
    """The gate-wide status; None if the decision is about the gate-wide status itself."""
    buffered: bool = False


@dataclass(frozen=True, slots=True)
class EventReceived:
    """An event of the key."""


@dataclass(frozen=True, slots=True)
class StatusRequested:
    """A record of the status topic."""

    requested: RequestedStatus
    epoch: int


@dataclass(frozen=True, slots=True)
class Triggered:
    """A record of the trigger topic. The status partition was read up to `read`, and ends at `end`."""

    trigger: Trigger
    read: int
    end: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: a pause may have expired."""


def decide(
    known: Known, incoming: EventReceived | StatusRequested | Triggered | Tick, now: int
) -> Decision | InForce:
    """Return the decision, or the status that comes into force."""
    own = known.own
    match incoming:
        case EventReceived():
            return Decision.HELD if known.buffered or is_held(known, now) else Decision.PASSES
        case StatusRequested(requested, epoch):
            if own is not None and own.epoch >= epoch:
                return Decision.STALE
            earlier = () if own is None else (*own.earlier, own.epoch)[-REMEMBERED:]
            return InForce(
                requested.state,
                epoch,
                now,
                requested.actor,
                requested.reason,
                requested.expires_at,
                "status",
                earlier,
            )
        case Triggered():
            return _triggered(own, incoming, now)
        case Tick():
            if own is None or not is_over(own, now):
                return Decision.NOTHING
            return InForce("ACTIVE", own.epoch, now, own.actor, own.reason, None, "expiry", own.earlier)


def _triggered(own: InForce | None, incoming: Triggered, now: int) -> Decision | InForce:
    trigger = incoming.trigger
    if trigger.epoch >= incoming.read:
        return Decision.NOT_YET if trigger.epoch < incoming.end else Decision.BAD
    if own is None or not _was_applied(own, trigger.epoch):
        return Decision.BAD
    if own.epoch > trigger.epoch or own.state == "ACTIVE":
        return Decision.STALE
    return InForce("ACTIVE", own.epoch, now, trigger.actor, trigger.reason, None, "trigger", own.earlier)


def _was_applied(own: InForce, epoch: int) -> bool:
    """Return whether a status of this key has, or had, this epoch, as far as epochs are remembered."""
    if epoch == own.epoch or epoch in own.earlier:
        return True
    return len(own.earlier) == REMEMBERED and epoch < own.earlier[0]


def is_held(known: Known, now: int) -> bool:
    """Return whether events of the key are held."""
    own, gate_wide = known.own, known.gate_wide
    if own is not None and own.state == "PAUSED" and not is_over(own, now):
        return True
    if gate_wide is None or gate_wide.state == "ACTIVE" or is_over(gate_wide, now):
        return False
    if own is None or own.state == "PAUSED" or own.cause != "status":
        return True
    return own.epoch < gate_wide.epoch


def is_over(status: InForce, now: int) -> bool:
    """Return whether a pause has expired."""
    return status.state == "PAUSED" and status.expires_at is not None and status.expires_at <= now
