"""Keep a host's state folder small: remove folders that no task will use again, and those above the budget.

A folder is never the only copy of anything, so removing one costs a restore at most. But a folder in use must
stay: a folder is removed only while this process holds its lock, which is taken without waiting, and only if
it has not changed since that was decided. One process of a host cleans up at a time: two would remove too
much."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import StateError
from tidegate.log.positions import TaskId
from tidegate.state.folders import remove, take_unheld
from tidegate.state.task_folders import FolderState, folders_in, folders_of_task, task_of


@dataclass(frozen=True, slots=True)
class NeededState:
    """The tasks whose state an app needs. Folders of a later generation are left alone: an upgrade may be
    under way."""

    app: str
    log: str
    generation: int
    tasks: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class Room:
    """How long, and how much, is kept for tasks that run on other hosts and may come back."""

    now: int
    idle_ms: int
    budget_bytes: int | None = None


def reason_to_remove(folder_state: FolderState, needs: NeededState) -> str | None:
    """Return why no task can ever use a folder again, or None if one may come back to it."""
    found = folder_state.metadata
    if folder_state.task not in needs.tasks:
        older = folder_state.task.generation < needs.generation
        return "it belongs to an older generation" if older else "the app has no such task any more"
    if not folder_state.newest:
        return "a newer folder replaces it"
    if found is not None and (found.app, found.task) != (needs.app, folder_state.task):
        return f"it belongs to {found.app} {found.task}"
    if found is not None and found.log != needs.log:
        return "it was built from another log"
    return None


class Cleanup:
    """One clean-up of an app's folders on this host. Errors of the disk are collected in `problems`."""

    def __init__(self, state_dir: Path, needs: NeededState) -> None:
        self._top = state_dir / needs.app
        self._needs = needs
        self.removed: dict[Path, str] = {}
        """The removed folders, with the reasons."""
        self.problems: list[StateError] = []

    def run(self, room: Room | None = None) -> None:
        """Remove foreign and outdated folders; with `room` also those idle for too long or above the budget.

        Pass `room` only once the tasks hold their folders: before that every folder looks unused.
        """
        try:
            if self._top.is_symlink() or not self._top.is_dir():
                return
            lock = take_unheld(self._top / "cleanup")
        except OSError as error:
            self._failed(self._top, error)
            return
        if lock is None:
            return
        try:
            kept = [
                folder_state
                for folder_state in self._all()
                if not self._remove_if_unneeded(folder_state, room)
            ]
            if room is not None and room.budget_bytes is not None:
                self._make_room(kept, room.budget_bytes)
        finally:
            lock.release()

    def _remove_if_unneeded(self, folder_state: FolderState, room: Room | None) -> bool:
        reason = reason_to_remove(folder_state, self._needs)
        if reason is None and room is not None and room.now - folder_state.last > room.idle_ms:
            reason = "it was idle for longer than tombstones are guaranteed to be kept"
        return reason is not None and self._remove(folder_state, reason)

    def _make_room(self, kept: list[FolderState], budget: int) -> None:
        """Remove the least recently used folders until the rest fits the budget; those in use always stay."""
        left = sum(folder_state.bytes for folder_state in kept)
        for folder_state in sorted(kept, key=lambda folder_state: folder_state.last):
            if left > budget and self._remove(folder_state, "there was more state than the budget allows"):
                left -= folder_state.bytes
        if left > budget:
            message = f"the state in use on this host is larger than its budget of {budget:,} bytes"
            self.problems.append(
                StateError("over-budget", message, "raise state_budget_bytes, or use more hosts")
            )

    def _remove(self, folder_state: FolderState, reason: str) -> bool:
        """Remove the folder unless it is held or was used since it was listed. Return whether it was
        removed."""
        try:
            folder = take_unheld(folder_state.path)
            if folder is None:
                return False
            try:
                if folder_state not in folders_of_task(folder_state.path.parent, folder_state.task):
                    return False
                remove(folder)
            finally:
                folder.release()
        except OSError as error:
            self._failed(folder_state.path, error)
            return False
        self.removed[folder_state.path] = reason
        self._remove_shell(folder_state)
        return True

    def _remove_shell(self, folder_state: FolderState) -> None:
        """Remove the home of a task that no longer exists, and of a past generation, once they are empty."""
        with suppress(OSError):
            if folder_state.task not in self._needs.tasks:
                folder_state.path.parent.rmdir()
                if folder_state.task.generation < self._needs.generation:
                    folder_state.path.parent.parent.rmdir()

    def _all(self) -> list[FolderState]:
        """Return all folders of tasks up to the current generation."""
        found = []
        for home in [home for component in self._below(self._top) for home in self._below(component)]:
            task = task_of(home)
            if task is not None and task.generation <= self._needs.generation:
                try:
                    found += folders_of_task(home, task)
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
        """Collect an error; a file that vanished in the meantime is none."""
        if not isinstance(error, FileNotFoundError):
            message = f"{path} cannot be cleaned up ({error.strerror})"
            hint = "check its owner and mode, and the disk"
            self.problems.append(StateError("not-cleaned-up", message, hint))
