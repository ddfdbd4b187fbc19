"""The modes of a run, and what follows from each.

| mode    | takes records | table topics | event topics | internal | dead letters | a record that fails |
|---------|---------------|--------------|--------------|----------|--------------|---------------------|
| live    | yes           | the topic    | the topic    | written  | written      | as its policy says  |
| replay  | yes           | staging      | nowhere      | written  | off          | as its policy says  |
| publish | no            | nowhere      | nowhere      | nowhere  | off          | -                   |

A replay recalculates: its rows are compared before they are published, and events that were sent before are
not sent again. A record that fails under `stop` ends it; under the other policies the record is skipped and
counted. `peek` calls no function. Its clock is stream time. Publication compares and writes; the tasks only
keep their stores readable.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

from tidegate.topology.node import INTERNAL, NodeKind

Mode = Literal["live", "replay", "publish"]


class Destination(Enum):
    """Where the records of a node are written."""

    TOPIC = "topic"
    STAGING = "staging"
    NOWHERE = "nowhere"


def destination_of(mode: Mode, kind: NodeKind, *, rows: bool) -> Destination:
    """Return where a node of this kind writes; `rows` is whether its topic holds rows. The topic decides, not
    the step: a stream that is written to a table topic produces rows too."""
    if mode == "live":
        return Destination.TOPIC
    if mode == "publish":
        return Destination.NOWHERE
    if kind in INTERNAL:
        return Destination.TOPIC
    return Destination.STAGING if rows else Destination.NOWHERE


def takes_records(mode: Mode) -> bool:
    """Return whether tasks process records, fire timers and send stream time."""
    return mode != "publish"


def writes_dead_letters(mode: Mode) -> bool:
    return mode == "live"


def on_stream_time(mode: Mode) -> bool:
    """Return whether user code sees stream time as its wall clock."""
    return mode == "replay"
