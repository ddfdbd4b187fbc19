"""The events of a run, one line each: attempts, failures, restarts, warnings, dead letters, skipped records,
restores, new plans, and a log that does not respond."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.log import names
from tidegate.runtime.topics.status import Ended, Failure, Landing, Numbers, Warned

if TYPE_CHECKING:
    from tidegate.runtime.driver.slot_overview import SlotEvent, SlotOverview

RESTORE_SECONDS = 10.0
"""The interval between two lines on the progress of a restore."""
LOST = "slot-lost"


@dataclass(frozen=True, slots=True)
class Line:
    """One event: as text for people, and as fields for programs."""

    event: str
    text: str
    style: str
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Counted:
    """The counts of a slot's job that were reported so far."""

    dead_letters: int = 0
    skipped: int = 0
    has_ended: bool = False
    """Its end had the final counts; numbers that arrive later are older."""


class RunEvents:
    """The events of one run. Each is returned once."""

    def __init__(self, app: str, now: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._now = now
        self._events_read = 0
        self._plans = 1
        self._log_failed = False
        self._jobs: dict[int, _Counted] = {}
        self._restoring = 0
        self._restore_due = 0.0

    def new(self, view: SlotOverview) -> list[Line]:
        """The events since the last call."""
        return [
            *self._log(view),
            *self._events(view),
            *self._counts(view),
            *self._restores(view),
            *self._plan(view),
        ]

    def _log(self, view: SlotOverview) -> Iterator[Line]:
        trouble = view.log_trouble
        if trouble is not None and not self._log_failed:
            yield _warning("log-trouble", trouble.code, trouble.message, trouble.hint)
        elif trouble is None and self._log_failed:
            yield Line("log-back", "the log responds again", "dim")
        self._log_failed = trouble is not None

    def _events(self, view: SlotOverview) -> Iterator[Line]:
        self._events_read, found = view.events_after(self._events_read)
        for event in found:
            yield from self._line(event)

    def _line(self, event: SlotEvent) -> Iterator[Line]:
        match event:
            case Landing():
                self._jobs[event.slot] = _Counted()
                text = f"slot {event.slot}: attempt {event.attempt} runs on {event.host}, process {event.pid}"
                fields = {"slot": event.slot, "attempt": event.attempt, "host": event.host, "pid": event.pid}
                yield Line("attempt", text, "dim" if event.attempt == 1 else "yellow", fields)
            case Failure():
                yield _failure(event)
            case Warned():
                yield _warning("warning", event.code, event.message, event.hint)
            case Ended():
                yield from self._count(event.slot, event)
                self._jobs[event.slot].has_ended = True

    def _counts(self, view: SlotOverview) -> Iterator[Line]:
        for slot, numbers in sorted(view.numbers.copy().items()):
            if not self._jobs.setdefault(slot, _Counted()).has_ended:
                yield from self._count(slot, numbers)

    def _count(self, slot: int, report: Numbers | Ended) -> Iterator[Line]:
        """Report dead letters and skipped records. Counts restart at 0 when a slot recreates its tasks."""
        before = self._jobs.setdefault(slot, _Counted())
        dead, skipped = report.dead_letters, max(0, report.skipped - report.dead_letters)
        where = names.dead_letters(self._app)
        for event, how, count, known in (
            ("dead-letters", f"went to {where}", dead, before.dead_letters),
            (
                "skipped",
                f"{'was' if skipped - before.skipped == 1 else 'were'} skipped",
                skipped,
                before.skipped,
            ),
        ):
            fresh = count - known if count >= known else count
            if fresh:
                what = "1 record" if fresh == 1 else f"{fresh:,} records"
                text = f"slot {slot}: {what} {how}, {count:,} since its job began"
                fields = {"slot": slot, "records": fresh, "since_job_began": count}
                yield Line(event, text, "yellow", fields)
        before.dead_letters, before.skipped = dead, skipped

    def _restores(self, view: SlotOverview) -> Iterator[Line]:
        """Report the progress of restores now and then; a terminal shows a bar, too."""
        reports = list(view.numbers.copy().values())
        wanted, done = sum(one.to_restore for one in reports), sum(one.restored for one in reports)
        fields = {"restored": done, "to_restore": wanted}
        if any(one.restoring for one in reports) and wanted > done:
            if not self._restoring or self._now() >= self._restore_due:
                self._restore_due = self._now() + RESTORE_SECONDS
                yield Line("restore", f"restoring: {done:,} of {wanted:,} changelog records", "dim", fields)
            self._restoring = wanted
        elif self._restoring and reports:
            self._restoring = 0
            yield Line("restored", f"restored {done:,} changelog records", "dim", fields)

    def _plan(self, view: SlotOverview) -> Iterator[Line]:
        if view.plans > self._plans:
            self._plans, slots = view.plans, len(view.landings)
            yield Line("plan", f"a new plan: {slots} slots", "yellow", {"slots": slots})


def _failure(failure: Failure) -> Line:
    who = f"slot {failure.slot}" if failure.slot >= 0 else f"stage {-failure.slot}"
    how = f"attempt {failure.attempt} failed and is restarted"
    if failure.code == LOST and failure.slot >= 0:
        how = "ended without a report (its worker was killed or lost) and is restarted"
        how = f"attempt {failure.attempt} {how}"
    error = {"code": failure.code, "message": failure.message, "hint": failure.hint}
    fields = {"slot": failure.slot, "attempt": failure.attempt, **error}
    return Line(
        "failure", f"{who}: {how}: {_described(failure.code, failure.message, failure.hint)}", "red", fields
    )


def _warning(event: str, code: str, message: str, hint: str) -> Line:
    return Line(
        event, _described(code, message, hint), "yellow", {"code": code, "message": message, "hint": hint}
    )


def _described(code: str, message: str, hint: str) -> str:
    return f"[{code}] {message}  Do: {hint}" if hint else f"[{code}] {message}"
