"""Keeping a host's state folder small: what no task comes back to goes, and what is over the budget.

Nothing here is the only copy of anything, so a folder that went costs a restore at most. But one in use must
stay: a folder is removed only while its lock is ours, which is taken without waiting, and only if it still
looks as it did when that was decided. One process of a host cleans up at a time: two would both make room.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import StateError
from tidegate.log.positions import TaskId
from tidegate.state.folders import remove, take_unheld
from tidegate.state.task_folders import FolderState, folders_in, look_at, task_of


@dataclass(frozen=True, slots=True)
class Needs:
    """What the app has now. Folders of a later generation are not judged: an upgrade may be on its way."""

    app: str
    log: str
    generation: int
    tasks: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class Room:
    """How long, and how much, is kept for tasks that run elsewhere and may come back."""

    now: int
    sleep_ms: int
    budget_bytes: int | None = None


def reason_to_remove(seen: FolderState, needs: Needs) -> str | None:
    """Why no task could ever use a folder again, or None if one may come back to it."""
    found = seen.metadata
    if seen.task.generation < needs.generation:
        return "it belongs to an older generation"
    if seen.task not in needs.tasks:
        return "the app has no such task any more"
    if not seen.newest:
        return "a newer folder has its place"
    if found is not None and (found.app, found.task) != (needs.app, seen.task):
        return f"it belongs to {found.app} {found.task}"
    if found is not None and found.log != needs.log:
        return "it was built from another log"
    return None


class Cleanup:
    """One clean-up of an app's folders on this host. Raises nothing that the disk does: see `problems`."""

    def __init__(self, state_dir: Path, needs: Needs) -> None:
        self._top = state_dir / needs.app
        self._needs = needs
        self.removed: dict[Path, str] = {}
        """What went, and why."""
        self.problems: list[StateError] = []

    def run(self, room: Room | None = None) -> None:
        """Remove what is foreign or outdated; with `room` also what slept too long or is over the budget.

        `room` is for when tasks hold their folders: before that all look as if nobody wanted them.
        """
        try:
            if self._top.is_symlink() or not self._top.is_dir():
                return
            turn = take_unheld(self._top / "cleanup")
        except OSError as error:
            self._failed(self._top, error)
            return
        if turn is None:
            return
        try:
            kept = [seen for seen in self._all() if not self._goes(seen, room)]
            if room is not None and room.budget_bytes is not None:
                self._make_room(kept, room.budget_bytes)
        finally:
            turn.release()

    def _goes(self, seen: FolderState, room: Room | None) -> bool:
        reason = reason_to_remove(seen, self._needs)
        if reason is None and room is not None and room.now - seen.last > room.sleep_ms:
            reason = "it slept longer than tombstones are sure to be kept"
        return reason is not None and self._remove(seen, reason)

    def _make_room(self, kept: list[FolderState], budget: int) -> None:
        """The folder that was left alone for longest goes first. What is in use stays, whatever it takes."""
        left = sum(seen.bytes for seen in kept)
        for seen in sorted(kept, key=lambda seen: seen.last):
            if left > budget and self._remove(seen, "there was more state than the budget allows"):
                left -= seen.bytes
        if left > budget:
            told = f"the state in use on this host is larger than its budget of {budget:,} bytes"
            self.problems.append(
                StateError("over-budget", told, "raise state_budget_bytes, or use more hosts")
            )

    def _remove(self, seen: FolderState, reason: str) -> bool:
        """Whether it went: not if somebody holds it, or used it since it was seen."""
        try:
            folder = take_unheld(seen.path)
            if folder is None:
                return False
            try:
                if seen not in look_at(seen.path.parent, seen.task):
                    return False
                remove(folder)
            finally:
                folder.release()
        except OSError as error:
            self._failed(seen.path, error)
            return False
        self.removed[seen.path] = reason
        self._remove_shell(seen)
        return True

    def _remove_shell(self, seen: FolderState) -> None:
        """The home of a task that is gone, and of a generation that is over, once they are empty."""
        with suppress(OSError):
            if seen.task not in self._needs.tasks:
                seen.path.parent.rmdir()
            if seen.task.generation < self._needs.generation:
                seen.path.parent.parent.rmdir()

    def _all(self) -> list[FolderState]:
        """All folders that are ours to judge."""
        found = []
        for home in [home for component in self._below(self._top) for home in self._below(component)]:
            task = task_of(home)
            if task is not None and task.generation <= self._needs.generation:
                try:
                    found += look_at(home, task)
                except OSError as error:
                    self._failed(home, error)
        return found

    def _below(self, path: Path) -> list[Path]:
        try:
            return folders_in(path)
        except OSError as error:
            self._failed(path, error)
            return []

    def _failed(self, path: Path, error: OSError) -> None:
        """What vanished meanwhile is no failure."""
        if not isinstance(error, FileNotFoundError):
            told = f"{path} cannot be cleaned up ({error.strerror})"
            self.problems.append(StateError("not-cleaned-up", told, "check its owner and mode, and the disk"))
