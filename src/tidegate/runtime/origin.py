"""Where a record that we wrote came from: two headers behind the record's own.

    tidegate.owner   app/sink: whose row it is; an upgrade touches only its own
    tidegate.origin  "topic/partition/offset task/sequence time": the record that it came from, the task that
                     made it with the running number of its output, and the stream time there

One header for the three, since they are written for every record and read together.
"""

from __future__ import annotations

from typing import NamedTuple

from tidegate.log.records import Headers
from tidegate.names import HEADER_PREFIX

OWNER, ORIGIN = HEADER_PREFIX + "owner", HEADER_PREFIX + "origin"


class Origin(NamedTuple):
    """The content of an origin header."""

    position: str
    task: str
    sequence: int
    time: int


def origin_header(position: str, task: str, sequence: int, time: int) -> tuple[str, bytes]:
    return ORIGIN, f"{position} {task}/{sequence} {time}".encode()


def origin_of(headers: Headers) -> Origin | None:
    """The origin of a record, or None if it is not one of ours."""
    for name, value in reversed(headers):
        if name == ORIGIN and value is not None:
            position, task, time = value.decode().rsplit(" ", 2)
            name_of_task, sequence = task.rsplit("/", 1)
            return Origin(position, name_of_task, int(sequence), int(time))
    return None
