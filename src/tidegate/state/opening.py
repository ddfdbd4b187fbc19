"""Open a task's folder: restore step 1, and the part of step 2 that concerns the whole environment."""

from __future__ import annotations

from pathlib import Path

from tidegate.errors import StateError
from tidegate.state.crash_count import damage_after_crashes
from tidegate.state.environment import (
    DAMAGED,
    Environment,
    Metadata,
    copy_environment,
)
from tidegate.state.environment import FORMAT as METADATA_FORMAT
from tidegate.state.folders import TaskFolder, empty
from tidegate.state.manager import StateManager
from tidegate.state.open_here import is_open_here
from tidegate.state.protocol import RestoreListener


def copy_from_holder(folder: TaskFolder) -> None:
    """Copy what the live holder of the older folder committed. If that is damaged, cannot be copied, or is
    held by this process (which must not open an environment twice), the stores are restored from the log."""
    if folder.held is None or is_open_here(folder.held) or any(folder.path.iterdir()):
        return
    if (folder.held / DAMAGED).exists():
        return
    if not copy_environment(folder.held, folder.path):
        empty(folder)


def attach(
    manager: StateManager, folder: TaskFolder, listener: RestoreListener
) -> tuple[Metadata | None, bool]:
    """Open the environment for the manager; empty the folder first if it is damaged or not this task's.
    Returns the folder's metadata, and whether it was emptied."""
    environment, metadata, reason = _opened(manager, folder.path)
    emptied = environment is None
    if environment is None:
        for builder in manager.builders():
            if builder.changelog and not builder.in_memory:
                listener.on_discard(builder.name, manager.owner.task.partition, reason)
        empty(folder)
        environment = _environment(manager, folder.path)
    manager.attach(folder, environment)
    return metadata, emptied


def _opened(manager: StateManager, path: Path) -> tuple[Environment | None, Metadata | None, str]:
    """Open the environment and return it with its metadata; or None, and why it cannot be used."""
    reason = damage_after_crashes(path)
    if reason is not None:
        return None, None, reason
    environment: Environment | None = None
    try:
        environment = _environment(manager, path)
        metadata = environment.metadata()
    except StateError as error:
        if environment is not None:
            environment.close()
        if error.code not in ("corrupt-state", "bad-metadata"):
            raise
        return None, None, error.message
    reason = _reason_foreign(manager, metadata)
    if reason is not None:
        environment.close()
        return None, None, reason
    return environment, metadata, ""


def _environment(manager: StateManager, path: Path) -> Environment:
    limits = manager.limits
    databases = [name for builder in manager.builders() for name in builder.databases]
    return Environment(path, databases, sync=limits.sync, max_map_bytes=limits.max_map_bytes)


def _reason_foreign(manager: StateManager, metadata: Metadata | None) -> str | None:
    owner = manager.owner
    if metadata is None:
        return None
    if metadata.format != METADATA_FORMAT:
        return f"it has format {metadata.format}"
    if metadata.app != owner.app or metadata.task != owner.task:
        return f"it belongs to {metadata.app} {metadata.task}"
    if metadata.log != owner.log:
        return "it was built from another log"
    return None
