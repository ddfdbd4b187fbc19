"""The context that a user's own store gets from its task."""

from __future__ import annotations

from tidegate.state.manager import StateManager


class TaskContext:
    """The context of one store: its folder, its partition, and a way to change rows."""

    def __init__(self, manager: StateManager, store: str) -> None:
        self._manager = manager
        self._store = store
        self.partition = manager.owner.task.partition
        self.suffix = next(one.layout.suffix for one in manager.builders() if one.name == store)
        self.folder = manager.folder / f"store-{store}"
        self.folder.mkdir(exist_ok=True)

    def log_change(self, key: bytes, value: bytes | None) -> None:
        self._manager.log_change(self._store, key, value)
