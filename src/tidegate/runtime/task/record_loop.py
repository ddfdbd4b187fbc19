"""Process records one by one: decode, advance stream time, call the steps, and apply the policy to a failure.

Records of a task's only source can be decoded many at a time. Each still passes all steps before the next
one, so the effects, their order and the record that an error belongs to are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidegate.errors import LogError, TidegateError
from tidegate.log.positions import TaskId
from tidegate.log.records import RawRecord, raw_records
from tidegate.record import Record
from tidegate.runtime.modes import writes_dead_letters
from tidegate.runtime.output.on_error import RecordPosition, caused_by_record, error_at_record, policy_of
from tidegate.runtime.output.origin import origin_of
from tidegate.runtime.output.sender import Sender
from tidegate.runtime.output.time_only import is_time_only
from tidegate.runtime.run_context import RunContext
from tidegate.runtime.task.progress import TaskProgress
from tidegate.runtime.task.record_scope import TaskRecordScope
from tidegate.runtime.task.source import TaskSource
from tidegate.runtime.task.timers import Timers
from tidegate.state.store_time import StoreTime
from tidegate.types import TopicPartition


class RecordLoop:
    """Processes the records of one task."""

    def __init__(
        self,
        context: RunContext,
        task: TaskId,
        sender: Sender,
        scope: TaskRecordScope,
        progress: TaskProgress,
        store_time: StoreTime,
        timers: Timers,
        now: Callable[[], int],
        refused: Mapping[RecordPosition, LogError],
    ) -> None:
        """`refused` are the records that the log refused; they fail when they are processed."""
        self.sources: dict[str, TaskSource] = {}
        """The sources by topic."""
        self.skipped = self.records = 0
        self._context, self._task = context, task
        self._sender, self._scope, self._progress = sender, scope, progress
        self._store_time, self._timers, self._now = store_time, timers, now
        self._refused = refused

    def process(self, raw: RawRecord) -> None:
        """Process one record."""
        source, sender, scope = self.sources[raw.partition.topic], self._sender, self._scope
        sender.begin(raw, self._refused.get((raw.partition, raw.offset)) if self._refused else None)
        if source.internal and is_time_only(raw.headers):
            self._pass_time(raw, raw.timestamp, internal=True)
            self._progress.passed(raw)
            return
        undoable = source.undoable
        if undoable:
            scope.begin()
        try:
            record = source.decode(raw)
            self._pass_time(raw, record.timestamp, internal=source.internal)
            source.handler(record)
            if self._refused:
                sender.fail_if_refused()
        except Exception as error:  # noqa: BLE001 - its policy decides
            self._fail(error, raw, source)
        else:
            if undoable:
                scope.keep()
        self.records += not source.internal
        self._progress.passed(raw)

    def decoded(self, partition: TopicPartition, batch: pa.RecordBatch) -> list[Record[Any, Any]] | None:
        """Decode a batch of the only source for `process_together`; None if its records have to be processed
        one by one."""
        return None if self._refused else self.sources[partition.topic].decode_many(partition, batch)

    def process_together(
        self, partition: TopicPartition, batch: pa.RecordBatch, records: Sequence[Record[Any, Any]]
    ) -> int:
        """Process the records of a batch, which are decoded. Returns how many: it ends after a record that
        schedules a timer, which may be due before the next one."""
        source, sender, scope = self.sources[partition.topic], self._sender, self._scope
        store_time, timers, times = self._store_time, self._timers, self._progress.times
        handler, undoable, scheduled = source.handler, source.undoable, timers.scheduled
        begin, at, done = sender.begin, times[partition], 0
        for record in records:
            begin(record)
            if undoable:
                scope.begin()
            try:
                store_time.timestamp = timestamp = record.timestamp
                if timestamp > at:
                    at = times[partition] = timestamp
                    store_time.stream_time = max(store_time.stream_time, timestamp)
                handler(record)
            except Exception as error:  # noqa: BLE001 - its policy decides
                self._fail(error, _raw(partition, batch, done), source)
            else:
                if undoable:
                    scope.keep()
            done += 1
            if timers.scheduled != scheduled:
                break
        self.records += done
        self._progress.passed_batch(partition, records[done - 1].offset, done, at)
        return done

    def _fail(self, error: Exception, raw: RawRecord, source: TaskSource) -> None:
        """Apply the policy to a record that failed: raise, or undo its effects."""
        if not caused_by_record(error):
            raise error
        failure = error_at_record(error, raw, self._task.generation, internal=source.internal)
        policy = policy_of(error, source.policy)
        if policy == "stop" or not source.undoable:
            raise failure from error
        self._scope.roll_back()
        self.skipped += 1
        self._dead_letter(policy, raw, failure)

    def _dead_letter(self, policy: str, raw: RawRecord, failure: TidegateError) -> None:
        if policy == "dead-letter" and writes_dead_letters(self._context.mode):
            self._sender.dead_letter(raw, failure, self._now())

    def _pass_time(self, raw: RawRecord, timestamp: int, *, internal: bool) -> None:
        """Advance stream time by the event time, or behind an internal topic by the stream time of the
        origin."""
        at, store_time, times = timestamp, self._store_time, self._progress.times
        if internal:
            origin = origin_of(raw.headers)
            if origin is not None:
                self._sender.set_origin(origin.position)
                at = origin.time
        store_time.timestamp = timestamp
        if at > times[raw.partition]:
            times[raw.partition] = at
            store_time.stream_time = max(store_time.stream_time, at)


def _raw(partition: TopicPartition, batch: pa.RecordBatch, number: int) -> RawRecord:
    """Return a record of a batch as it was read."""
    [raw] = raw_records(partition, batch.slice(number, 1))
    return raw
