"""What a user's own store sees of its task."""

from __future__ import annotations

from tidegate.state.manager import StateManager


class TaskContext:
    """Of one store: a folder, a partition, and the way to change a row."""

    def __init__(self, manager: StateManager, store: str) -> None:
        self._manager = manager
        self._store = store
        self.partition = manager.owner.task.partition
        self.suffix = next(one.layout.suffix for one in manager.builders() if one.name == store)
        self.folder = manager.folder / f"store-{store}"
        self.folder.mkdir(exist_ok=True)

    def log_change(self, key: bytes, value: bytes | None) -> None:
        self._manager.log_change(self._store, key, value)
