"""What a run is for, and what follows from it.

| mode    | takes records | table topics | event topics | internal | dead letters | a record that fails |
|---------|---------------|--------------|--------------|----------|--------------|---------------------|
| live    | yes           | the topic    | the topic    | written  | written      | as its policy says  |
| replay  | yes           | staging      | nowhere      | written  | off          | is skipped          |
| publish | no            | nowhere      | nowhere      | nowhere  | off          | -                   |

A replay recalculates: rows are compared before anybody sees them, and events that were sent once are not sent
again. Its clock is stream time. Publication compares and writes; the tasks only keep their stores readable.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

from tidegate.topology.node import INTERNAL, NodeKind

Mode = Literal["live", "replay", "publish"]


class Destination(Enum):
    """Where the records of a node go."""

    TOPIC = "topic"
    STAGING = "staging"
    NOWHERE = "nowhere"


def destination_of(mode: Mode, kind: NodeKind, *, rows: bool) -> Destination:
    """Where a node of this kind writes; `rows` says whether its topic holds rows. The topic counts, not the
    step: a stream that is written to a table topic makes rows too."""
    if mode == "live":
        return Destination.TOPIC
    if mode == "publish":
        return Destination.NOWHERE
    if kind in INTERNAL:
        return Destination.TOPIC
    return Destination.STAGING if rows else Destination.NOWHERE


def takes_records(mode: Mode) -> bool:
    """Whether tasks process records, fire timers and tell time."""
    return mode != "publish"


def writes_dead_letters(mode: Mode) -> bool:
    return mode == "live"


def skips_failures(mode: Mode) -> bool:
    """Whether a record that fails is skipped and counted whatever its policy says: it met its policy when it
    was live."""
    return mode == "replay"


def on_stream_time(mode: Mode) -> bool:
    """Whether the wall clock of user code is stream time."""
    return mode == "replay"
