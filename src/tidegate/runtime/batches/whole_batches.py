"""The whole-batch path of a task: a batch in, columns through the steps, batches out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.log.last_of_keys import last_of_each
from tidegate.log.records import (
    APPEND_SCHEMA,
    READ_SCHEMA,
    Headers,
    header_column,
    no_headers,
    own_headers,
    raw_records,
)
from tidegate.runtime.batches.batch_steps import BatchNode
from tidegate.runtime.batches.columns import Changes, Columns, Values
from tidegate.runtime.batches.groups import Counted
from tidegate.runtime.null_values import NullValues
from tidegate.runtime.operators.codecs import encoders
from tidegate.runtime.output.numbered_origins import (
    Sources,
    numbered,
    records_in,
    sources_of,
    with_headers,
)
from tidegate.runtime.output.numbered_texts import Parts
from tidegate.runtime.output.origin import (
    ORIGIN,
    TIMES,
    OriginColumns,
    header_of_each,
    no_own_headers,
    origin_column,
    origin_columns,
    owner_headers,
    position_parts,
    with_times,
)
from tidegate.runtime.output.routes import Route
from tidegate.runtime.output.sender import Sender
from tidegate.serde import Serde
from tidegate.serde.columns import encode_all, encode_ints
from tidegate.serde.plain import PLAIN
from tidegate.state.builder import StoreBuilder
from tidegate.topology.node import Node
from tidegate.types import TopicPartition

Stores = Callable[[StoreBuilder[Any]], Any]
"""Returns the open store of a builder."""


class BatchSource(Protocol):
    """The part of a source that the whole-batch path uses."""

    node: Node

    @property
    def internal(self) -> bool: ...

    def columns(self, batch: pa.RecordBatch, *, lazy: bool = False) -> Columns: ...


class WholeBatches:
    """Runs the only chain of a task over batches of its only source."""

    def __init__(
        self, source: BatchSource, chain: Sequence[BatchNode], sender: Sender, stores: Stores
    ) -> None:
        self._source = source
        self._lazy = sender.reads_handed_on(source.node)
        self._output = BatchOutput(sender, stores)
        self._steps = [node.step(self._output) for node in chain]

    def run(self, partition: TopicPartition, batch: pa.RecordBatch, before: int, now: int) -> tuple[int, int]:
        """Pass all records through all steps. Returns the new stream time of the source partition (`before`
        is the old one) and the timestamp of the last record. Raises whatever a step raises; the caller rolls
        back."""
        columns = self._source.columns(batch, lazy=self._lazy)
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
        target = found.target
        encode_key, encode_value = self._encoders.setdefault(node.id, encoders(node))
        key_serde = node.key if node.topic is None else node.topic.key_serde
        value_serde = node.value if node.topic is None else node.topic.value_serde
        keys = columns.keys.column(key_serde, encode_key)
        first = self._sender.reserve_sequence(len(columns)) if found.origin else 0
        sequences: pa.Array[Any] = pa.arange(first, first + len(columns))
        folds = target.folds and batch.own is None and not keys.null_count
        numbers = columns.keys.numbers_by(keys) if folds else columns.keys.numbers
        counted = _foldable(columns, numbers, value_serde) if folds else None
        if found.hands_on:
            value_column = batch.values(columns)
        else:
            value_column = _encoded(
                columns.values if counted is None else counted.newest, value_serde, encode_value
            )
        if folds and target.check.takes_all(keys, value_column, columns.timestamps, self._now):
            last = last_of_each(numbers) if counted is None else counted.last
            value_column = value_column.take(last) if counted is None else value_column
            columns, sequences = columns.take(last, ()), sequences.take(last)
        elif counted is not None:
            value_column = _encoded(counted, value_serde, encode_value)
        key_column = keys.take(columns.keys.numbers)
        sources = None
        if target.packs and target.check.takes_all(keys, value_column, columns.timestamps, self._now):
            sources = batch.sources(columns.rows)
        if sources is not None:
            times = batch.origin_times(columns.rows)
            output = numbered(columns.timestamps, key_column, value_column, times, sources)
        else:
            headers = batch.headers(columns.rows, found, self._sender.name, sequences)
            output = pa.RecordBatch.from_arrays(
                [columns.timestamps, key_column, value_column, headers], schema=APPEND_SCHEMA
            )
            if found.internal:
                output = with_times(output, batch.origin_times(columns.rows))
        self._sender.outputs.add_batch(target, output, self._now, (keys, columns.keys.numbers))


def _foldable(columns: Columns, numbers: pa.Array[Any], serde: Serde[Any] | None) -> Counted | None:
    """Return counts of which only the last of each key need to be encoded: all are of one size, and no other
    can fail. `numbers` are those of the written keys, which must be the ones that were counted by."""
    counted = columns.values
    if isinstance(counted, Counted) and serde is PLAIN[int] and counted.groups.numbers is numbers:
        return counted
    return None


def _encoded(
    values: Values | Changes, serde: Serde[Any] | None, encode: Callable[[Any], bytes | None]
) -> pa.Array[Any]:
    rows: Any = values.new if isinstance(values, Changes) else values
    if isinstance(rows, pa.Array) and serde is PLAIN[int]:
        return encode_ints(rows)
    return encode_all(rows, encode)


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
        if headers.null_count < len(headers) and not no_own_headers(headers):
            self.own = [own_headers(raw) for raw in raw_records(partition, batch)]
        self._partition, self._batch, self._internal = partition, batch, internal
        self._parsed: OriginColumns | None = None
        times = timestamps
        if internal and batch.num_columns > TIMES:
            times = batch.column(TIMES)
        elif internal:
            self._parsed = origin_columns(partition, batch)
            times = self._parsed.times
        self.stream_times: Any = pc.cumulative_max(times, start=pa.scalar(before, pa.int64()))

    def values(self, columns: Columns) -> pa.Array[Any]:
        """Return the values of the records as they were read."""
        return _at(self._batch.column(3), columns.rows)

    def headers(
        self, rows: pa.Array[Any] | None, route: Route, task: str, sequences: pa.Array[Any]
    ) -> pa.Array[Any]:
        """Return the header column of outputs of these rows, all if None: the records' own headers, and those
        that the route adds. Each output has a number of `sequences`."""
        count = len(sequences)
        origins = self._origins(rows, task, sequences) if route.origin else None
        if self.own is None and not (route.owner and route.origin):
            if origins is not None:
                return header_of_each(ORIGIN, origins)
            return owner_headers(route.owner[0][1], count) if route.owner else no_headers(count)
        listed = range(len(self.stream_times)) if rows is None else rows.to_pylist()
        own: list[Headers] = [()] * count if self.own is None else [self.own[row] for row in listed]
        added: list[Headers] = [()] * count
        if origins is not None:
            added = [((ORIGIN, one),) for one in origins.to_pylist()]
        return header_column(
            [(*pairs, *route.owner, *origin) for pairs, origin in zip(own, added, strict=True)]
        )

    def _origins(self, rows: pa.Array[Any] | None, task: str, sequences: pa.Array[Any]) -> pa.Array[Any]:
        return origin_column(self._positions(rows), task, sequences, self.origin_times(rows))

    def sources(self, rows: pa.Array[Any] | None) -> Sources | None:
        """Return the source records of these rows, all if None, as numbers; None if some have headers of
        their own, or an origin that is only known as text."""
        if self.own is not None:
            return None
        if not self._internal:
            return records_in(self._partition, _at(self._batch.column(0), rows))
        return sources_of(self._batch, rows)

    def origin_times(self, rows: pa.Array[Any] | None) -> pa.Array[Any]:
        """Return the stream times in the origin headers of outputs of these rows, all if None."""
        return _at(self._times_of_outputs, rows)

    @cached_property
    def _times_of_outputs(self) -> pa.Array[Any]:
        times: Any = pc.max_element_wise(self.stream_times, 0)
        return times

    def _positions(self, rows: pa.Array[Any] | None) -> Parts:
        """Return the positions of these rows. If the times are known, only the origins of these are
        parsed."""
        if not self._internal:
            return position_parts(self._partition, _at(self._batch.column(0), rows))
        if self._parsed is not None:
            return (_at(self._parsed.positions, rows),)
        if (known := sources_of(self._batch, rows)) is not None:
            return known.texts()
        empty: pa.Array[Any] = pa.nulls(self._batch.num_rows, pa.binary())
        slim = self._batch.set_column(2, READ_SCHEMA.field(2), empty).set_column(
            3, READ_SCHEMA.field(3), empty
        )
        taken = slim if rows is None else slim.take(rows)
        return (origin_columns(self._partition, with_headers(taken)).positions,)


def _at(column: pa.Array[Any], rows: pa.Array[Any] | None) -> pa.Array[Any]:
    return column if rows is None else column.take(rows)
