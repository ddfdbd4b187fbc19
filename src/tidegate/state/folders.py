"""Choose and lock the folder of a stream task on this host.

A task's home holds numbered folders, each with a lock file next to it. Usually there is one. If its lock is
held, a zombie of the task still runs on this host, perhaps suspended: the task does not wait for it, but
takes the next number and leaves the old folder alone until its lock is free."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import nullcontext, suppress
from pathlib import Path

from tidegate.errors import StateError
from tidegate.log.positions import TaskId
from tidegate.state.checkpoint import CHECKPOINT, CheckpointFile
from tidegate.state.open_here import is_open_here

_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class TaskFolder:
    """A folder whose lock this process holds. `held` is the newest folder that another process holds."""

    def __init__(self, path: Path, handle: int, held: Path | None) -> None:
        self.path = path
        self.held = held
        self._handle: int | None = handle

    def release(self) -> None:
        """Release the lock; the folder stays. Idempotent."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def task_home(state_dir: Path, app: str, task: TaskId) -> Path:
    """Return the folder that holds a task's numbered folders."""
    return state_dir / app / f"{task.component}.g{task.generation}" / f"{task.subtopology}_{task.partition}"


def claim(home: Path) -> TaskFolder:
    """Lock the newest folder of the home, or the next number if that is held. Never waits."""
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
            "no-permission", f"no permission to use the state folder {home}", "check its owner and mode"
        ) from error
    except OSError as error:
        code = "disk-full" if error.errno == 28 else "state-io"
        raise StateError(
            code, f"the state folder cannot be used ({error})", "check the disk", retryable=True
        ) from error


def remove_older(folder: TaskFolder) -> None:
    """Delete the folders before this one that nobody holds any more."""
    for number in sorted(number for number in _numbers(folder.path.parent) if number < int(folder.path.name)):
        older = take_unheld(folder.path.with_name(str(number)))
        if older is not None:
            _delete_tree(older.path, ignore_errors=True)
            _lock_file(older.path).unlink(missing_ok=True)
            older.release()


def take_unheld(path: Path) -> TaskFolder | None:
    """Lock a folder and return it; None if this or another process holds it. Never waits."""
    handle = None if is_open_here(path) else _try_lock(path)
    return None if handle is None else TaskFolder(path, handle, None)


def remove(folder: TaskFolder) -> None:
    """Delete a locked folder, then its lock file. Raises OSError."""
    _delete_tree(folder.path)
    _lock_file(folder.path).unlink(missing_ok=True)


def empty(folder: TaskFolder) -> None:
    """Delete everything in the folder."""
    _delete_tree(folder.path, ignore_errors=True)
    folder.path.mkdir(parents=True, exist_ok=True)


def _delete_tree(path: Path, *, ignore_errors: bool = False) -> None:
    """Delete the folder, the checkpoint first: after a crash in between it would describe deleted rows."""
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
    """Return the handle of the lock, or None if it is held. Retries if the lock file was deleted
    meanwhile."""
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
