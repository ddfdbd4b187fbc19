"""Folders that tasks left on a host, and a clean-up of them."""

from __future__ import annotations

from pathlib import Path

from tidegate.log.positions import TaskId
from tidegate.state.cleanup import Cleanup, NeededState, Room
from tidegate.state.environment import Environment, Metadata
from tidegate.state.folders import claim, task_home

APP, LOG, NOW = "shop", "this-log", 1_700_000_000_000
HOUR = 3_600_000
FIRST, SECOND, THIRD = (TaskId("totals", 2, 0, partition) for partition in range(3))
NEEDS = NeededState(APP, LOG, 2, frozenset({FIRST, SECOND, THIRD}))
AGES = Room(NOW, idle_ms=HOUR)
TIGHT = Room(NOW + 2 * HOUR, HOUR, budget_bytes=1)
"""Everything is too old and too large."""


def write(path: Path, task: TaskId, *, app: str = APP, log: str = LOG, last: int = NOW) -> None:
    """Commit something to a folder that is ours."""
    environment = Environment(path, ["rows"], sync=False)
    environment.txn.put(b"ada", b"1", db=environment.database("rows"))
    environment.commit(Metadata(app=app, task=task, log=log, current_at={"rows": last}))
    environment.close()


def make(
    state_dir: Path,
    task: TaskId,
    *,
    at: TaskId | None = None,
    app: str = APP,
    log: str = LOG,
    last: int = NOW,
) -> Path:
    """A folder that a task left, in the home of the task `at`."""
    folder = claim(task_home(state_dir, APP, at or task))
    write(folder.path, task, app=app, log=log, last=last)
    folder.release()
    return folder.path


def clean(state_dir: Path, room: Room | None = None, needs: NeededState = NEEDS) -> Cleanup:
    cleanup = Cleanup(state_dir, needs)
    cleanup.run(room)
    return cleanup


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def tree(path: Path) -> list[str]:
    return sorted(str(below.relative_to(path)) for below in path.rglob("*"))
