"""Compare all state of a host with the log: report every damaged, unreadable or differing store."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tidegate.errors import TidegateError
from tidegate.log.positions import TaskId
from tidegate.log.protocol import Log
from tidegate.state.environment import StoreFacts
from tidegate.state.inspect import Checked, Found, check, homes_below, newest_folder, stores_on_disk
from tidegate.state.repair import Damaged
from tidegate.state.task_folders import task_of
from tidegate.state.verify import Verified, verify_all


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a store, or with `store` None with the whole folder, which cannot be read then."""

    store: str | None
    what: str
    on_disk: bool = True
    """Whether a rebuild from the log helps."""


@dataclass(slots=True)
class TaskReport:
    """The findings for the newest folder of one task."""

    app: str
    task: str
    id: TaskId | None
    folder: Path
    stores: dict[str, StoreFacts] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    checked: list[Checked] = field(default_factory=list)
    skipped: str = ""
    """Why it was not compared with this log."""

    @property
    def broken(self) -> bool:
        """Whether a rebuild from the log would help."""
        return any(one.on_disk for one in self.problems) or any(one.differences for one in self.checked)

    @property
    def sound(self) -> bool:
        return not (self.problems or self.broken)


def survey(log: Log, state_dir: Path, app: str | None = None, store: str | None = None) -> list[TaskReport]:
    """Read everything below the state folder, then compare what can be read with the log."""
    folders = [newest_folder(home) for home in homes_below(state_dir, app)]
    return [
        _report(log, folder, found, store) for folder, found in zip(folders, verify_all(folders), strict=True)
    ]


def to_repair(reports: list[TaskReport]) -> list[Damaged]:
    """Return the folders of broken tasks, with their stores' descriptions: if its own cannot be read, those
    of other partitions of the same subtopology."""
    known = {
        (one.app, one.id.component, one.id.generation, one.id.subtopology): one.stores
        for one in reports
        if one.id is not None and one.stores
    }
    return [
        Damaged(
            one.app,
            one.id,
            one.folder,
            one.stores or known.get((one.app, one.id.component, one.id.generation, one.id.subtopology)),
        )
        for one in reports
        if one.broken and one.id is not None
    ]


def _report(log: Log, folder: Path, found: Verified, store: str | None) -> TaskReport:
    home = folder.parent
    name = f"{home.parent.name}/{home.name}"
    report = TaskReport(home.parent.parent.name, name, task_of(home), folder)
    if report.id is None:
        report.skipped = "it is not named like a task's folder"
        return report
    if found.problem:
        report.problems.append(Problem(None, found.problem))
    if found.metadata is None:
        report.skipped = "" if found.problem else "nothing is committed there yet"
        return report
    report.stores = found.metadata.stores
    if found.metadata.log != log.id:
        report.skipped = "it was built from another log"
        report.problems.clear()
        return report
    report.problems += [Problem(name, what) for name, what in found.damaged.items() if store in (None, name)]
    if not found.problem:
        _compare(log, Found(folder, found.metadata, 0), report, set(found.damaged), store)
    return report


def _compare(log: Log, found: Found, report: TaskReport, damaged: set[str], store: str | None) -> None:
    for name in stores_on_disk(found):
        if name in damaged or store not in (None, name):
            continue
        try:
            report.checked.append(check(log, found, name))
        except TidegateError as error:
            report.problems.append(Problem(name, str(error), on_disk=False))
