"""Error policies: which errors a record caused, and what its dead letter holds."""

from __future__ import annotations

import copy
from typing import Any

from tidegate.errors import LogError, RegistryError, StateError, TidegateError, UserCodeError
from tidegate.log.names import HEADER_PREFIX
from tidegate.log.records import Headers, RawRecord
from tidegate.runtime.output.origin import origin_of
from tidegate.text.user_code_location import user_code_location
from tidegate.types import TopicPartition

RecordPosition = tuple[TopicPartition, int]
"""A source partition and an offset in it."""
CODE, MESSAGE, POSITION, INTERNAL_POSITION, CODE_LOCATION = (
    HEADER_PREFIX + "error." + name for name in ("code", "message", "position", "internal-position", "place")
)
_CAUSED_BY_RECORD = {
    "row-too-large",
    "bad-session",
    "bad-timer",
    "bad-timestamp",
    "closed",
    "no-prefix",
    "null-key",
    "record-refused",
    "record-too-large",
    "scan-ended",
    "undeclared-store",
}
"""Errors of a store or a topic that are caused by the current record."""


def caused_by_record(error: Exception) -> bool:
    """Return whether the record caused the error, so that another record might pass. A broken store, a full
    disk, a fence or an unreachable registry is not caused by a record: a policy would lose one record after
    the other."""
    if isinstance(error, StateError | LogError):
        return error.code in _CAUSED_BY_RECORD
    return not isinstance(error, MemoryError | RegistryError)


def policy_of(error: BaseException, source: str) -> str:
    """Return the policy of the innermost step that has one, else that of the source."""
    policy: Any = getattr(error, "tidegate_policy", source)
    return str(policy)


def error_at_record(
    error: Exception, raw: RawRecord, generation: int, *, internal: bool = False
) -> TidegateError:
    """Return the error with the record's position; errors of user code as a UserCodeError. For a record of an
    internal topic this is the position in the user's topic, if its origin is known."""
    read = (raw.partition.topic, raw.partition.partition, raw.offset)
    position = (_position_in_user_topic(raw) or read) if internal else read
    topic, partition, offset = position
    internal_position = "" if position == read else f" ({raw.partition} offset {raw.offset})"
    where = f"{topic}/{partition} offset {offset}{internal_position}: "
    if not isinstance(error, TidegateError):
        return in_user_code(error, where, generation, position)
    located = copy.copy(error)
    located.message = where + error.message
    located.args = (located.message,)
    located.position = position  # type: ignore[attr-defined]
    located.__cause__ = error
    return located


def in_user_code(
    error: Exception, where: str, generation: int, position: tuple[str, int, int] | None = None
) -> UserCodeError:
    """Return the error of a user's function as a UserCodeError with its line."""
    location = user_code_location(error)
    wrapped = UserCodeError(
        "user-code",
        f"{where}{type(error).__name__}: {error}" + (f" at {location}" if location else ""),
        'fix the function, or set on_error="skip" or "dead-letter" on the source',
        position=position,
        generation=generation,
    )
    wrapped.__cause__ = error
    return wrapped


def dead_letter_headers(raw: RawRecord, error: TidegateError) -> Headers:
    """Return the headers of a dead letter: the record's own, then its position and the error."""
    cause = error.__cause__ or error
    read = (raw.partition.topic, raw.partition.partition, raw.offset)
    position: tuple[str, int, int] = getattr(error, "position", None) or read
    fields = [
        (CODE, error.code),
        (MESSAGE, error.message[:1000]),
        (POSITION, _joined(position)),
        *([(INTERNAL_POSITION, _joined(read))] if position != read else []),
        (CODE_LOCATION, user_code_location(cause)),
    ]
    return [*raw.headers, *((name, text.encode("utf-8", "replace")) for name, text in fields)]


def _position_in_user_topic(raw: RawRecord) -> tuple[str, int, int] | None:
    """Return the origin of a record of an internal topic; None if a timer or another program wrote it."""
    origin = origin_of(raw.headers)
    parts = [] if origin is None else origin.position.rsplit("/", 2)
    return (parts[0], int(parts[1]), int(parts[2])) if len(parts) == 3 else None


def _joined(position: tuple[str, int, int]) -> str:
    return "/".join(map(str, position))
