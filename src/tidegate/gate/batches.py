"""Whole batches through a gate: what nobody holds passes as it was read, the rest one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.gate.task_gates import TaskGate
from tidegate.log.records import APPEND_SCHEMA, own_headers, raw_records
from tidegate.runtime.batches.columns import Columns, Keys
from tidegate.runtime.batches.whole_batches import BatchInWork
from tidegate.runtime.output.sender import Sender
from tidegate.types import TopicPartition


class GateBatches:
    """For a task whose only source feeds nothing but one gate."""

    def __init__(self, gate: TaskGate, sender: Sender) -> None:
        self._gate = gate
        self._sender = sender

    def run(self, partition: TopicPartition, batch: pa.RecordBatch, before: int, now: int) -> tuple[int, int]:
        """All records through the gate. The stream time of the source partition, `before` until now, and the
        timestamp of the last record."""
        numbered: Any = batch.column(2).dictionary_encode(null_encoding="encode")
        keys = numbered.dictionary.to_pylist()
        work = BatchInWork(partition, batch, batch.column(1), before, internal=False)
        held = None if self._gate.step.idle else self._held(keys, numbered.indices)
        if held is None:
            self._pass(work, batch, keys, numbered.indices, None, now)
        else:
            rows: Any = pc.indices_nonzero(pc.invert(held))
            self._pass(work, batch, keys, numbered.indices, rows, now)
            self._one_by_one(partition, batch.filter(held), pc.filter(work.stream_times, held))
        return work.stream_times[-1].as_py(), work.timestamps[-1].as_py()

    def _held(self, keys: list[bytes | None], numbers: pa.Array[Any]) -> pa.Array[Any] | None:
        """Which records may have to wait; None if none has."""
        blocked = [self._gate.step.blocks(key) for key in keys]
        return pa.array(blocked, pa.bool_()).take(numbers) if any(blocked) else None

    def _pass(
        self,
        work: BatchInWork,
        batch: pa.RecordBatch,
        keys: list[bytes | None],
        numbers: pa.Array[Any],
        rows: pa.Array[Any] | None,
        now: int,
    ) -> None:
        found = self._sender.writes_to(self._gate.admitted)
        if found is None or (rows is not None and not len(rows)):
            return
        target, owner = found
        columns = Columns(Keys(keys, numbers), [], batch.column(1), rows)
        passing = batch if rows is None else batch.take(rows)
        if rows is not None:
            numbers = numbers.take(rows)
        first = self._sender.take_numbers(passing.num_rows)
        headers = work.headers(columns, owner, work.origins(columns, self._sender.name, first))
        made = pa.RecordBatch.from_arrays(
            [passing.column(1), passing.column(2), passing.column(3), headers], schema=APPEND_SCHEMA
        )
        self._sender.outputs.add_batch(target, keys, numbers, made, now)

    def _one_by_one(self, partition: TopicPartition, batch: pa.RecordBatch, times: pa.Array[Any]) -> None:
        sender, step = self._sender, self._gate.step
        for raw, time in zip(raw_records(partition, batch), times.to_pylist(), strict=True):
            sender.record, sender.place = raw, ""
            sender.moment.stream_time = max(sender.moment.stream_time, time)
            step.event(raw.key, raw.value, raw.timestamp, own_headers(raw), raw)
