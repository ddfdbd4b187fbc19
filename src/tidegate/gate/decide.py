"""What a gate does, as one pure function: what is known of a key, and what comes, to what happens.

| comes                  | known                                        | happens                    |
|------------------------|----------------------------------------------|----------------------------|
| an event               | the key is held, or something waits for it   | it waits, too              |
|                        | else                                         | it passes                  |
| a wish at an epoch     | an epoch at least as new                     | ignored, and counted       |
|                        | else                                         | in force                   |
| a trigger for an epoch | the status partition was not read that far   | waits; beyond its end: bad |
|                        | a newer epoch, or the key is active          | ignored, and counted       |
|                        | that very epoch, paused                      | in force: ACTIVE           |
|                        | an older epoch: it was never one of this key | bad                        |
| the time               | a pause whose time is over                   | in force: ACTIVE           |

A key is held while its own wish is PAUSED, or while everyone is paused, unless its own ACTIVE is newer than
that: a pause that ended by itself is no such wish. Whoever resumes everyone ends that pause only: a key that
was paused on its own stays so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidegate.gate.formats import InForce, Trigger, Wish


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
    everyone: InForce | None = None
    """The wish for the whole gate; None when asked for everyone itself."""
    buffered: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the key."""


@dataclass(frozen=True, slots=True)
class Wished:
    """A record of the status topic."""

    wish: Wish
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


def decide(known: Known, comes: Event | Wished | Triggered | Tick, now: int) -> Outcome | InForce:  # noqa: PLR0911
    """What happens."""
    own = known.own
    match comes:
        case Event():
            return Outcome.WAITS if known.buffered or is_held(known, now) else Outcome.PASSES
        case Wished(wish, epoch):
            if own is not None and own.epoch >= epoch:
                return Outcome.STALE
            return InForce(wish.state, epoch, now, wish.actor, wish.reason, wish.expires_at)
        case Triggered(trigger, read, end) if trigger.epoch >= read:
            return Outcome.NOT_YET if trigger.epoch < end else Outcome.BAD
        case Triggered(trigger):
            if own is None or own.epoch < trigger.epoch:
                return Outcome.BAD
            if own.epoch > trigger.epoch or own.state == "ACTIVE":
                return Outcome.STALE
            return InForce("ACTIVE", own.epoch, now, trigger.actor, trigger.reason, cause="trigger")
        case Tick():
            if own is None or not is_over(own, now):
                return Outcome.NOTHING
            return InForce("ACTIVE", own.epoch, now, own.actor, own.reason, cause="expiry")


def is_held(known: Known, now: int) -> bool:
    """Whether events of the key wait."""
    own, everyone = known.own, known.everyone
    if own is not None and own.state == "PAUSED" and not is_over(own, now):
        return True
    if everyone is None or everyone.state == "ACTIVE" or is_over(everyone, now):
        return False
    if own is None or own.state == "PAUSED" or own.cause == "expiry":
        return True
    return own.epoch < everyone.epoch


def is_over(status: InForce, now: int) -> bool:
    """Whether a pause has ended by itself."""
    return status.state == "PAUSED" and status.expires_at is not None and status.expires_at <= now
