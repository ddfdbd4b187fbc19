"""A replica that a thread keeps up with its topic.

1 look at the topic: one that was deleted and made again is read from its start; 2 read from the position;
3 apply what came, rows and positions together; 4 wake who waits. When the log fails, say so and try again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa

from tidegate.errors import LogError, TidegateError
from tidegate.log.protocol import Fetched, Log
from tidegate.state.protocol import RawRow
from tidegate.state.replica import Replica, Snapshot
from tidegate.types import Offset, TopicPartition

POLL_SECONDS = 0.2
AGAIN_SECONDS = 1.0

ToRows = Callable[[pa.RecordBatch], list[RawRow]]
"""From records as they were read to rows, whose keys end with the replica's suffix."""


class Following:
    """One topic: its replica, and the thread that feeds it."""

    def __init__(self, log: Log, topic: str, to_rows: ToRows, suffix: int, folder: Path) -> None:
        self.topic = topic
        self.trouble: TidegateError | None = None
        """Why it does not get on; None while it does."""
        self._log = log
        self._to_rows = to_rows
        self._suffix = suffix
        self._folder = folder
        self._changed = threading.Condition()
        self._replica: Replica | None = None
        self._uid = ""
        self._built = 0
        self._looking = 0
        self._at: dict[int, int] = {}
        self._ready: dict[int, int] | None = None
        """Where the topic ended when it was looked at: an answer from before that could be old."""
        self._turn = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"tidegate-replica-{topic}", daemon=True)
        self._thread.start()

    @contextmanager
    def snapshot(self, at_least: Mapping[int, int], seconds: float) -> Iterator[Snapshot]:
        """The rows, once they hold what is asked for and what was there when following began. LogError
        `replica-behind` if that takes too long."""
        with self._changed:
            deadline = time.monotonic() + seconds
            while not self._holds(at_least):
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    raise self._behind()
            replica = self._replica
            assert replica is not None  # noqa: S101 - it holds what was asked for
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
            with self.snapshot({}, seconds) as snapshot:
                if reached(snapshot):
                    return True
            with self._changed:
                while self._turn == turn:
                    if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                        return False

    def close(self) -> None:
        """End the thread, and wait for it and for those who look."""
        self._ended.set()
        self._thread.join()
        self._drop()

    def _holds(self, at_least: Mapping[int, int]) -> bool:
        if self._ready is None or self._replica is None:
            return False
        at = self._at
        wanted = (*self._ready.items(), *at_least.items())
        return all(at.get(number, 0) >= offset for number, offset in wanted)

    def _behind(self) -> TidegateError:
        if self.trouble is not None:
            return self.trouble
        read, wanted = sum(self._at.values()), sum((self._ready or {}).values())
        return LogError(
            "replica-behind",
            f"this server has read {self.topic} to {read:,} of {max(read, wanted):,}",
            "ask again in a moment",
            retryable=True,
        )

    def _work(self) -> None:
        while not self._ended.is_set():
            try:
                self._follow()
            except TidegateError as error:
                self._failed(error)
            except Exception as error:  # noqa: BLE001 - told to whoever asks; the thread must go on
                self._failed(LogError("replica-failed", f"{self.topic} cannot be followed: {error!r}"))

    def _failed(self, error: TidegateError) -> None:
        with self._changed:
            self.trouble = error
            if not error.retryable:
                self._uid = ""
            self._changed.notify_all()
        self._ended.wait(AGAIN_SECONDS)

    def _follow(self) -> None:
        info = self._log.describe(self.topic)
        if info.uid != self._uid:
            self._build(info.partitions, dict(enumerate(info.starts)))
            self._uid = info.uid
        ends = self._log.ends(TopicPartition(self.topic, number) for number in self._at)
        with self._changed:
            self._ready = {partition.partition: int(end) for partition, end in ends.items()}
            self.trouble = None
            self._changed.notify_all()
        positions = {TopicPartition(self.topic, number): Offset(at) for number, at in self._at.items()}
        with closing(self._log.reader(positions)) as reader:
            while not self._ended.is_set():
                fetched = reader.poll(POLL_SECONDS)
                if fetched:
                    self._apply(fetched)

    def _build(self, partitions: int, starts: dict[int, int]) -> None:
        """Step 1, for a topic that is new: begin with nothing."""
        self._drop()
        self._built += 1
        made = Replica(self._folder / str(self._built), partitions, self._suffix)
        made.apply({number: ([], start) for number, start in starts.items()})
        with self._changed:
            self._replica, self._at, self._ready = made, starts, None

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

    def _drop(self) -> None:
        with self._changed:
            dropped, self._replica, self._ready = self._replica, None, None
            while self._looking:
                self._changed.wait()
        if dropped is not None:
            dropped.close()
