"""What processes of a test stand on: a folder for state, and a log that all of them open."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from tests.state.bench import Bench

from tidegate.clock import ManualClock
from tidegate.log.sqlite import reader
from tidegate.log.sqlite.log import SqliteLog

PAGE = 3


@dataclass(frozen=True)
class Ground:
    """With the log in a file. It travels to other processes as it is."""

    folder: Path

    def bench(self, partitions: int = 1) -> Bench:
        """The bench of this process on the log that all of them share."""
        clock = ManualClock()
        log = SqliteLog(self.folder / "log.db", clock=clock, upkeep=False)
        return Bench(self.folder / "state", log, clock, partitions=partitions)

    def part(self, name: str) -> Ground:
        """Another ground, with nothing of this one."""
        return replace(self, folder=self.folder / name)

    def small_pages(self) -> AbstractContextManager[Any]:
        """A poll of this process brings three commits, so that a small changelog is a huge one."""
        return mock.patch.object(reader, "PAGE_SPANS", PAGE)


@dataclass(frozen=True)
class InMemory(Ground):
    """For one process."""

    def bench(self, partitions: int = 1) -> Bench:
        return Bench(self.folder / "state", partitions=partitions)
