"""What happens to a record that fails, and what is kept of it."""

from __future__ import annotations

import copy
from typing import Any

from tidegate.errors import LogError, RegistryError, StateError, TidegateError, UserCodeError
from tidegate.log.names import HEADER_PREFIX
from tidegate.log.records import Headers, RawRecord
from tidegate.runtime.output.origin import origin_of
from tidegate.text.user_place import user_place
from tidegate.types import TopicPartition

RecordPosition = tuple[TopicPartition, int]
"""A source partition and an offset in it."""
CODE, MESSAGE, POSITION, INTERNAL_POSITION, PLACE = (
    HEADER_PREFIX + "error." + name for name in ("code", "message", "position", "internal-position", "place")
)
_BY_THE_RECORD = {
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
"""What a store or a topic refuses because of the record in work."""


def by_the_record(error: Exception) -> bool:
    """Whether another record might pass. A broken store, a full disk, a fence or a registry that does not
    answer is no record's fault, and a policy would lose one record after the other."""
    if isinstance(error, StateError | LogError):
        return error.code in _BY_THE_RECORD
    return not isinstance(error, MemoryError | RegistryError)


def policy_of(error: BaseException, source: str) -> str:
    """The policy of the innermost step that has one, else that of the source."""
    policy: Any = getattr(error, "tidegate_policy", source)
    return str(policy)


def translated_errors(
    error: Exception, raw: RawRecord, generation: int, *, internal: bool = False
) -> TidegateError:
    """The failure with the record's position; what user code raised as a UserCodeError. Of a record of an
    internal topic it is the position in the user's topic, where its origin is known."""
    read = (raw.partition.topic, raw.partition.partition, raw.offset)
    position = (_of_user(raw) or read) if internal else read
    topic, partition, offset = position
    behind = "" if position == read else f" ({raw.partition} offset {raw.offset})"
    where = f"{topic}/{partition} offset {offset}{behind}: "
    if not isinstance(error, TidegateError):
        return in_user_code(error, where, generation, position)
    told = copy.copy(error)
    told.message = where + error.message
    told.args = (told.message,)
    told.position = position  # type: ignore[attr-defined]
    told.__cause__ = error
    return told


def in_user_code(
    error: Exception, where: str, generation: int, position: tuple[str, int, int] | None = None
) -> UserCodeError:
    """What a user's function raised, with its line."""
    place = user_place(error)
    told = UserCodeError(
        "user-code",
        f"{where}{type(error).__name__}: {error}" + (f" at {place}" if place else ""),
        'mend the function, or set on_error="skip" or "dead-letter" on the source',
        position=position,
        generation=generation,
    )
    told.__cause__ = error
    return told


def dead_letter_headers(raw: RawRecord, error: TidegateError) -> Headers:
    """The record's own headers, then where it stood and what went wrong."""
    cause = error.__cause__ or error
    read = (raw.partition.topic, raw.partition.partition, raw.offset)
    position: tuple[str, int, int] = getattr(error, "position", None) or read
    said = [
        (CODE, error.code),
        (MESSAGE, error.message[:1000]),
        (POSITION, _joined(position)),
        *([(INTERNAL_POSITION, _joined(read))] if position != read else []),
        (PLACE, user_place(cause)),
    ]
    return [*raw.headers, *((name, text.encode("utf-8", "replace")) for name, text in said)]


def _of_user(raw: RawRecord) -> tuple[str, int, int] | None:
    """Where the record of an internal topic came from; None of one that a timer made, or another program."""
    origin = origin_of(raw.headers)
    parts = [] if origin is None else origin.position.rsplit("/", 2)
    return (parts[0], int(parts[1]), int(parts[2])) if len(parts) == 3 else None


def _joined(position: tuple[str, int, int]) -> str:
    return "/".join(map(str, position))
