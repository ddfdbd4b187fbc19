"""A log that reopens itself when it has become unusable, for processes that run for months.

A commit whose sync fails (`commit-unknown`) makes an open embedded log unusable: only the next
opening shows whether the commit took effect. This class reopens the log at the next use: 1 open the log a
second time; 2 commit and sync a small change there, which proves that the disk works again and settles the
unknown commit; 3 replace the old log by the new one; 4 close the old one. As long as 1 or 2 fail, every call
fails with their error, and so does `check`. Readers have their own connections and continue; writers are
unusable, as after every failed commit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress

import pyarrow as pa

from tidegate.errors import LogError, TidegateError
from tidegate.log.location import LogLocation
from tidegate.log.protocol import Log, Reader, Writer
from tidegate.log.topic import TopicInfo, TopicSpec
from tidegate.types import Offset, TopicPartition

logger = logging.getLogger("tidegate.log")
UNKNOWN = "commit-unknown"
TRIAL = "tidegate-reopening"
"""The writer id of step 2: always the same, so that it uses one row."""


class ReopeningLog:
    """Passes every call on to the currently open log."""

    def __init__(self, open_again: Callable[[], Log]) -> None:
        """`open_again` opens the log; it is called here for the first time."""
        self._open = open_again
        self._log = open_again()
        self._unusable_log: Log | None = None
        self._lock = threading.Lock()

    @property
    def id(self) -> str:
        return self._log.id

    @property
    def location(self) -> LogLocation:
        return self._log.location

    def check(self) -> None:
        with self._usable() as log:
            log.check()

    def create(self, spec: TopicSpec) -> TopicInfo:
        with self._usable() as log:
            return log.create(spec)

    def describe(self, name: str) -> TopicInfo:
        with self._usable() as log:
            return log.describe(name)

    def names(self) -> list[str]:
        with self._usable() as log:
            return log.names()

    def delete(self, name: str) -> None:
        with self._usable() as log:
            log.delete(name)

    def ends(
        self, partitions: Iterable[TopicPartition], *, committed: bool = True
    ) -> dict[TopicPartition, Offset]:
        with self._usable() as log:
            return log.ends(partitions, committed=committed)

    def offset_at(self, partition: TopicPartition, timestamp: int) -> Offset:
        with self._usable() as log:
            return log.offset_at(partition, timestamp)

    def reader(self, positions: Mapping[TopicPartition, Offset], *, brief: bool = False) -> Reader:
        with self._usable() as log:
            return log.reader(positions, brief=brief)

    def writer(self, writer_id: str, *, open_seconds: float | None = None) -> Writer:
        with self._usable() as log:
            return _Watched(
                log.writer(writer_id, open_seconds=open_seconds), lambda: self._note_unusable(log)
            )

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> Offset:
        with self._usable() as log:
            return log.append(partition, batch)

    def purge(self, partition: TopicPartition, before: Offset) -> None:
        with self._usable() as log:
            log.purge(partition, before)

    def mirror(self, group: str, positions: Mapping[TopicPartition, Offset]) -> None:
        with self._usable() as log:
            log.mirror(group, positions)

    def close(self) -> None:
        self._log.close()

    @contextmanager
    def _usable(self) -> Iterator[Log]:
        with self._lock:
            if self._unusable_log is self._log:
                self._reopen()
            log = self._log
        with self._note_unusable(log):
            yield log

    @contextmanager
    def _note_unusable(self, log: Log) -> Iterator[None]:
        """Note whether a failure inside made the log unusable."""
        try:
            yield
        except LogError as error:
            if error.code == UNKNOWN and _is_unusable(log):
                self._unusable_log = log
            raise

    def _reopen(self) -> None:
        """Steps 1 to 4."""
        fresh = self._open()
        try:
            fresh.writer(TRIAL).close()
        except BaseException:
            with suppress(TidegateError):
                fresh.close()
            raise
        old, self._log = self._log, fresh
        logger.warning("the log was reopened after a commit whose outcome was unknown")
        with suppress(TidegateError):
            old.close()


class _Watched:
    """A writer that marks its log for reopening when its commit made the log unusable."""

    def __init__(self, writer: Writer, note_unusable: Callable[[], AbstractContextManager[None]]) -> None:
        self._writer = writer
        self._note_unusable = note_unusable

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        with self._note_unusable():
            self._writer.append(partition, batch)

    def flush(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        with self._note_unusable():
            return self._writer.flush(partitions)

    def commit(self) -> dict[TopicPartition, Offset]:
        with self._note_unusable():
            return self._writer.commit()

    def abort(self) -> None:
        with self._note_unusable():
            self._writer.abort()

    def close(self) -> None:
        self._writer.close()


def _is_unusable(log: Log) -> bool:
    """Whether the log reports itself as unusable: not every log is, after a commit of unknown outcome."""
    try:
        log.check()
    except LogError as error:
        return error.code == UNKNOWN
    return False
