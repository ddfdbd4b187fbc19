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
    only_origin_headers,
    origin_column,
    origin_columns,
    origin_headers,
    position_column,
)
from tidegate.runtime.output.sender import Sender
from tidegate.runtime.output.staged_rows import last_of_each
from tidegate.serde.columns import encode_all, encode_ints
from tidegate.serde.plain import PLAIN
from tidegate.state.builder import StoreBuilder
from tidegate.topology.node import Node
from tidegate.types import TopicPartition

Stores = Callable[[StoreBuilder[Any]], Any]
"""Returns the open store of a builder."""


class BatchSource(Protocol):
    """The part of a source that the whole-batch path uses."""

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
        """Pass all records through all steps. Returns the new stream time of the source partition (`before`
        is the old one) and the timestamp of the last record. Raises whatever a step raises; the caller rolls
        back."""
        columns = self._source.columns(batch)
        internal = self._source.internal
        batch_origins = BatchOrigins(partition, batch, columns.timestamps, before, internal=internal)
        self._output.begin(batch_origins, now)
        for step in self._steps:
            columns = step(columns)
        return batch_origins.stream_times[-1].as_py(), batch_origins.timestamps[-1].as_py()


class BatchOutput:
    """Sends what batch steps emit. The host of batch steps."""

    def __init__(self, sender: Sender, stores: Stores) -> None:
        self._sender = sender
        self._stores = stores
        self._encoders: dict[int, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}
        self._batch: BatchOrigins | None = None
        self._now = 0

    def begin(self, batch: BatchOrigins, now: int) -> None:
        """Set the batch that outputs come from."""
        self._batch, self._now = batch, now

    @property
    def null_values(self) -> NullValues:
        return self._sender.null_values

    def store(self, builder: StoreBuilder[Any]) -> Any:
        return self._stores(builder)

    def emit_columns(self, node: Node, columns: Columns) -> None:
        """Send many records to a sink or an internal topic, with the headers that each would have on its
        own."""
        found = self._sender.route_of(node)
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
        first = self._sender.reserve_sequence(len(columns))
        sequences: pa.Array[Any] = pa.arange(first, first + len(columns))
        folds = target.folds and batch.own is None
        if folds and target.check.takes_all(keys, value_column, columns.timestamps, self._now):
            at = last_of_each(columns.keys.numbers)
            columns, value_column, sequences = (
                columns.take(at, ()),
                value_column.take(at),
                sequences.take(at),
            )
        origins = batch.origins(columns, self._sender.name, sequences)
        headers = batch.headers(columns, (owner_name, owner), origins)
        key_column = pa.array(keys, pa.binary()).take(columns.keys.numbers)
        output = pa.RecordBatch.from_arrays(
            [columns.timestamps, key_column, value_column, headers], schema=APPEND_SCHEMA
        )
        self._sender.outputs.add_batch(target, keys, columns.keys.numbers, output, self._now)


class BatchOrigins:
    """The origins of a batch's records, for the headers of its outputs."""

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
        self.own: list[Headers] | None = None
        """The headers of each record that tidegate did not add; None if no record has any."""
        if headers.null_count < len(headers) and not only_origin_headers(headers):
            self.own = [own_headers(raw) for raw in raw_records(partition, batch)]
        times = timestamps
        if internal:
            origins = origin_columns(partition, batch)
            self._positions, times = origins.positions, origins.times
        else:
            self._positions = position_column(partition, batch.column(0))
        self.stream_times: Any = pc.cumulative_max(times, start=pa.scalar(before, pa.int64()))

    def origins(self, columns: Columns, task: str, sequences: pa.Array[Any]) -> pa.Array[Any]:
        positions, times = self._positions, pc.max_element_wise(self.stream_times, 0)
        if columns.rows is not None:
            positions, times = positions.take(columns.rows), times.take(columns.rows)
        return origin_column(positions, task, sequences, times)

    def headers(self, columns: Columns, owner: tuple[str, bytes], origins: pa.Array[Any]) -> pa.Array[Any]:
        if self.own is None:
            return origin_headers(owner[1], origins)
        rows = range(len(self.own)) if columns.rows is None else columns.rows.to_pylist()
        added = [(owner, (ORIGIN, origin)) for origin in origins.to_pylist()]
        return header_column(
            [(*self.own[row], *origin_pair) for row, origin_pair in zip(rows, added, strict=True)]
        )
