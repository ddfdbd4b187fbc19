"""Pass whole batches through a gate: events of keys that are not held pass unchanged, the rest one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.gate.host import GateHost, OpenBatch
from tidegate.gate.task_gates import TaskGate
from tidegate.log.records import own_headers, raw_records
from tidegate.types import TopicPartition


class GateBatches:
    """The whole-batch path of a task whose only source feeds nothing but one gate."""

    def __init__(self, gate: TaskGate, host: GateHost, open_batch: OpenBatch) -> None:
        self._gate = gate
        self._host = host
        self._open_batch = open_batch

    def run(self, partition: TopicPartition, batch: pa.RecordBatch, before: int, now: int) -> tuple[int, int]:
        """Pass all records through the gate. Returns the new stream time of the source partition (`before` is
        the old one) and the timestamp of the last record."""
        passing = self._open_batch(partition, batch, before)
        held = None if self._gate.step.idle else self._held(batch.column(2))
        if held is None:
            passing.send(None, now)
        else:
            passing.send(pc.indices_nonzero(pc.invert(held)), now)
            self._one_by_one(partition, batch.filter(held), pc.filter(passing.stream_times, held))
        return passing.stream_times[-1].as_py(), batch.column(1)[-1].as_py()

    def _held(self, keys: pa.Array[Any]) -> pa.Array[Any] | None:
        """Return which records may have to be held; None if none."""
        numbered: Any = keys.dictionary_encode(null_encoding="encode")
        blocked = [self._gate.step.blocks(key) for key in numbered.dictionary.to_pylist()]
        return pa.array(blocked, pa.bool_()).take(numbered.indices) if any(blocked) else None

    def _one_by_one(self, partition: TopicPartition, batch: pa.RecordBatch, times: pa.Array[Any]) -> None:
        host, step = self._host, self._gate.step
        for raw, time in zip(raw_records(partition, batch), times.to_pylist(), strict=True):
            host.begin(raw, time)
            step.event(raw.key, raw.value, raw.timestamp, own_headers(raw), raw)
