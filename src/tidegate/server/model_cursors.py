"""Who follows what: streams, their cursors, the ids on which these stand, and the changelogs of the ids.

Stream 1──* Cursor *──1 Subject *──1 Watch 1──1 LiveReplica
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from tidegate.errors import TidegateError
from tidegate.server.live_replica import LiveReplica
from tidegate.server.model_frames import Style


class Subject:
    """An id that at least one stream follows."""

    __slots__ = ("cursors", "id", "is_stale", "key", "partition", "watch")

    def __init__(self, watch: Watch, id: str, partition: int) -> None:
        self.watch = watch
        self.id = id
        self.key = id.encode()
        self.partition = partition
        self.is_stale = True
        """Whether the row may be newer than the version that was read."""
        self.cursors: set[Cursor] = set()


class Cursor:
    """Where a stream stands with one id."""

    __slots__ = ("is_catching_up", "is_first", "needs", "stream", "subject", "token")

    def __init__(self, stream: Stream, subject: Subject, token: str | None) -> None:
        self.stream = stream
        self.subject = subject
        self.token = token
        self.is_first = True
        """Whether its first frame is still to come: that one is sent even if nothing changed."""
        self.needs: int | None = None
        """The end of the partition, asked for because the token is of a version beyond the row."""
        self.is_catching_up = False


class Stream:
    """One connection. Its `changed` cursors are at most one per id."""

    def __init__(self, style: Style, allowed: Callable[[], bool], until: int | None = None) -> None:
        self.style = style
        self.allowed = allowed
        """Whether its caller may still read."""
        self.until = until
        """When its caller may not read any longer, in milliseconds since 1970."""
        self.cursors: list[Cursor] = []
        self.changed: dict[Cursor, None] = {}
        self.wake = asyncio.Event()
        self.is_ended = False
        self.is_gone = False
        """Whether the client has disconnected."""
        self.failure: TidegateError | None = None
        self.heartbeat_due = False
        self.wrote_at = time.monotonic()
        self.writing_since: float | None = None
        """When a write that has not been taken by the transport began."""
        self.abort: Callable[[], None] = self.end

    def mark(self, cursor: Cursor) -> None:
        self.changed[cursor] = None
        self.wake.set()

    def take_changed(self) -> list[Cursor]:
        taken, self.changed = list(self.changed), {}
        return taken

    def end(self, failure: TidegateError | None = None) -> None:
        self.failure = self.failure or failure
        self.is_ended = True
        self.wake.set()


class Watch:
    """The followed ids of one changelog. The thread of its replica looks into `keys` and calls `changed`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, topic: str, model: str) -> None:
        self._loop = loop
        self.topic = topic
        self.model = model
        self.keys: dict[bytes, Subject] = {}
        self.replica: LiveReplica | None = None

    def changed(self, keys: list[bytes] | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: the server stops
            self._loop.call_soon_threadsafe(self.mark, keys)

    def mark(self, keys: list[bytes] | None) -> None:
        """Mark the cursors of changed ids; None: of all."""
        for key in list(self.keys) if keys is None else keys:
            subject = self.keys.get(key)
            if subject is not None:
                subject.is_stale = True
                for cursor in subject.cursors:
                    cursor.stream.mark(cursor)
