"""What people decided on the upgrades of an app: the audit in its control topic.

    decision/<generation>/<number>   a consent to the upgrade to a generation, or that it was cancelled

Decisions stay when the upgrade has ended, also those on a candidate that was given up. A cancellation is
written in the transaction that takes the app over from the process that runs the upgrade, so that process
always finds who cancelled it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tidegate.errors import ConfigError
from tidegate.runtime.topics.control import Control, bad_control
from tidegate.runtime.topics.upgrades import Question

PREFIX = "decision/"
LONGEST_TEXT = 4096
"""The most characters of an actor or a reason, as for commands of gates."""


class DecidedBy(msgspec.Struct, frozen=True):
    """Who decided something, and why."""

    actor: str = ""
    reason: str = ""
    via: Literal["cli", "http", "settings", "code"] = "code"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One decision on an upgrade."""

    generation: int
    """The generation that the upgrade leads to."""
    kind: Literal["consent", "cancel"]
    at: int
    """When, in ms."""
    by: DecidedBy
    yes: bool = False
    """Whether everything that removes no rows was allowed."""
    removals: list[str] = []
    """Table topics whose rows may be removed."""
    questions: list[Question] = []
    """The questions that were open then, and that this answers."""


_decision = msgspec.json.Decoder(Decision)


def check_texts(by: DecidedBy) -> DecidedBy:
    """Raise ConfigError `too-long` for an actor or a reason that is too long."""
    if len(by.actor) > LONGEST_TEXT or len(by.reason) > LONGEST_TEXT:
        raise ConfigError(
            "too-long", "the actor or the reason is too long", f"use at most {LONGEST_TEXT} characters"
        )
    return by


def decisions_of(control: Control) -> list[Decision]:
    """Return the decisions on all upgrades of an app, oldest first."""
    found = [_decoded(key, raw) for key, raw in control.entries.items() if key.startswith(PREFIX)]
    return sorted(found, key=lambda one: (one.at, one.generation))


def cancelled_by(control: Control, generation: int) -> Decision | None:
    """Return the decision that cancelled the upgrade to a generation; None if it was not cancelled."""
    found = (one for one in decisions_of(control) if (one.generation, one.kind) == (generation, "cancel"))
    return next(found, None)


def decision_entry(control: Control, decision: Decision) -> dict[str, msgspec.Struct | bytes | None]:
    """Return a decision as an entry of the control topic, which must have been read by the writer that writes
    it; nothing if the same was decided before: a start that is repeated."""
    for one in decisions_of(control):
        if msgspec.structs.replace(one, at=decision.at) == decision:
            return {}
    number = decision.at
    while (key := _key(decision, number)) in control.entries:
        number += 1
    return {key: decision}


def _key(decision: Decision, number: int) -> str:
    """Two writers may write at the same time: one for consent over HTTP, and the driver's."""
    return f"{PREFIX}{decision.generation}/{decision.kind}-{decision.by.via}-{number}"


def _decoded(key: str, raw: bytes) -> Decision:
    try:
        return _decision.decode(raw)
    except msgspec.DecodeError as error:
        raise bad_control(f"an invalid {key}: {error}") from error
