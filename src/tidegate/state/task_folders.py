"""List the folders of an app's tasks on this host without taking any lock.

A lock is never taken just to list: a task that starts at the same time would find its folder held and work in
the next one. A folder with any unknown file in it is skipped. Symlinks are not followed.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import lmdb

from tidegate.errors import StateError
from tidegate.log.positions import TaskId
from tidegate.state.checkpoint import CHECKPOINT
from tidegate.state.crash_count import STARTS
from tidegate.state.environment import DAMAGED, Metadata
from tidegate.state.inspect import opened

_KNOWN_FILES = {"data.mdb", "lock.mdb", CHECKPOINT, f"{CHECKPOINT}.tmp", DAMAGED, STARTS}
_HOME = re.compile(r"(.+)\.g([0-9]+)/([0-9]+)_([0-9]+)")
_NUMBER = re.compile(r"0|[1-9][0-9]*")


@dataclass(frozen=True, slots=True)
class FolderState:
    """A numbered folder of a task. `metadata` is None if nothing is committed there, or it is unreadable."""

    path: Path
    task: TaskId
    newest: bool
    """Whether a task would take this one."""
    metadata: Metadata | None
    last: int
    """Wall time at which its rows were last known to be complete; else that of its last write."""
    bytes: int


def folders_in(path: Path) -> list[Path]:
    """Return the folders in a folder, without symlinks, which may lead anywhere."""
    return sorted(below for below in path.iterdir() if below.is_dir() and not below.is_symlink())


def task_of(home: Path) -> TaskId | None:
    """Return the task whose home this is, by its name; None if it is not a home."""
    match = _HOME.fullmatch(f"{home.parent.name}/{home.name}")
    if match is None:
        return None
    task = TaskId(match[1], int(match[2]), int(match[3]), int(match[4]))
    return task if str(task) == match[0] else None


def folders_of_task(home: Path, task: TaskId) -> list[FolderState]:
    """Return the folders of a task, by number. Raises OSError."""
    numbered = sorted((int(path.name), path) for path in folders_in(home) if _NUMBER.fullmatch(path.name))
    return [
        _folder_state(path, task, newest=path == numbered[-1][1])
        for _, path in numbered
        if _has_only_known_files(path)
    ]


def _has_only_known_files(path: Path) -> bool:
    """Whether the folder holds only files of tidegate, and its lock is a regular file."""
    if path.with_name(f"{path.name}.lock").is_symlink():
        return False
    return all(
        not entry.is_symlink() and (entry.name in _KNOWN_FILES or entry.name.startswith("store-"))
        for entry in path.iterdir()
    )


def _folder_state(path: Path, task: TaskId, *, newest: bool) -> FolderState:
    metadata: Metadata | None = None
    with suppress(StateError, lmdb.Error), opened(path) as environment:
        metadata = environment.metadata()
    data = path / "data.mdb"
    written = data.stat().st_mtime_ns // 1_000_000 if data.exists() else 0
    last = max(metadata.current_at.values(), default=written) if metadata else written
    return FolderState(path, task, newest, metadata, last, _size(path))


def _size(path: Path) -> int:
    size = 0
    for folder, _, files in os.walk(path):
        for name in files:
            with suppress(FileNotFoundError):
                size += (Path(folder) / name).lstat().st_size
    return size
