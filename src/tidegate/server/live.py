"""Records as server-sent events, as they come.

    id: orders:0=12,1=7          the position after these records, for Last-Event-ID
    event: records
    data: [{"topic": ...}, ...]

A browser sends back only the last id, and any server must be able to continue from it. So an id holds the
positions of all partitions, and is long if there are many. An event therefore holds enough records to make
its id a small part of it; if records arrive one by one, the rate of short events is limited by the size of
their ids. A client gets an event whole or not at all: after its id no record is missing and none repeated.

The server waits for a slow client: what it has not read yet stays in the log. If retention has deleted the
next records, an event `failure` reports it and the stream ends. With a limit of records per second, an event
`skipped` has how many were left out, by topic, at most once a second.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from tidegate.errors import TidegateError
from tidegate.log.merged import LocatedRow
from tidegate.log.protocol import Log
from tidegate.server.errors import RequestError
from tidegate.server.position import to_text
from tidegate.server.record_feed import RecordFeed, Selection
from tidegate.server.streams import Streams
from tidegate.text.render import printable_json
from tidegate.types import Offset, TopicPartition

MEDIA_TYPE = "text/event-stream"
POLL_SECONDS = 0.25
QUIET_SECONDS = 15.0
RETRY_MS = 1000
NO_RETRY_MS = 600_000
"""A browser always reconnects: after a permanent error this makes it wait."""
ALLOWED_SECONDS = 5.0
RECORDS_PER_ID = 8
"""An event is full when its records are this many times as large as its id."""
ID_BYTES_PER_SECOND = 32 << 10
"""The limit of bytes of ids per second in events that are not full."""
SHORTEST_REST_SECONDS, LONGEST_REST_SECONDS = 0.01, 1.0
LIMITED_SECONDS = 0.1
"""The pause between two polls of a stream with a limit: fewer and larger polls."""
SKIPPED_SECONDS = 1.0
T = TypeVar("T")


class Live:
    """One stream: counted against the limit, with a reader and its position."""

    def __init__(
        self,
        log: Log,
        streams: Streams,
        positions: Mapping[TopicPartition, Offset],
        as_json: Callable[[LocatedRow], Any],
        allowed: Callable[[], bool],
        selection: Selection | None = None,
    ) -> None:
        self._streams = streams
        self._at: dict[TopicPartition, int] = dict(positions)
        self._as_json = as_json
        self._allowed = allowed
        self._resources = ExitStack()
        chosen = selection or Selection()
        self._feed = RecordFeed(log, positions, {one.topic: chosen for one in positions})
        self._skipped: Counter[str] = Counter()
        self._reported_at = time.monotonic()
        """When the stream last reported what it skipped."""
        self._id_bytes = len(to_text(self._at))
        self._rest_seconds = 0.0
        """Seconds until the next event, after one that was not full."""

    async def open(self, client: str) -> None:
        """Count the stream and open its reader. Errors are raised here, before the response starts."""
        with ExitStack() as stack:
            stack.enter_context(self._streams.reserve(client))
            await self._in_thread(self._feed.open)
            self._resources = stack.pop_all()

    def close(self) -> None:
        """Release the stream; the reader is closed as soon as it is not in use."""
        self._resources.close()
        with suppress(RuntimeError):  # the server stops, and its readers are closed with the log
            self._streams.readers.submit(self._feed.close)

    async def events(self) -> AsyncIterator[bytes]:
        """Run until the client disconnects or the server stops."""
        try:
            yield f"retry: {RETRY_MS}\n\n".encode()
            quiet_since = checked_at = time.monotonic()
            while not self._streams.ending.is_set():
                if time.monotonic() - checked_at > ALLOWED_SECONDS:
                    if not await self._in_thread(self._allowed):
                        raise RequestError("no-token", "the token was removed", "use another one")
                    checked_at = time.monotonic()
                chunk = await self._in_thread(self._next)
                if not chunk and time.monotonic() - quiet_since >= QUIET_SECONDS:
                    chunk = b": still here\n\n"
                if chunk:
                    yield chunk
                    quiet_since = time.monotonic()
                await self._rest()
        except TidegateError as error:
            data = msgspec.json.encode({"error": error.as_dict()})
            retry = RETRY_MS if error.retryable else NO_RETRY_MS
            yield b"retry: %d\nevent: failure\ndata: %b\n\n" % (retry, data)

    async def _rest(self) -> None:
        """Wait for the next event; records that arrive meanwhile go into one event."""
        seconds, self._rest_seconds = self._rest_seconds, 0.0
        if seconds > SHORTEST_REST_SECONDS:
            await asyncio.sleep(min(seconds, LONGEST_REST_SECONDS))

    def _next(self) -> bytes:
        """Encode the records read as events."""
        polled = self._feed.poll(POLL_SECONDS)
        events: list[bytes] = []
        records: list[str] = []
        size = 0
        for located in polled.rows:
            partition, row = located
            self._at[partition] = row.offset + 1
            records.append(printable_json(msgspec.json.encode(self._as_json(located)).decode()))
            size += len(records[-1])
            if size >= RECORDS_PER_ID * self._id_bytes:
                events.append(self._event(records))
                records, size = [], 0
        if records:
            events.append(self._event(records))
            self._rest_seconds = self._id_bytes / ID_BYTES_PER_SECOND
        self._at |= polled.next
        if self._feed.is_limited:
            self._rest_seconds = max(self._rest_seconds, LIMITED_SECONDS)
            self._skipped += polled.skipped
            events += self._report_skipped()
        return b"".join(events)

    def _report_skipped(self) -> list[bytes]:
        now = time.monotonic()
        if not self._skipped or now - self._reported_at < SKIPPED_SECONDS:
            return []
        skipped, self._skipped, self._reported_at = self._skipped, Counter(), now
        data = msgspec.json.encode(dict(skipped)).decode()
        return [f"id: {to_text(self._at)}\nevent: skipped\ndata: {data}\n\n".encode()]

    def _event(self, records: list[str]) -> bytes:
        position = to_text(self._at)
        self._id_bytes = len(position)
        return f"id: {position}\nevent: records\ndata: [{','.join(records)}]\n\n".encode()

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._streams.readers, call)


class LiveResponse(StreamingResponse):
    """The streaming response, which closes its stream however it ends."""

    def __init__(self, stream: Live) -> None:
        super().__init__(stream.events(), media_type=MEDIA_TYPE)
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._stream.close()
