"""Which folder a stream task works in, on this host.

A task's home holds numbered folders, each with a lock file beside it. Usually there is one. If its lock
is held, a zombie of the task still lives on this host, perhaps stopped: it is not waited for. The task
takes the next number and leaves the old folder alone until its lock is free.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import nullcontext, suppress
from pathlib import Path

from tidegate.errors import StateError
from tidegate.log.positions import TaskId
from tidegate.state.checkpoint import CHECKPOINT, CheckpointFile
from tidegate.state.environment import is_open_here

_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class TaskFolder:
    """A folder that is ours while its lock is. `held` is the newest folder that somebody else holds."""

    def __init__(self, path: Path, handle: int, held: Path | None) -> None:
        self.path = path
        self.held = held
        self._handle: int | None = handle

    def release(self) -> None:
        """Give the lock back; the folder stays. Twice is fine."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def task_home(state_dir: Path, app: str, task: TaskId) -> Path:
    """Where the numbered folders of a task lie."""
    return state_dir / app / f"{task.component}.g{task.generation}" / f"{task.subtopology}_{task.partition}"


def claim(home: Path) -> TaskFolder:
    """Take the newest folder of the home, or the next number if that is held. Never waits."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        while True:
            number = max(_numbers(home), default=0)
            path = home / str(number)
            handle = _try_lock(path)
            if handle is not None:
                return _claimed(path, handle, None)
            handle = _try_lock(home / str(number + 1))
            if handle is not None:
                return _claimed(home / str(number + 1), handle, path)
    except PermissionError as error:
        raise StateError(
            "no-permission", "the state folder cannot be used", "check its owner and mode"
        ) from error
    except OSError as error:
        code = "disk-full" if error.errno == 28 else "state-io"
        raise StateError(
            code, f"the state folder failed ({error})", "check the disk", retryable=True
        ) from error


def remove_older(folder: TaskFolder) -> None:
    """Delete the folders before this one that nobody holds any more."""
    for number in sorted(number for number in _numbers(folder.path.parent) if number < int(folder.path.name)):
        older = take_unheld(folder.path.with_name(str(number)))
        if older is not None:
            _throw_away(older.path, ignore_errors=True)
            _lock_file(older.path).unlink(missing_ok=True)
            older.release()


def take_unheld(path: Path) -> TaskFolder | None:
    """A folder that nobody holds, in this process or another; None if somebody does. Never waits."""
    handle = None if is_open_here(path) else _try_lock(path)
    return None if handle is None else TaskFolder(path, handle, None)


def remove(folder: TaskFolder) -> None:
    """Delete a folder, while its lock is ours, and the lock file after it. Raises OSError if that fails."""
    _throw_away(folder.path)
    _lock_file(folder.path).unlink(missing_ok=True)


def empty(folder: TaskFolder) -> None:
    """Throw away what the folder holds."""
    _throw_away(folder.path, ignore_errors=True)
    folder.path.mkdir(parents=True, exist_ok=True)


def _throw_away(path: Path, *, ignore_errors: bool = False) -> None:
    """The checkpoint goes first: after a crash in between it would tell of rows that are gone."""
    if not path.is_symlink():
        with suppress(OSError) if ignore_errors else nullcontext():
            CheckpointFile(path / CHECKPOINT).delete()
    shutil.rmtree(path, ignore_errors=ignore_errors)


def _claimed(path: Path, handle: int, held: Path | None) -> TaskFolder:
    path.mkdir(exist_ok=True)
    return TaskFolder(path, handle, held)


def _numbers(home: Path) -> list[int]:
    return [int(path.name) for path in home.iterdir() if path.name.isdigit() and path.is_dir()]


def _lock_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _try_lock(path: Path) -> int | None:
    """The handle of the lock, or None if it is held. A lock file that was deleted meanwhile is no lock."""
    while True:
        handle = os.open(_lock_file(path), _LOCK_FLAGS, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        try:
            if os.fstat(handle).st_ino == _lock_file(path).stat().st_ino:
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)
