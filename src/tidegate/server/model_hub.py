"""The model streams of a server: which stream waits for which id, and what each of them gets next.

A stream holds no queue but a cursor per id: the token of the version that it sent last. When the row of an id
changes, the replica's thread hands the id to the event loop, which marks the cursors on it; each stream then
sends one frame from its token to the newest version, whatever came between.

A token of a version that this server has not read yet: 1 ask the log for the end of the partition; 2 wait
until the replica has read up to it; 3 answer from the row as it is then. So a client is never reset because a
server is behind. All of this runs in the event loop, except for `Watch.changed` and calls of the log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import msgspec

from tidegate.errors import StateError, TidegateError
from tidegate.log.partitioner import partition_for
from tidegate.log.protocol import Log
from tidegate.models.answer import Version
from tidegate.models.row import decode_row
from tidegate.server.errors import RequestError
from tidegate.server.model_cache import ByteCache
from tidegate.server.model_cursors import Cursor, Stream, Subject, Watch
from tidegate.server.model_frames import Encoded, Frames
from tidegate.server.replicas import Replicas
from tidegate.topology.manifest import ModelEntry
from tidegate.types import TopicPartition

KIND = "key-value"
"""The kind of a model's store."""
CURSORS_PER_STREAM = 20
"""On average: a stream of many ids may have more."""
VERSION_BYTES = 32 << 20
DECODED = 8
"""A decoded state takes about so many times the bytes of its JSON."""
THREADS = 2
TICK_SECONDS = 1.0
HEARTBEAT_SECONDS = 15.0
STALLED_SECONDS = 60.0
ALLOWED_SECONDS = 5.0
CATCH_UP_SECONDS = 0.02
ASK_AGAIN_SECONDS = 2.0
T = TypeVar("T")
log = logging.getLogger("tidegate.server")


