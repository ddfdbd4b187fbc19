"""`tidegate state check`: compare the state on this host with the log, and repair it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli.options import AsJson, LogUrl, opened
from tidegate.cli.output import print_json, print_line
from tidegate.clock import SystemClock
from tidegate.config.config import load_config
from tidegate.errors import StateError
from tidegate.log.protocol import Log
from tidegate.state.environment import REPAIR_HINT
from tidegate.state.inspect import Checked
from tidegate.state.repair import Damaged, Repaired, RepairOutcome, repair
from tidegate.state.survey import Problem, TaskReport, survey, to_repair
from tidegate.text.render import as_json, shown

App = Annotated[str | None, typer.Option("--app", metavar="ID", help="Only this app's.")]
Folder = Annotated[
    Path | None,
    typer.Option("--state-dir", help="In place of `state_dir` of tidegate.toml.", show_default=False),
]
DIFFERENCES_SHOWN = 10
REBUILD_SECONDS = 30.0
"""How long a running task may take to rebuild its stores."""
COLOURS = {
    RepairOutcome.REBUILT: "green",
    RepairOutcome.DISCARDED: "green",
    RepairOutcome.REQUESTED: "yellow",
    RepairOutcome.FAILED: "red",
}


def check_stores(
    store: Annotated[str | None, typer.Argument(metavar="[STORE]", help="Only this store.")] = None,
    of_app: App = None,
    state_dir: Folder = None,
    log: LogUrl = None,
    repairing: Annotated[
        bool, typer.Option("--repair", help="Discard damaged state and rebuild it from the log.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Read all state, and compare stores with the fold of their changelogs. Exit code 1 if anything is
    damaged or differs; with --repair, only if something still is."""
    with opened(log) as (opened_log, _):
        config = load_config()
        reports = survey(opened_log, state_dir or config.folder / config.state_dir, of_app, store)
        if store is not None:
            _check_known(reports, store)
        repaired = _repair(opened_log, reports) if repairing else []
    if json:
        print_json(_as_json(reports, repaired))
    else:
        _print_reports(reports, repaired)
    left = [
        result for _, result in repaired if result.outcome in (RepairOutcome.REQUESTED, RepairOutcome.FAILED)
    ]
    remote = [one for report in reports for one in report.problems if not one.on_disk]
    if left or remote or not (repairing or all(report.sound for report in reports)):
        raise typer.Exit(1)


def _repair(log: Log, reports: list[TaskReport]) -> list[tuple[Damaged, Repaired]]:
    return [(damaged, repair(log, SystemClock(), damaged, REBUILD_SECONDS)) for damaged in to_repair(reports)]


def _check_known(reports: list[TaskReport], store: str) -> None:
    """Raise if the store is unknown; a folder that cannot be read may have it."""
    known = sorted({name for report in reports for name in report.stores})
    if store not in known and not any(report.problems for report in reports):
        raise StateError(
            "no-such-store",
            f"no task on this host has a store {store!r}",
            f"stores here are: {', '.join(known) or 'none'}",
        )


def _as_json(reports: list[TaskReport], repaired: list[tuple[Damaged, Repaired]]) -> dict[str, Any]:
    return {
        "checked": [_checked(one) for report in reports for one in report.checked],
        "damaged": [
            {"app": report.app, "task": report.task, "store": one.store, "what": one.what}
            for report in reports
            for one in report.problems
        ],
        "skipped": [
            {"app": report.app, "task": report.task, "why": report.skipped}
            for report in reports
            if report.skipped
        ],
        "repaired": [
            {"app": task.app, "task": str(task.task), "outcome": one.outcome.value, "message": one.message}
            for task, one in repaired
        ],
    }


def _print_reports(reports: list[TaskReport], repaired: list[tuple[Damaged, Repaired]]) -> None:
    for report in reports:
        for result in report.checked:
            _print_checked(result)
        for problem in report.problems:
            _print_problem(report, problem)
        if report.skipped:
            print_line(f"{report.task}  of app {report.app}  ", (f"skipped: {report.skipped}", "dim"))
    for task, one in repaired:
        print_line(f"{task.task}  ", (one.outcome.value, COLOURS[one.outcome]), f"  {one.message}")
    if not reports:
        print_line("no state on this host yet")
    elif not repaired and any(report.broken for report in reports):
        print_line(("Do: " + REPAIR_HINT, "bold"))


def _print_problem(report: TaskReport, problem: Problem) -> None:
    if problem.store is None:
        print_line(f"{report.task}  of app {report.app}  ", (f"not recognised: {problem.what}", "red"))
    else:
        kind = "damaged" if problem.on_disk else "not compared"
        print_line(f"{report.task}  {problem.store}  ", (f"{kind}: {problem.what}", "red"))


def _checked(result: Checked) -> dict[str, Any]:
    return {
        "task": result.task,
        "store": result.store,
        "rows": result.rows,
        "offset": result.offset,
        "end": result.end,
        "equal": not result.differences,
        "differences": [
            {"key": as_json(one.key), "store": as_json(one.store), "changelog": as_json(one.changelog)}
            for one in result.differences[:DIFFERENCES_SHOWN]
        ],
        "differing_keys": len(result.differences),
    }


def _print_checked(result: Checked) -> None:
    where = f"{result.task}  {result.store}  {result.rows:,} rows, changelog read to {result.end:,}"
    if not result.differences:
        print_line((where, ""), "  ", ("equal", "green"))
        return
    print_line((where, ""), "  ", (f"{len(result.differences):,} keys differ", "red"))
    for one in result.differences[:DIFFERENCES_SHOWN]:
        store = "nothing" if one.store is None else shown(one.store)
        changelog = "nothing" if one.changelog is None else shown(one.changelog)
        print_line(f"  {shown(one.key)}: store has {store}, changelog has {changelog}")
