"""Renders the reports on apps for people: one app with its slots, or a line for each app."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tidegate.server.app_report import AppReport, DeadLetters, FailureReport
from tidegate.text.render import printable

STYLES = {
    "running": "green",
    "restoring": "yellow",
    "starting": "yellow",
    "partial": "yellow",
    "restarting": "yellow",
    "failed": "red",
    "silent": "red",
}
REMARKS = {
    "never-started": "no driver has taken it over yet: tidegate run",
    "restarting": "jobs of slots failed and are restarted",
    "partial": "some slots do not report: see the state of each",
    "silent": "it was not stopped, and no slot reports: its processes were killed, or are cut off from the "
    "log. To continue from the committed positions: tidegate run",
    "failed": "its driver gave up. Fix the cause; to continue from the committed positions: tidegate run",
}
SLOT_HEADING = ("slot", "state", "host", "tasks", "records/s", "lag", "restarts")
APP_HEADING = ("app", "state", "since", "slots", "tasks", "lag", "restarts", "dead letters", "last failure")
BAR_WIDTH = 40


def as_group(reports: list[AppReport], now: int, *, one: bool) -> Group:
    """Render reports; with `one`, the only one of them with its slots."""
    if not one:
        return Group(_table(APP_HEADING, (_app_cells(report, now) for report in reports), reports))
    [report] = reports
    parts: list[Any] = [_facts(report, now)]
    if report.to_restore > report.restored:
        parts.append(ProgressBar(total=report.to_restore, completed=report.restored, width=BAR_WIDTH))
    if report.slots:
        parts += [Text(""), _table(SLOT_HEADING, map(_slot_cells, report.slots), [])]
    return Group(*parts)


def _facts(report: AppReport, now: int) -> Table:
    facts = Table.grid(padding=(0, 3, 0, 0))
    state = Text(report.state, STYLES.get(report.state, ""))
    if report.since is not None:
        state.append(f" since {_time(report.since)} ({_ago(report.since, now)})", "default")
    facts.add_row(Text(report.app, "bold cyan"), state)
    if report.state in REMARKS:
        facts.add_row("", Text(REMARKS[report.state], "dim"))
    for name, value in _numbers(report, now):
        facts.add_row(Text(name, "dim"), Text(value))
    return facts


def _numbers(report: AppReport, now: int) -> Iterable[tuple[str, str]]:
    if report.slots:
        yield "slots", f"{report.at_work} of {len(report.slots)} at work"
        yield (
            "tasks",
            f"{report.tasks_running} of {report.tasks} running"
            + (f", {report.tasks_restoring} restoring" if report.tasks_restoring else ""),
        )
    if report.to_restore > report.restored:
        yield "restores", f"{report.restored:,} of {report.to_restore:,} changelog records"
    if report.recalculating is not None:
        from tidegate.upgrade.progress import progress_text  # most calls do without what it imports

        yield "recalculated", progress_text(report.recalculating)
    for question in report.waits_for:
        yield "waiting for consent", printable(f"{question.text}  Do: {question.consent}")
    yield "lag", _lag(report.lag)
    if report.slots:
        yield "records/s", f"{report.records_per_second:,.0f}"
    yield "restarts", f"{report.restarts:,}"
    yield "dead letters", _dead_letters(report.dead_letters)
    yield "last failure", "none" if report.last_failure is None else _failure(report.last_failure, now)
    for warned in report.warnings[-3:]:
        yield "warning", printable(f"[{warned.code}] {warned.message}  Do: {warned.hint}")


def _slot_cells(slot: Any) -> tuple[str, ...]:
    busy = slot.running + slot.restoring
    return (
        str(slot.slot),
        slot.state,
        printable(slot.host),
        f"{slot.running}/{busy or slot.tasks}",
        f"{slot.records_per_second:,.0f}",
        f"{slot.lag:,}",
        str(slot.restarts),
    )


def _app_cells(report: AppReport, now: int) -> tuple[str, ...]:
    return (
        report.app,
        report.state,
        "" if report.since is None else _ago(report.since, now),
        f"{report.at_work}/{len(report.slots)}",
        f"{report.tasks_running}/{report.tasks}",
        "?" if report.lag is None else f"{report.lag:,}",
        f"{report.restarts:,}",
        _count(report.dead_letters),
        "" if report.last_failure is None else report.last_failure.code,
    )


def _table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]], reports: list[AppReport]) -> Table:
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_row(*(Text(cell, "dim") for cell in heading))
    for cells in rows:
        state = cells[1]
        table.add_row(*(Text(cell, STYLES.get(state, "") if cell == state else "") for cell in cells))
    if heading == APP_HEADING and not reports:
        table.add_row(Text("no app ran on this log yet", "dim"))
    return table


def _failure(failure: FailureReport, now: int) -> str:
    where = (
        "the driver gave up" if failure.slot is None else f"slot {failure.slot}, attempt {failure.attempt}"
    )
    when = "" if failure.at is None else f"{_ago(failure.at, now)} ago, "
    hint = f"  Do: {failure.hint}" if failure.hint else ""
    return printable(f"{when}{where}: [{failure.code}] {failure.message}{hint}")


def _lag(lag: int | None) -> str:
    return "not known: a topic that it reads is missing" if lag is None else f"{lag:,} records"


def _dead_letters(found: DeadLetters) -> str:
    return f"{_count(found)} in {found.topic}" if found.records else "none"


def _count(found: DeadLetters) -> str:
    return f"{found.records:,}{'+' if found.at_least else ''}"


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _ago(at: int, now: int) -> str:
    """`18 min`: how long ago that was."""
    seconds = max(0, now - at) // 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
