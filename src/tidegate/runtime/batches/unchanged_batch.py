"""Records of a batch that a task sends unchanged, such as those that pass a gate."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidegate.log.records import APPEND_SCHEMA
from tidegate.runtime.batches.whole_batches import BatchOrigins
from tidegate.runtime.output.origin import with_times
from tidegate.runtime.output.sender import Sender
from tidegate.topology.node import Node
from tidegate.types import TopicPartition


class UnchangedBatch:
    """One batch for the topic of a node. Implements `PassingBatch` of the gate."""

    def __init__(
        self, sender: Sender, node: Node, partition: TopicPartition, batch: pa.RecordBatch, before: int
    ) -> None:
        """`before` is the stream time of the source partition before the batch."""
        self._sender = sender
        self._node = node
        self._batch = batch
        self._origins = BatchOrigins(partition, batch, batch.column(1), before, internal=False)

    @property
    def stream_times(self) -> pa.Array[Any]:
        times: pa.Array[Any] = self._origins.stream_times
        return times

    def send(self, rows: pa.Array[Any] | None, now: int) -> None:
        """Send these rows, all if None, with the headers that each would have on its own."""
        found = self._sender.route_of(self._node)
        if found is None or (rows is not None and not len(rows)):
            return
        passing = self._batch if rows is None else self._batch.take(rows)
        first = self._sender.reserve_sequence(passing.num_rows)
        sequences = pa.arange(first, first + passing.num_rows)
        headers = self._origins.headers(rows, found, self._sender.name, sequences)
        output = pa.RecordBatch.from_arrays(
            [passing.column(1), passing.column(2), passing.column(3), headers], schema=APPEND_SCHEMA
        )
        self._sender.outputs.add_batch(
            found.target, with_times(output, self._origins.origin_times(rows)), now
        )
