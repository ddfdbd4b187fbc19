"""One store of one task on a real log and a real disk, for tests that compare it with a dictionary."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, Generic, TypeVar

from tidegate.clock import ManualClock
from tidegate.log.positions import Position, TaskId, positions_topic, read_positions
from tidegate.log.reads import fold
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.slot.commit import commit
from tidegate.state.builder import StoreBuilder
from tidegate.state.changelog import changelog_spec
from tidegate.state.manager import Limits, Owner, StateManager
from tidegate.state.restore import Restore
from tidegate.types import TopicPartition

S = TypeVar("S")

APP, TOPIC = "app", "app-store-changelog"
TASK = TaskId("component", 1, 0, 0)


class StoreBench(Generic[S]):
    """Put, commit, persist, crash and look, again and again."""

    id = TASK

    def __init__(self, builder: StoreBuilder[S]) -> None:
        self.clock = ManualClock()
        self.log = SqliteLog(clock=self.clock)
        self.builder = builder
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))  # noqa: S108
        self.log.create(positions_topic(APP))
        if builder.changelog:
            self.log.create(changelog_spec(TOPIC, 1, builder.config, 16 << 20))
        self._first = Position(
            sources={"in": {0: 0}}, changelogs={builder.name: 0} if builder.changelog else {}
        )
        self._processed = 0
        self.open()

    def open(self) -> None:
        owner = Owner(APP, TASK, self.log.id)
        self.state = StateManager(owner, self.folder / "home", self.clock, Limits(sync=False))
        self.state.register(self.builder, TOPIC if self.builder.changelog else None)
        self.writer = self.log.writer("writer")
        restore = Restore(self.state, self.log, self.at)
        restore.open()
        restore.run()

    @property
    def at(self) -> Position:
        """What the log has, as a task reads it when it opens."""
        return read_positions(self.log, APP).get(TASK, self._first)

    @property
    def store(self) -> S:
        return self.state.store(self.builder)

    def commit(self) -> None:
        self._processed += 1
        commit(APP, self.log, self.writer, [self], self.clock)

    def persist(self) -> None:
        self.commit()
        self.state.persist_now()

    def crash(self) -> None:
        """Everything that is not on disk is gone; then the normal way back."""
        self.state.drop()
        self.open()

    def changelog(self) -> dict[bytes, tuple[bytes, int]]:
        return fold(self.log, TopicPartition(TOPIC, 0))

    def close(self) -> None:
        self.state.drop()
        self.log.close()
        shutil.rmtree(self.folder)

    def __enter__(self) -> StoreBench[S]:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # --- what a commit asks of a task

    def send_time(self) -> None:
        """It has no internal topics."""

    def moved(self) -> bool:
        return True

    def outputs(self) -> list[Any]:
        return []

    def position(self, changelogs: dict[str, int]) -> Position:
        return Position(sources={"in": {0: self._processed}}, changelogs=changelogs)

    def committed(self, position: Position) -> None:
        """Nothing to forget: this task has no outputs."""
