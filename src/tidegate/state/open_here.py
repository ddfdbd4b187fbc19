"""Which folders of tasks this process has open: LMDB must not open a folder twice in one process.

A task holds its folder for as long as it runs. Others read a folder for a moment, such as a slot that lands
and lists what its host has; slots may be threads of one process. Whoever needs a folder that is being read
waits for the reader.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from tidegate.errors import StateError

READ_SECONDS = 30.0
"""How long a reader is waited for."""

_changed = threading.Condition()
_held: dict[Path, object] = {}
"""Who holds a folder. Environments stay here until they are closed: see `Environment.abort`."""
_read: set[Path] = set()
_awaited: set[Path] = set()
"""Folders that a task is about to hold: new readers let it pass."""


def is_open_here(folder: Path) -> bool:
    """Whether a task of this process holds the folder: then it must not be opened again, not even to copy
    it."""
    return folder in _held


def open_here() -> list[Path]:
    """Return the folders that tasks of this process hold."""
    return list(_held)


def hold(folder: Path, holder: object) -> None:
    """Register the holder of a folder before it is opened; raise StateError `opened-twice` if there is
    one."""
    with _changed:
        _awaited.add(folder)
        try:
            _await(lambda: folder not in _read, folder)
        finally:
            _awaited.discard(folder)
            _changed.notify_all()
        if folder in _held:
            raise _opened_twice(f"the folder {folder} is already open in this process")
        _held[folder] = holder


def release(folder: Path) -> None:
    """Forget the holder of a folder that is closed."""
    with _changed:
        del _held[folder]
        _changed.notify_all()


def begin_reading(folder: Path) -> None:
    """Register a reader before it opens the folder; raise StateError `opened-twice` if a task holds it."""
    with _changed:
        _await(lambda: folder not in _read and folder not in _awaited, folder)
        if folder in _held:
            raise StateError("opened-twice", "this process runs the task itself", "use the task's stores")
        _read.add(folder)


def end_reading(folder: Path) -> None:
    """Forget the reader of a folder that is closed."""
    with _changed:
        _read.discard(folder)
        _changed.notify_all()


def _await(is_free: Callable[[], bool], folder: Path) -> None:
    if not _changed.wait_for(is_free, READ_SECONDS):
        raise _opened_twice(f"this process has been reading the folder {folder} for {READ_SECONDS:g} s")


def _opened_twice(what: str) -> StateError:
    return StateError("opened-twice", what, "close it first")
