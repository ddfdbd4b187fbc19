"""A replica that a thread keeps up with its topic.

1 look at the topic: one that was deleted and made again is read from its start; 2 read from the position;
3 apply what came, rows and positions together; 4 wake who waits. When the log fails, say so and try again,
ever more slowly; what was read so far stays, unless the topic is another one now. What could be old is not
told: an answer waits until it has what was there when reading began, or began again.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa

from tidegate.errors import ConfigError, LogError, TidegateError
from tidegate.log.protocol import Fetched, Log
from tidegate.log.topic import TopicInfo
from tidegate.server.follower import Follower
from tidegate.state.protocol import RawRow
from tidegate.state.replica import Replica, Snapshot
from tidegate.types import Offset, TopicPartition

POLL_SECONDS = 0.2
ANOTHER = {"no-such-topic", "offset-out-of-range", "topic-recreated", "corrupt-state"}
"""What was read so far is worth nothing any more."""

ToRows = Callable[[pa.RecordBatch], list[RawRow]]
"""From records as they were read to rows, whose keys end with the replica's suffix."""


class LiveReplica(Follower):
    """One topic: its replica, and the thread that feeds it. `waits` counts the places of those who wait for
    any of them: each takes a thread of the server."""

    def __init__(
        self, log: Log, topic: str, to_rows: ToRows, suffix: int, folder: Path, waits: threading.Semaphore
    ) -> None:
        super().__init__(topic, f"tidegate-replica-{topic}")
        self.topic = topic
        self._log = log
        self._to_rows = to_rows
        self._suffix = suffix
        self._folder = folder
        self._waits = waits
        self._replica: Replica | None = None
        self._uid = ""
        self._built = 0
        self._looking = 0
        self._growing = False
        self._at: dict[int, int] = {}
        self._ready: dict[int, int] | None = None
        """Where the topic ended when it was looked at: an answer from before that could be old."""
        self._turn = 0
        self._thread.start()

    @contextmanager
    def snapshot(self, at_least: Mapping[int, int], seconds: float) -> Iterator[Snapshot]:
        """The rows, once they hold what is asked for and what was there when following began. LogError
        `replica-behind` if that takes too long."""
        self.used = time.monotonic()
        deadline = self.used + seconds
        with self._changed:
            if not self._holds(at_least):
                with self._place():
                    self._wait(lambda: self._holds(at_least), deadline)
            replica = self._replica
            if replica is None or not self._holds(at_least):
                raise self._behind()
            self._looking += 1
        try:
            with replica.snapshot() as snapshot:
                yield snapshot
        finally:
            with self._changed:
                self._looking -= 1
                self._changed.notify_all()

    def wait_for(self, reached: Callable[[Snapshot], bool], seconds: float) -> bool:
        """Whether the rows come to be so in time; looked at again whenever something comes."""
        deadline = time.monotonic() + seconds
        while True:
            with self._changed:
                turn = self._turn
            with self.snapshot({}, deadline - time.monotonic()) as snapshot:
                if reached(snapshot):
                    return True
            with self._changed, self._place():
                if not self._wait(lambda turn=turn: self._turn != turn, deadline):  # type: ignore[misc]
                    return False

    def close(self) -> None:
        """End, and wait for the thread and for those who look."""
        super().close()
        self._drop()

    @contextmanager
    def _place(self) -> Iterator[None]:
        """A place among those who wait."""
        if not self._waits.acquire(blocking=False):
            raise LogError("too-many-wait", "too many calls wait already", "ask again soon", retryable=True)
        try:
            yield
        finally:
            self._waits.release()

    def _holds(self, at_least: Mapping[int, int]) -> bool:
        if self._ready is None or self._replica is None or self._growing:
            return False
        at = self._at
        if not at_least.keys() <= at.keys():
            raise ConfigError(
                "bad-position", f"{self.topic} has no such partition", "hand back one of an answer"
            )
        wanted = (*self._ready.items(), *at_least.items())
        return all(at[number] >= offset for number, offset in wanted)

    def _progress(self) -> str:
        read, wanted = sum(self._at.values()), sum((self._ready or {}).values())
        return f"this server has read {self.topic} to {read:,} of {max(read, wanted):,}"

    def _recover(self, error: TidegateError) -> bool:
        if error.code == "map-full":
            self._grow()
            return True
        if error.code in ANOTHER:
            self._drop()
        return False

    def _follow(self) -> None:
        info = self._log.describe(self.topic)
        if self._replica is None or info.uid != self._uid:
            self._build(info)
        ends = self._log.ends(TopicPartition(self.topic, number) for number in self._at)
        with self._changed:
            self._ready = {partition.partition: int(end) for partition, end in ends.items()}
            self._changed.notify_all()
        positions = {TopicPartition(self.topic, number): Offset(at) for number, at in self._at.items()}
        with closing(self._log.reader(positions)) as reader:
            while not self._ended.is_set():
                fetched = reader.poll(POLL_SECONDS)
                if fetched:
                    self._apply(fetched)
                self._clear_trouble()

    def _build(self, info: TopicInfo) -> None:
        """Step 1, for a topic that is new: begin with nothing."""
        self._drop()
        self._built += 1
        made = Replica(self._folder / str(self._built), info.partitions, self._suffix, info.starts)
        with self._changed:
            self._replica, self._at, self._ready = made, dict(enumerate(info.starts)), None
        self._uid = info.uid

    def _apply(self, fetched: list[Fetched]) -> None:
        assert self._replica is not None  # noqa: S101 - built before it is read for
        rows: dict[int, tuple[list[RawRow], int]] = {}
        for part in fetched:
            number = part.partition.partition
            before = rows.get(number, ([], 0))[0]
            rows[number] = (before + self._to_rows(part.batch), int(part.next))
        self._replica.apply(rows)
        with self._changed:
            self._at.update({number: behind for number, (_, behind) in rows.items()})
            self._turn += 1
            self._changed.notify_all()

    def _grow(self) -> None:
        """More room, while nobody looks and nobody begins to."""
        with self._changed:
            self._growing = True
            while self._looking:
                self._changed.wait()
            if self._replica is not None:
                self._replica.grow()
            self._growing = False
            self._changed.notify_all()

    def _drop(self) -> None:
        """Forget what was read, once nobody looks at it any more."""
        with self._changed:
            dropped, self._replica, self._ready, self._uid = self._replica, None, None, ""
            while self._looking:
                self._changed.wait()
        if dropped is not None:
            dropped.close()
            shutil.rmtree(dropped.folder, ignore_errors=True)
