"""The embedded log, in a file and in memory, passes the suite of all logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing.conformance import LogConformance


class FileBench:
    """Each handle is a log of its own on one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: list[SqliteLog] = []

    def open(self) -> SqliteLog:
        self._open.append(SqliteLog(self._path, upkeep=False))
        return self._open[-1]

    def compact(self, topic: str) -> None:
        self.open().compact(topic)

    def close(self) -> None:
        for log in self._open:
            log.close()


class MemoryBench:
    """All handles are one: memory is not shared beyond a log."""

    def __init__(self) -> None:
        self._log = SqliteLog()

    def open(self) -> SqliteLog:
        return self._log

    def compact(self, topic: str) -> None:
        self._log.compact(topic)

    def close(self) -> None:
        self._log.close()


class TestFileLog(LogConformance):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> Iterator[FileBench]:
        bench = FileBench(tmp_path / "log.db")
        yield bench
        bench.close()


class TestMemoryLog(LogConformance):
    @pytest.fixture
    def bench(self) -> Iterator[MemoryBench]:
        bench = MemoryBench()
        yield bench
        bench.close()
