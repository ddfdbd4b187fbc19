"""Wait for what becomes of requests to models, without a thread for each call.

1 a call registers what it waits for; 2 it writes its request; 3 one thread per model looks at the rows of all
waiting calls whenever the replica of the model's changelog has changed; 4 it hands outcomes to the event
loop. A call registers before it writes, so a decision cannot be missed. One that repeats a request looks at
the row itself first: the task does not write the row again for it.

A row remembers the last 64 outcomes. If more requests for one id were decided in one commit, some outcomes
would never be seen: so a server has at most 16 of one id in the log at a time, and further calls wait for
their turn.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from tidegate.errors import LogError, TidegateError
from tidegate.log.partitioner import partition_for
from tidegate.models.row import Outcome, decode_row
from tidegate.server.replicas import Replicas
from tidegate.state.replica import ReplicaSnapshot
from tidegate.topology.manifest import ModelEntry
from tidegate.types import TopicPartition

KIND = "key-value"
"""The kind of a model's store."""
MOST = 2_000
"""Calls that wait, or stand in line, at a time."""
MOST_PER_ID = 16
LOOK_SECONDS = 2.0
RETRY_SECONDS = 0.1
PEEK_SECONDS = 1.0


class Decided(NamedTuple):
    """The outcome of a request, and the position of the changelog at which it is known."""

    outcome: Outcome
    position: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """A call that waits for the outcome of a request."""

    home: TopicPartition
    """The partition of the changelog that has the row of the id."""
    key: bytes
    request: str
    loop: asyncio.AbstractEventLoop
    decided: asyncio.Future[Decided | None] = field(repr=False)

    def found_in(self, snapshot: ReplicaSnapshot) -> Decided | None:
        """The outcome, if the row has it."""
        outcome = decode_row(snapshot.get(self.home.partition, self.key)).outcome(self.request)
        if outcome is None:
            return None
        return Decided(outcome, {self.home: snapshot.positions[self.home.partition]})

    def answer(self, decided: Decided | None) -> None:
        """Hand over the outcome; None: the server stops. May be called in any thread."""

        def hand_over() -> None:
            if not self.decided.done():
                self.decided.set_result(decided)

        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.loop.call_soon_threadsafe(hand_over)

    async def outcome(self, seconds: float) -> Decided | None:
        """Wait for the outcome; None if there is none in time."""
        try:
            return await asyncio.wait_for(asyncio.shield(self.decided), max(seconds, 0))
        except TimeoutError:
            return None


class ModelOutcomes:
    """The waiting calls of one server."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._lock = threading.Lock()
        self._waiting: dict[str, set[Waiting]] = {}
        """By changelog; the thread of a changelog runs while it has an entry."""
        self._lines: dict[tuple[str, bytes], tuple[asyncio.Semaphore, int]] = {}
        """The ids that calls are writing to, and how many; used in the event loop only."""
        self._count = 0
        self._ended = threading.Event()
        self._threads: set[threading.Thread] = set()

    @asynccontextmanager
    async def expecting(
        self, entry: ModelEntry, id: str, request: str, deadline: float
    ) -> AsyncIterator[Waiting]:
        """Register a call, once it is its turn. Raises LogError `too-many-wait`."""
        key = id.encode()
        home = TopicPartition(entry.changelog, partition_for(key, entry.partitions))
        loop = asyncio.get_running_loop()
        async with self._turn(home.topic, key, deadline):
            one = Waiting(home, key, request, loop, loop.create_future())
            self._add(one)
            try:
                yield one
            finally:
                with self._lock:
                    self._waiting.get(home.topic, set()).discard(one)

    def peek(self, one: Waiting) -> Decided | None:
        """Look at the row now. None if it has no outcome, or if the replica cannot be read soon."""
        try:
            replica = self._replicas.replica_of(one.home.topic, KIND)
            with replica.snapshot({}, PEEK_SECONDS) as snapshot:
                return one.found_in(snapshot)
        except (TidegateError, msgspec.DecodeError):
            return None

    def end(self) -> None:
        """Let all calls answer now."""
        self._ended.set()

    def close(self) -> None:
        self.end()
        for thread in list(self._threads):
            thread.join()

    @asynccontextmanager
    async def _turn(self, topic: str, key: bytes, deadline: float) -> AsyncIterator[None]:
        with self._in_line((topic, key)) as line:
            try:
                async with asyncio.timeout(max(deadline - time.monotonic(), 0) if line.locked() else None):
                    await line.acquire()
            except TimeoutError:
                raise _too_many() from None
            try:
                yield
            finally:
                line.release()

    @contextmanager
    def _in_line(self, of: tuple[str, bytes]) -> Iterator[asyncio.Semaphore]:
        if self._count >= MOST:
            raise _too_many()
        line, users = self._lines.get(of, (asyncio.Semaphore(MOST_PER_ID), 0))
        self._lines[of] = line, users + 1
        self._count += 1
        try:
            yield line
        finally:
            self._count -= 1
            line, users = self._lines.pop(of)
            if users > 1:
                self._lines[of] = line, users - 1

    def _add(self, one: Waiting) -> None:
        topic = one.home.topic
        with self._lock:
            if topic in self._waiting:
                self._waiting[topic].add(one)
                return
            self._waiting[topic] = {one}
            thread = threading.Thread(
                target=self._work, args=(topic,), name=f"tidegate-outcomes-{topic}", daemon=True
            )
            self._threads.add(thread)
        thread.start()

    def _work(self, topic: str) -> None:
        """Steps 3 and 4, until nobody waits."""
        while not self._is_done(topic):
            try:
                self._replicas.replica_of(topic, KIND).wait_for(
                    lambda snapshot: self._look(topic, snapshot), LOOK_SECONDS
                )
            except (TidegateError, msgspec.DecodeError):
                self._ended.wait(RETRY_SECONDS)

    def _is_done(self, topic: str) -> bool:
        with self._lock:
            if self._waiting[topic] and not self._ended.is_set():
                return False
            for one in self._waiting.pop(topic):
                one.answer(None)
            self._threads.discard(threading.current_thread())
            return True

    def _look(self, topic: str, snapshot: ReplicaSnapshot) -> bool:
        """Answer the calls whose outcome is known. Returns whether none is left."""
        with self._lock:
            waiting = list(self._waiting[topic])
        for one in waiting:
            if (decided := one.found_in(snapshot)) is not None:
                one.answer(decided)
                with self._lock:
                    self._waiting[topic].discard(one)
        return not self._waiting[topic]


def _too_many() -> LogError:
    return LogError("too-many-wait", "too many calls wait already", "try again soon", retryable=True)
