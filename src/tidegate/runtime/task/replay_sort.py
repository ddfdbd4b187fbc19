"""The order in which a strict task takes an internal partition.

Several tasks write to one partition of an internal topic, and the order of their commits is arbitrary. So
what the partition holds below the pinned end is sorted by (stream time at the origin, producing task,
offset): an order that depends on the records alone, since a task writes its own in order. The records get
new offsets from the start on, one by one in this order, and the positions of a strict task refer to these
until it has finished. They may lie behind the end of the partition: a block of records has one offset there.

What does not fit into memory is sorted in pieces, which are spilled to disk and merged.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.runtime.output.blocks import parts
from tidegate.runtime.output.numbered_origins import NUMBERED_SCHEMA
from tidegate.types import TopicPartition

PIECE_BYTES = 64 << 20
ROWS_AT_ONCE = 8192
ORDER = ("time", "task", "offset")
COLUMNS = len(NUMBERED_SCHEMA)
"""The number of columns of the batches that are yielded; the task follows them while they are sorted."""


class SortedPartition:
    """Takes batches in the order of their offsets and returns them sorted. `position` is the new offset to
    continue from, at or above `start`."""

    def __init__(
        self, partition: TopicPartition, start: int, position: int, piece_bytes: int = PIECE_BYTES
    ) -> None:
        self._partition = partition
        self._start = start
        self._skip = max(0, position - start)
        self._added = 0
        self._piece_bytes = piece_bytes
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self._pieces: list[Any] = []

    def add(self, batch: pa.RecordBatch) -> None:
        for part in parts(self._partition, batch):
            numbers = pa.arange(self._added, self._added + part.records.num_rows)
            columns = [numbers, *part.records.columns, part.tasks]
            self._waiting.append(pa.RecordBatch.from_arrays(columns, names=[*NUMBERED_SCHEMA.names, "task"]))
            self._added += part.records.num_rows
            self._bytes += part.records.nbytes
        if self._bytes > self._piece_bytes:
            self._spill()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield everything that was added, sorted, from the position on."""
        last = self._sorted()
        in_pieces = [_read(piece) for piece in self._pieces]
        found = _merged([*in_pieces, _split(last)]) if in_pieces else iter(() if last is None else (last,))
        next_offset, skip = self._start, self._skip
        for batch in found:
            rows = batch.slice(skip)
            next_offset += batch.num_rows - rows.num_rows
            skip -= batch.num_rows - rows.num_rows
            if rows.num_rows:
                offsets = pa.arange(next_offset, next_offset + rows.num_rows)
                next_offset += rows.num_rows
                yield pa.RecordBatch.from_arrays([offsets, *rows.columns[1:COLUMNS]], schema=NUMBERED_SCHEMA)

    def _sorted(self) -> pa.RecordBatch | None:
        return _in_order(self._waiting) if self._waiting else None

    def _spill(self) -> None:
        batch = self._sorted()
        if batch is None:
            return
        file = tempfile.TemporaryFile(prefix="tidegate-sort-")  # noqa: SIM115 - lives as long as the piece
        with pa.ipc.new_stream(file, batch.schema) as sink:
            for part in _split(batch):
                sink.write_batch(part)
        file.seek(0)
        self._pieces.append(file)
        self._bytes = 0


def _read(file: Any) -> Iterator[pa.RecordBatch]:
    with file, pa.ipc.open_stream(file) as source:
        yield from source


def _split(batch: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
    for start in range(0, 0 if batch is None else batch.num_rows, ROWS_AT_ONCE):
        assert batch is not None  # noqa: S101 - it has rows
        yield batch.slice(start, ROWS_AT_ONCE)


def _in_order(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Join batches, sort them, and empty the list. Of two records of one task and time the first one added
    has the lower offset. So two stable sorts are enough, by task and by time. The second is left out if the
    times are in order after the first, as those of one task are."""
    joined = pa.concat_batches(batches)
    batches.clear()
    order = None
    tasks: Any = joined.column("task")
    if len(tasks.dictionary) > 1:
        order = pc.sort_indices(pc.rank(tasks.dictionary, tiebreaker="dense").take(tasks.indices))
    times: Any = joined.column("time") if order is None else joined.column("time").take(order)
    if not pc.cumulative_max(times).equals(times):
        by_time = pc.sort_indices(times)
        order = by_time if order is None else order.take(by_time)
    return joined if order is None else joined.take(order)


def _merged(pieces: list[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Merge sorted pieces into one sorted sequence of batches. Rows up to the smallest last row of the
    current batches can be yielded: no smaller row follows. They are joined in the order of the pieces, which
    is that of the offsets, as `_in_order` needs it."""
    heads = {number: batch for number, piece in enumerate(pieces) if (batch := next(piece, None)) is not None}
    while heads:
        bound = min(_sort_key(batch, batch.num_rows - 1) for batch in heads.values())
        ready = []
        for number, batch in list(heads.items()):
            count = _up_to(batch, bound)
            ready.append(batch.slice(0, count))
            if count < batch.num_rows:
                heads[number] = batch.slice(count)
            elif (next_batch := next(pieces[number], None)) is not None:
                heads[number] = next_batch
            else:
                del heads[number]
        yield _in_order(ready)


def _sort_key(batch: pa.RecordBatch, row: int) -> tuple[Any, ...]:
    return tuple(batch.column(name)[row].as_py() for name in ORDER)


def _up_to(batch: pa.RecordBatch, bound: tuple[Any, ...]) -> int:
    """Return how many rows of a sorted batch are not above the bound."""
    low, high = 0, batch.num_rows
    while low < high:
        middle = (low + high) // 2
        if _sort_key(batch, middle) <= bound:
            low = middle + 1
        else:
            high = middle
    return low
