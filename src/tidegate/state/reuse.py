"""Whether what lies on disk may be continued, or must be thrown away: pure decisions of restore step 2."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A store as found: the fold of its changelog `topic` below `offset`, all there was at `current_at`."""

    offset: int
    topic: str
    current_at: int
    as_now: bool = True
    """Whether its rows are laid out as this version lays them out."""


@dataclass(frozen=True, slots=True)
class InLog:
    """The store's changelog partition: its uid, its first offset, and the offset that the position names."""

    topic: str
    start: int
    target: int
    delete_retention_ms: int


def reason_to_discard(found: OnDisk, changelog: InLog, now: int) -> str | None:  # noqa: PLR0911 - a list
    """Why the rows cannot be continued from the changelog, or None if they can.

    The last reason: a store that slept too long may hold rows whose tombstones are compacted away by now; a
    tail restore would bring deleted keys back. Half of the retention leaves room for the restore itself. A
    store that is current missed nothing, however old it is.
    """
    if not found.as_now:
        return "its rows are laid out in the way of an older version"
    if found.topic != changelog.topic:
        return "its changelog was created anew"
    if found.offset > changelog.target:
        return f"it is ahead of the log ({found.offset}, committed is {changelog.target})"
    if found.offset == changelog.target:
        return None
    if found.offset < changelog.start:
        return f"its changelog starts at {changelog.start} now, behind it ({found.offset})"
    if now - found.current_at > changelog.delete_retention_ms // 2:
        return "it slept longer than tombstones are sure to be kept"
    return None
