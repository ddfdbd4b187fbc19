"""The whole-batch path of a task: a batch in, columns through the steps, batches out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.records import APPEND_SCHEMA, Headers, header_column, own_headers, raw_records
from tidegate.runtime.batches.batch_steps import BatchNode
from tidegate.runtime.batches.columns import Columns
from tidegate.runtime.null_values import NullValues
from tidegate.runtime.operators.codecs import encoders
from tidegate.runtime.output.origin import (
    ORIGIN,
    only_ours,
    origin_column,
    origin_columns,
    our_headers,
    place_column,
)
from tidegate.runtime.output.sender import Sender
from tidegate.serde.columns import encode_all, encode_ints
from tidegate.serde.plain import PLAIN
from tidegate.state.builder import StoreBuilder
from tidegate.topology.node import Node
from tidegate.types import TopicPartition

Stores = Callable[[StoreBuilder[Any]], Any]
"""Returns the open store of a builder."""


class BatchSource(Protocol):
    """What the path needs of the source that it reads."""

    @property
    def internal(self) -> bool: ...

    def columns(self, batch: pa.RecordBatch) -> Columns: ...


class WholeBatches:
    """Runs the only chain of a task over batches of its only source."""

    def __init__(
        self, source: BatchSource, chain: Sequence[BatchNode], sender: Sender, stores: Stores
    ) -> None:
        self._source = source
        self._output = BatchOutput(sender, stores)
        self._steps = [node.step(self._output) for node in chain]

    def run(self, partition: TopicPartition, batch: pa.RecordBatch, before: int, now: int) -> tuple[int, int]:
        """All records through all steps. The stream time of the source partition, `before` until now, and
        the timestamp of the last record. Raises whatever a step raises; the caller takes all of it back."""
        columns = self._source.columns(batch)
        internal = self._source.internal
        work = BatchInWork(partition, batch, columns.timestamps, before, internal=internal)
        self._output.begin(work, now)
        for step in self._steps:
            columns = step(columns)
        return work.stream_times[-1].as_py(), work.timestamps[-1].as_py()


class BatchOutput:
    """Takes what batch steps send. The host of batch steps."""

    def __init__(self, sender: Sender, stores: Stores) -> None:
        self._sender = sender
        self._stores = stores
        self._encoders: dict[int, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}
        self._batch: BatchInWork | None = None
        self._now = 0

    def begin(self, batch: BatchInWork, now: int) -> None:
        """From here on outputs come from this batch."""
        self._batch, self._now = batch, now

    @property
    def null_values(self) -> NullValues:
        return self._sender.null_values

    def store(self, builder: StoreBuilder[Any]) -> Any:
        return self._stores(builder)

    def emit_columns(self, node: Node, columns: Columns) -> None:
        """Many records to a sink or an internal topic, with the headers that each would have alone."""
        found = self._sender.writes_to(node)
        batch = self._batch
        if found is None or batch is None:
            return
        target, (owner_name, owner) = found
        encode_key, encode_value = self._encoders.setdefault(node.id, encoders(node))
        key_serde = node.key if node.topic is None else node.topic.key_serde
        value_serde = node.value if node.topic is None else node.topic.value_serde
        keys = columns.keys.encoded(key_serde, encode_key)
        values: Any = columns.values
        if isinstance(values, pa.Array) and value_serde is PLAIN[int]:
            value_column = encode_ints(values)
        else:
            value_column = encode_all(values, encode_value)
        origins = batch.origins(columns, self._sender.name, self._sender.take_numbers(len(columns)))
        headers = batch.headers(columns, (owner_name, owner), origins)
        key_column = pa.array(keys, pa.binary()).take(columns.keys.numbers)
        made = pa.RecordBatch.from_arrays(
            [columns.timestamps, key_column, value_column, headers], schema=APPEND_SCHEMA
        )
        self._sender.outputs.add_batch(target, keys, columns.keys.numbers, made, self._now)


class BatchInWork:
    """The batch in work: what outputs need to know of the records that they come from."""

    def __init__(
        self,
        partition: TopicPartition,
        batch: pa.RecordBatch,
        timestamps: pa.Array[Any],
        before: int,
        *,
        internal: bool,
    ) -> None:
        self.timestamps = timestamps
        headers = batch.column(4)
        self._own: list[Headers] | None = None
        if headers.null_count < len(headers) and not only_ours(headers):
            self._own = [own_headers(raw) for raw in raw_records(partition, batch)]
        times = timestamps
        if internal:
            origins = origin_columns(partition, batch)
            self._places, times = origins.positions, origins.times
        else:
            self._places = place_column(partition, batch.column(0))
        self.stream_times: Any = pc.cumulative_max(times, start=pa.scalar(before, pa.int64()))

    def origins(self, columns: Columns, task: str, first: int) -> pa.Array[Any]:
        places, times = self._places, pc.max_element_wise(self.stream_times, 0)
        if columns.rows is not None:
            places, times = places.take(columns.rows), times.take(columns.rows)
        return origin_column(places, task, first, times)

    def headers(self, columns: Columns, owner: tuple[str, bytes], origins: pa.Array[Any]) -> pa.Array[Any]:
        if self._own is None:
            return our_headers(owner[1], origins)
        rows = range(len(self._own)) if columns.rows is None else columns.rows.to_pylist()
        added = [(owner, (ORIGIN, origin)) for origin in origins.to_pylist()]
        return header_column([(*self._own[row], *ours) for row, ours in zip(rows, added, strict=True)])
