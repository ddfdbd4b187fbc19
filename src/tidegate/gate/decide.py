"""What a gate does, as one pure function: what is known of a key, and what comes, to what happens.

| comes                  | known                                        | happens                    |
|------------------------|----------------------------------------------|----------------------------|
| an event               | the key is held, or something waits for it   | it waits, too              |
|                        | else                                         | it passes                  |
| a status at an epoch   | an epoch at least as new                     | ignored, and counted       |
|                        | else                                         | in force                   |
| a trigger for an epoch | the status partition was not read that far   | waits; beyond its end: bad |
|                        | that very epoch, paused                      | in force: ACTIVE           |
|                        | that very epoch, active; or an earlier one   | ignored, and counted       |
|                        | it was never one of this key                 | bad                        |
| the time               | a pause whose time is over                   | in force: ACTIVE           |

Of each key the last 64 epochs are remembered; what is older than all of these counts as an earlier one.

A key is held while its own status is PAUSED, or while the gate is paused, unless its own ACTIVE is newer than
that. Only a status exempts a key from a gate-wide pause: a trigger and an expiry end the key's own pause and
no other. A gate-wide resume ends the gate-wide pause only: a key that was paused on its own stays paused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidegate.gate.formats import InForce, RequestedStatus, Trigger

REMEMBERED = 64
"""Epochs of a key, before the one in force."""


class Outcome(Enum):
    """What happens where nothing comes into force."""

    PASSES = "passes"
    WAITS = "waits"
    STALE = "stale"
    NOT_YET = "not yet"
    BAD = "bad"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Known:
    """Of one key."""

    own: InForce | None = None
    gate_wide: InForce | None = None
    """The gate-wide status; None when the decision is about that itself."""
    buffered: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the key."""


@dataclass(frozen=True, slots=True)
class StatusRequested:
    """A record of the status topic."""

    requested: RequestedStatus
    epoch: int


@dataclass(frozen=True, slots=True)
class Triggered:
    """A record of the trigger topic; the status partition was read up to `read`, and ends at `end`."""

    trigger: Trigger
    read: int
    end: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


def decide(known: Known, comes: Event | StatusRequested | Triggered | Tick, now: int) -> Outcome | InForce:
    """What happens."""
    own = known.own
    match comes:
        case Event():
            return Outcome.WAITS if known.buffered or is_held(known, now) else Outcome.PASSES
        case StatusRequested(requested, epoch):
            if own is not None and own.epoch >= epoch:
                return Outcome.STALE
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
            return _triggered(own, comes, now)
        case Tick():
            if own is None or not is_over(own, now):
                return Outcome.NOTHING
            return InForce("ACTIVE", own.epoch, now, own.actor, own.reason, None, "expiry", own.earlier)


def _triggered(own: InForce | None, comes: Triggered, now: int) -> Outcome | InForce:
    trigger = comes.trigger
    if trigger.epoch >= comes.read:
        return Outcome.NOT_YET if trigger.epoch < comes.end else Outcome.BAD
    if own is None or not _was_applied(own, trigger.epoch):
        return Outcome.BAD
    if own.epoch > trigger.epoch or own.state == "ACTIVE":
        return Outcome.STALE
    return InForce("ACTIVE", own.epoch, now, trigger.actor, trigger.reason, None, "trigger", own.earlier)


def _was_applied(own: InForce, epoch: int) -> bool:
    """Whether it is, or was, the epoch of a status of this key, as far as is remembered."""
    if epoch == own.epoch or epoch in own.earlier:
        return True
    return len(own.earlier) == REMEMBERED and epoch < own.earlier[0]


def is_held(known: Known, now: int) -> bool:
    """Whether events of the key wait."""
    own, gate_wide = known.own, known.gate_wide
    if own is not None and own.state == "PAUSED" and not is_over(own, now):
        return True
    if gate_wide is None or gate_wide.state == "ACTIVE" or is_over(gate_wide, now):
        return False
    if own is None or own.state == "PAUSED" or own.cause != "status":
        return True
    return own.epoch < gate_wide.epoch


def is_over(status: InForce, now: int) -> bool:
    """Whether a pause has ended by itself."""
    return status.state == "PAUSED" and status.expires_at is not None and status.expires_at <= now
