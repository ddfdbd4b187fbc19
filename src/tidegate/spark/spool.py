"""Buffer the records of a task until Spark has computed all of them.

A transaction must not stay open while Spark computes: Kafka aborts it after ten seconds. So the
records of a task are first encoded and kept, in memory up to some MiB and then in a temporary file, and the
transaction opens when all of them are there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import pyarrow as pa

from tidegate.log.records import APPEND_SCHEMA
from tidegate.types import TopicPartition

MEMORY_BYTES = 8 << 20
_PARTITION = b"partition"
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


class Spool:
    """Batches of records by partition, in the order in which they were added."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._file: Any = tempfile.SpooledTemporaryFile(memory_bytes, prefix="tidegate-frame-")  # noqa: SIM115
        self._writer = pa.ipc.new_stream(self._file, APPEND_SCHEMA, options=_COMPRESSED)
        self.bytes = 0
        """The size of what was added, before compression."""

    def add(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        """Keep a batch."""
        name = f"{partition.partition} {partition.topic}"
        self._writer.write_batch(batch, custom_metadata={_PARTITION: name})
        self.bytes += batch.nbytes

    def batches(self) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """Iterate over all kept batches, one in memory at a time. Nothing can be added afterwards."""
        self._writer.close()
        self._file.seek(0)
        reader = pa.ipc.open_stream(self._file)
        while True:
            try:
                batch, metadata = reader.read_next_batch_with_custom_metadata()
            except StopIteration:
                return
            number, _, topic = metadata[_PARTITION].decode().partition(" ")
            yield TopicPartition(topic, int(number)), batch

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
