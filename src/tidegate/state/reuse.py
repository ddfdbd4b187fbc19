"""Decide whether the rows on disk can be used or must be discarded: pure functions of restore step 2."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A store on disk: the fold of its changelog `topic` below `offset`, complete as of `current_at`."""

    offset: int
    topic: str
    current_at: int
    same_layout: bool = True
    """Whether its rows have the layout of this version."""


@dataclass(frozen=True, slots=True)
class InLog:
    """The store's changelog partition: its uid, its first offset, and the offset in the position."""

    topic: str
    start: int
    target: int
    delete_retention_ms: int


def reason_to_discard(found: OnDisk, changelog: InLog, now: int) -> str | None:  # noqa: PLR0911 - a list
    """Return why the rows cannot be brought up to date from the changelog, or None if they can.

    The last reason: a store that was idle too long may hold rows whose tombstones have been compacted away; a
    restore of the tail would keep deleted keys. Half of the retention leaves time for the restore itself. A
    store that is at the target missed nothing, however old it is.
    """
    if not found.same_layout:
        return "its rows have the layout of an older version"
    if found.topic != changelog.topic:
        return "its changelog was recreated"
    if found.offset > changelog.target:
        return f"it is ahead of the log ({found.offset}, committed is {changelog.target})"
    if found.offset == changelog.target:
        return None
    if found.offset < changelog.start:
        return f"its changelog now starts at {changelog.start}, after its offset {found.offset}"
    if now - found.current_at > changelog.delete_retention_ms // 2:
        return "it was idle for longer than tombstones are guaranteed to be kept"
    return None
