"""The outputs of a sink that wait until the task has processed a batch of records, to be encoded together.

Encoding single records, checking them and finding their partitions is a fifth of the work of a task that runs
record by record. In columns most of that is saved.

Only keys and values of plain types wait: they cannot change, so their bytes are the same a moment later. The
task flushes before anything else may see its outputs. If one cannot be written, all are sent one by one, and
the error belongs to the record that caused it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Protocol

import pyarrow as pa

from tidegate.log.records import APPEND_SCHEMA, header_column, no_headers
from tidegate.runtime.operators.codecs import serdes_of
from tidegate.runtime.operators.context import Handler
from tidegate.runtime.output.origin import owner_headers
from tidegate.runtime.output.outputs import TaskOutputs
from tidegate.runtime.output.routes import Route
from tidegate.serde.columns import encode_column
from tidegate.serde.plain import PLAIN
from tidegate.topics import Topic
from tidegate.topology.node import Node

FEW_RECORDS = 64
"""Fewer are encoded one by one, which is faster."""


class OutputsAt(Protocol):
    """The part of a sender that late outputs use."""

    outputs: TaskOutputs

    @property
    def now(self) -> int: ...


class LateOutputs:
    """The records that wait for one sink."""

    def __init__(self, sender: OutputsAt, node: Node, route: Route, send: Handler) -> None:
        """`send` sends a single record."""
        self.records: list[Any] = []
        """Those that wait; the sink appends to this list."""
        self.marks: list[int] = []
        """How many waited after each record that the task processed."""
        self._sender, self._route, self._send = sender, route, send
        self._key, self._value = serdes_of(node)
        self._nulls = not isinstance(node.topic, Topic)
        """Whether None is a value: it deletes a row."""
        self._sent = 0

    def flush(self) -> None:
        """Encode what waits, and add it to the outputs of the task. Raises what a single record raises."""
        records = self.records
        if len(records) < FEW_RECORDS or not self._send_together():
            for self._sent, record in enumerate(records):
                self._send(record)
        self.clear()

    def cause(self) -> int:
        """Return the number of the processed record whose output made `flush` fail."""
        return bisect_right(self.marks, self._sent)

    def clear(self) -> None:
        self.records.clear()
        self.marks.clear()

    def _send_together(self) -> bool:
        """Return whether all could be sent; if not, none was."""
        try:
            batch = self._batch()
            if batch is None:
                return False
            numbered = batch.column(1), pa.arange(0, batch.num_rows)
            self._sender.outputs.add_batch(self._route.target, batch, self._sender.now, numbered)
        except Exception:  # noqa: BLE001 - which record it is, and its error, are found one by one
            return False
        return True

    def _batch(self) -> pa.RecordBatch | None:
        records, owner = self.records, self._route.owner
        keys = encode_column([record.key for record in records], self._key)
        values = encode_column([record.value for record in records], self._value)
        if keys is None or values is None or (values.null_count and not self._nulls):
            return None
        own = [record.headers for record in records]
        if any(own):
            headers = header_column([(*one, *owner) for one in own])
        else:
            headers = owner_headers(owner[0][1], len(records)) if owner else no_headers(len(records))
        timestamps = pa.array([record.timestamp for record in records], pa.int64())
        return pa.RecordBatch.from_arrays([timestamps, keys, values, headers], schema=APPEND_SCHEMA)


def may_wait(node: Node, route: Route) -> bool:
    """Return whether the outputs of a sink may be encoded later: they cannot change, nothing in them depends
    on the record that is processed now, and they are not folded or packed."""
    return (
        not route.origin
        and not route.target.folds
        and not route.target.packs
        and all(any(serde is plain for plain in PLAIN.values()) for serde in serdes_of(node))
    )