class Hub:
    """The model streams of one server."""

    def __init__(self, log: Log, replicas: Replicas, now: Callable[[], int], most: int) -> None:
        self._log = log
        self._replicas = replicas
        self._now = now
        self._most = most
        self._streams: set[Stream] = set()
        self._cursors = 0
        self._watches: dict[str, Watch] = {}
        self._versions: ByteCache[Subject, tuple[Version, int]] = ByteCache(VERSION_BYTES)
        self.frames = Frames()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tidegate-models")
        self._questions: dict[TopicPartition, asyncio.Task[int]] = {}
        self._asking = asyncio.Semaphore(THREADS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._ticking: asyncio.Task[None] | None = None
        self._is_ended = False

    @property
    def count(self) -> int:
        return len(self._streams)

    def open(self, stream: Stream, ids: int) -> None:
        """Count a stream; raises RequestError `too-many-streams`. Must be followed by `forget`."""
        if len(self._streams) >= self._most or self._cursors + ids > self._most * CURSORS_PER_STREAM:
            raise RequestError(
                "too-many-streams", "too many streams of models are open", "close some", retryable=True
            )
        self._streams.add(stream)
        if self._is_ended:
            stream.end()
        if self._ticking is None or self._ticking.done():
            self._ticking = asyncio.create_task(self._tick())

    async def follow(self, stream: Stream, model: str, entry: ModelEntry, id: str, token: str | None) -> None:
        """Add an id to an open stream."""
        watch = self._watches.get(entry.changelog)
        if watch is None:
            watch = Watch(asyncio.get_running_loop(), entry.changelog, model)
            self._watches[entry.changelog] = watch
        key = id.encode()
        subject = watch.keys.get(key)
        if subject is None:
            subject = watch.keys[key] = Subject(watch, id, partition_for(key, entry.partitions))
        cursor = Cursor(stream, subject, token)
        subject.cursors.add(cursor)
        stream.cursors.append(cursor)
        self._cursors += 1
        stream.mark(cursor)
        if watch.replica is None:
            await self._attach(watch)

    def forget(self, stream: Stream) -> None:
        """Close a stream. May be called again."""
        stream.end()
        self._streams.discard(stream)
        self._cursors -= len(stream.cursors)
        for cursor in stream.cursors:
            subject = cursor.subject
            subject.cursors.discard(cursor)
            if not subject.cursors:
                subject.watch.keys.pop(subject.key, None)
                self._versions.drop(subject)
        stream.cursors = []
        stream.changed = {}

    async def next(self, cursor: Cursor) -> Encoded | None:
        """The next frame for a cursor; None if there is nothing to send until it is marked again."""
        found = self._version(cursor.subject)
        if found is None:
            return None
        version, position = found
        if cursor.token == version.token and not cursor.is_first:
            return None
        at_end = cursor.needs is not None and position >= cursor.needs
        if not at_end and version.is_behind(cursor.token):
            self._begin_catching_up(cursor)
            return None
        watch = cursor.subject.watch
        return await self.frames.of(version, (watch.topic, watch.model), cursor.token, cursor.stream.style)

    def sent(self, cursor: Cursor, token: str) -> None:
        cursor.token, cursor.is_first, cursor.needs = token, False, None

    def _version(self, subject: Subject) -> tuple[Version, int] | None:
        """The newest version of an id and the position at which it was read; None while the replica cannot be
        read. It is read here, in the event loop: that takes microseconds."""
        known = self._versions.get(subject)
        if known is not None and not subject.is_stale:
            return known
        replica = subject.watch.replica
        read = None if replica is None else replica.read(subject.partition, subject.key)
        if read is None:
            return None
        raw, position = read
        try:
            row = decode_row(raw)
        except msgspec.DecodeError as error:
            raise StateError(
                "bad-changelog", f"the row of {subject.id!r} in {subject.watch.topic}: {error}"
            ) from error
        version = Version(subject.id, row)
        if known is not None and known[0].token == version.token:
            version = known[0]
        subject.is_stale = False
        self._versions.put(subject, (version, position), DECODED * len(row.state) + 2000)
        return version, position

    def _begin_catching_up(self, cursor: Cursor) -> None:
        if not cursor.is_catching_up:
            cursor.is_catching_up = True
            task = asyncio.create_task(self._catch_up(cursor))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _catch_up(self, cursor: Cursor) -> None:
        """Steps 1 and 2. The end is asked for again after a while: it is lower if the topic was recreated."""
        subject, stream = cursor.subject, cursor.stream
        partition = TopicPartition(subject.watch.topic, subject.partition)
        while not stream.is_ended:
            ask_again = time.monotonic() + ASK_AGAIN_SECONDS
            with suppress(TidegateError):
                end = await self._end_of(partition)
                cursor.needs = end if cursor.needs is None else min(cursor.needs, end)
            while time.monotonic() < ask_again and not stream.is_ended:
                replica = subject.watch.replica
                position = None if replica is None else replica.position(subject.partition)
                if position is not None and cursor.needs is not None and position >= cursor.needs:
                    cursor.is_catching_up = False
                    subject.is_stale = True
                    stream.mark(cursor)
                    return
                await asyncio.sleep(CATCH_UP_SECONDS)

    async def _end_of(self, partition: TopicPartition) -> int:
        """Ask the log for the end of a partition. Callers share a question only while it is not sent yet."""
        question = self._questions.get(partition)
        if question is None:
            question = self._questions[partition] = asyncio.create_task(self._ask(partition))
        return await asyncio.shield(question)

    async def _ask(self, partition: TopicPartition) -> int:
        async with self._asking:
            del self._questions[partition]
            ends = await self._in_thread(lambda: self._log.ends([partition]))
            return int(ends[partition])

    async def _attach(self, watch: Watch) -> None:
        """Find the replica of a watch, again if it was evicted, and let it report to the watch."""
        try:
            replica = await self._in_thread(lambda: self._replicas.replica_of(watch.topic, KIND))
        except TidegateError:
            return  # the server stops
        if replica is not watch.replica:
            watch.replica = replica
            replica.watch(watch)
            watch.mark(None)

    async def _tick(self) -> None:
        """Once a second: heartbeats, streams whose client reads nothing, callers that may not read any more,
        replicas that were evicted."""
        checked_at = time.monotonic()
        while self._streams and not self._is_ended:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            for stream in list(self._streams):
                self._look_at(stream, now)
            try:
                await self._attach_all()
                if now - checked_at >= ALLOWED_SECONDS:
                    checked_at = now
                    await self._check_callers()
            except Exception:  # the other streams must go on
                log.exception("model streams")

    async def _attach_all(self) -> None:
        for watch in list(self._watches.values()):
            if watch.keys:
                await self._attach(watch)
            else:
                del self._watches[watch.topic]

    def _look_at(self, stream: Stream, now: float) -> None:
        if stream.writing_since is not None:
            if now - stream.writing_since > STALLED_SECONDS:
                stream.abort()
        elif now - stream.wrote_at > HEARTBEAT_SECONDS:
            stream.heartbeat_due = True
            stream.wake.set()
        if stream.until is not None and self._now() >= stream.until:
            stream.end(RequestError("grant-ended", "the grant has ended", "request another one"))

    async def _check_callers(self) -> None:
        streams = list(self._streams)

        def refused() -> list[Stream]:
            return [stream for stream in streams if not stream.allowed()]

        with suppress(TidegateError):  # the tokens cannot be read now
            for stream in await self._in_thread(refused):
                stream.end(RequestError("no-token", "the token was removed", "use another one"))

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def end(self) -> None:
        """End all streams. Is called in the event loop, if there are any."""
        self._is_ended = True
        for stream in list(self._streams):
            stream.end()
            if stream.writing_since is not None:
                stream.abort()  # its client reads nothing: the server would wait for it

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self.frames.close()
