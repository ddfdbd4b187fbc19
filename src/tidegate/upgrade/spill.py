"""Arrow batches under keys: in memory up to a limit, above it in a temporary file.

The file has no name, so a process that is killed leaves nothing behind. Batches of one key come back in the
order in which they were added.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa


class Spill:
    """Batches of one schema. Closed by `close`, when nobody refers to it any more, or with the process."""

    def __init__(self, schema: pa.Schema, limit: int, folder: Path | None = None) -> None:
        """`limit` is the number of bytes in memory. The file is in `folder`, by default where the system has
        temporary files."""
        self._schema = schema
        self._limit = limit
        self._folder = folder
        self._held: dict[Hashable, list[pa.RecordBatch]] = {}
        self._written: dict[Hashable, list[tuple[int, int]]] = {}
        self._file: IO[bytes] | None = None
        self._end = 0
        self.held_bytes = 0

    @property
    def file_bytes(self) -> int:
        return self._end

    def add(self, key: Hashable, batch: pa.RecordBatch) -> None:
        self._held.setdefault(key, []).append(batch)
        self.held_bytes += batch.nbytes
        if self.held_bytes > self._limit:
            self._write()

    def batches(self, key: Hashable) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a key. They stay."""
        yield from map(self._read, self._written.get(key, ()))
        yield from self._held.get(key, ())

    def pop(self, key: Hashable) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a key, and forget them."""
        yield from map(self._read, self._written.pop(key, ()))
        for batch in self._held.pop(key, ()):
            self.held_bytes -= batch.nbytes
            yield batch

    def _read(self, written: tuple[int, int]) -> pa.RecordBatch:
        assert self._file is not None  # noqa: S101 - something was written to it
        start, size = written
        return pa.ipc.read_record_batch(
            pa.py_buffer(os.pread(self._file.fileno(), size, start)), self._schema
        )

    def close(self) -> None:
        self._held.clear()
        self._written.clear()
        if self._file is not None:
            self._file.close()

    def _write(self) -> None:
        if self._file is None:
            folder = self._folder if self._folder is not None and self._folder.is_dir() else None
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by `close`
            weakref.finalize(self, self._file.close)
        for key, batches in self._held.items():
            for batch in _joined(batches):
                data: Any = batch.serialize()
                self._file.write(data)
                self._written.setdefault(key, []).append((self._end, data.size))
                self._end += data.size
        self._file.flush()
        self._held.clear()
        self.held_bytes = 0


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return one batch of many small ones; its buffers hold nothing else."""
    found: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return found
