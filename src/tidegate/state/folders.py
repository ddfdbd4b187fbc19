"""Which folder a stream task works in, on this host.

A task's home holds numbered folders, each with a lock file beside it. Usually there is one. If its lock
is held, a zombie of the task still lives on this host, perhaps stopped: it is not waited for. The task
takes the next number and leaves the old folder alone until its lock is free.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

from tidegate.errors import StateError
from tidegate.log.positions import TaskId
from tidegate.state.environment import is_open_here


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
    for number in sorted(_numbers(folder.path.parent)):
        path = folder.path.with_name(str(number))
        if number >= int(folder.path.name) or is_open_here(path):
            continue
        handle = _try_lock(path)
        if handle is not None:
            shutil.rmtree(path, ignore_errors=True)
            _lock_file(path).unlink(missing_ok=True)
            os.close(handle)


def empty(folder: TaskFolder) -> None:
    """Throw away what the folder holds."""
    shutil.rmtree(folder.path, ignore_errors=True)
    folder.path.mkdir(parents=True, exist_ok=True)


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
        handle = os.open(_lock_file(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
