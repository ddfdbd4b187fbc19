"""Errors of slots as data: a slot publishes the error that ended it to the status topic, and the driver
raises it again.

Only the classes of `errors.py` are recreated, by name, and only from text and numbers: nothing from a topic
is unpickled or evaluated.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidegate import errors
from tidegate.errors import TidegateError, first_line
from tidegate.runtime.topics.status import Failure

KINDS: dict[str, type[TidegateError]] = {
    kind.__name__: kind
    for kind in (
        errors.ConfigError,
        errors.LogError,
        errors.RegistryError,
        errors.SerdeError,
        errors.StateError,
        errors.TopologyError,
        errors.UpgradeError,
        errors.UserCodeError,
    )
}
"""The error classes that a slot can end with, by name. FencedError is missing: a fenced slot ends in
order."""


def failure_of(error: Exception, epoch: int, slot: int, attempt: int) -> Failure:
    """Return an error of a slot's job as data. An error that is not tidegate's gets the code
    `slot-failed`."""
    if not isinstance(error, TidegateError):
        text = f"{type(error).__name__}: {error}"
        return Failure(epoch, slot, attempt, "slot-failed", text, "see the log of the job")
    kind = next((one.__name__ for one in type(error).__mro__ if one.__name__ in KINDS), "")
    return Failure(
        epoch,
        slot,
        attempt,
        error.code,
        error.message,
        error.hint,
        kind=kind,
        retryable=error.retryable,
        position=getattr(error, "position", None),
        generation=getattr(error, "generation", None),
        topic=getattr(error, "topic", ""),
    )


def refusal_of(error: Exception, epoch: int, slot: int, attempt: int) -> Failure:
    """Return an error that was raised before the job began as data. Only errors of tidegate that a retry
    cannot change count as a refusal; an error of the log may be over soon."""
    failure = failure_of(error, epoch, slot, attempt)
    lasting = isinstance(error, TidegateError) and not isinstance(error, errors.LogError)
    return msgspec.structs.replace(failure, refused=lasting and not failure.retryable)


def failure_seen_by_driver(error: Exception, epoch: int, slot: int, attempt: int) -> Failure:
    """Return how a job ended as its driver saw it: it was killed, or never began, and did not report why."""
    if isinstance(error, TidegateError):
        return failure_of(error, epoch, slot, attempt)
    text = f"slot {slot} ended: {first_line(error)}"
    return Failure(epoch, slot, attempt, "slot-lost", text, "see the cluster's log of the job")


def error_of(failure: Failure, count: int) -> TidegateError:
    """Return the error of the first of `count` failures: of the same class, with its code, position and
    generation. TidegateError itself if the class is unknown."""
    kind = KINDS.get(failure.kind, TidegateError)
    message = f"{failure.message} ({count} {'failure' if count == 1 else 'failures'} of slots)"
    fields: dict[str, Any] = {}
    if kind in (errors.SerdeError, errors.UserCodeError):
        fields["position"] = failure.position
    if kind is errors.UserCodeError:
        fields["generation"] = failure.generation
    error = kind(failure.code, message, failure.hint, **fields)
    error.retryable = failure.retryable
    if isinstance(error, errors.LogError):
        error.topic = failure.topic
    return error
