"""What happens in a run, one line for each thing: attempts, failures, restarts, warnings, records that were
put aside or skipped, restores, new plans, and a log that does not answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.log import names
from tidegate.runtime.topics.status import Ended, Failure, Landing, Numbers, Warned

if TYPE_CHECKING:
    from tidegate.runtime.driver.slot_overview import Event, SlotOverview

RESTORE_SECONDS = 10.0
"""How often the progress of a restore is a line."""
LOST = "slot-lost"


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened: as text for people, as fields for programs."""

    event: str
    text: str
    style: str
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Counted:
    """What was reported of a slot's job."""

    dead_letters: int = 0
    skipped: int = 0
    has_ended: bool = False
    """Its last numbers are older than its end."""


class RunEvents:
    """Of one run. Each thing comes once."""

    def __init__(self, app: str, now: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._now = now
        self._seen = 0
        self._plans = 1
        self._waiting = False
        self._jobs: dict[int, _Counted] = {}
        self._restoring = 0
        self._restore_due = 0.0

    def new(self, view: SlotOverview) -> list[Line]:
        """What happened since the last call."""
        return [
            *self._log(view),
            *self._events(view),
            *self._counts(view),
            *self._restores(view),
            *self._plan(view),
        ]

    def _log(self, view: SlotOverview) -> Iterator[Line]:
        trouble = view.log_trouble
        if trouble is not None and not self._waiting:
            yield _warning("log-trouble", trouble.code, trouble.message, trouble.hint)
        elif trouble is None and self._waiting:
            yield Line("log-back", "the log answers again", "dim")
        self._waiting = trouble is not None

    def _events(self, view: SlotOverview) -> Iterator[Line]:
        self._seen, found = view.events_after(self._seen)
        for event in found:
            yield from self._line(event)

    def _line(self, event: Event) -> Iterator[Line]:
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

    def _count(self, slot: int, told: Numbers | Ended) -> Iterator[Line]:
        """Records that were put aside or skipped. Counts begin again with the tasks of a slot."""
        before = self._jobs.setdefault(slot, _Counted())
        dead, skipped = told.dead_letters, max(0, told.skipped - told.dead_letters)
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
        """A line now and then: a terminal has a bar beside it."""
        told = list(view.numbers.copy().values())
        wanted, done = sum(one.to_restore for one in told), sum(one.restored for one in told)
        fields = {"restored": done, "to_restore": wanted}
        if any(one.restoring for one in told) and wanted > done:
            if not self._restoring or self._now() >= self._restore_due:
                self._restore_due = self._now() + RESTORE_SECONDS
                yield Line("restore", f"restoring: {done:,} of {wanted:,} changelog records", "dim", fields)
            self._restoring = wanted
        elif self._restoring and told:
            self._restoring = 0
            yield Line("restored", f"restored {done:,} changelog records", "dim", fields)

    def _plan(self, view: SlotOverview) -> Iterator[Line]:
        if view.plans > self._plans:
            self._plans, slots = view.plans, len(view.landings)
            yield Line("plan", f"a new plan: {slots} slots", "yellow", {"slots": slots})


def _failure(failure: Failure) -> Line:
    who = f"slot {failure.slot}" if failure.slot >= 0 else f"stage {-failure.slot}"
    how = f"attempt {failure.attempt} failed and is started again"
    if failure.code == LOST and failure.slot >= 0:
        how = "ended without a report, its worker was killed or lost, and is started again"
        how = f"attempt {failure.attempt} {how}"
    told = {"code": failure.code, "message": failure.message, "hint": failure.hint}
    fields = {"slot": failure.slot, "attempt": failure.attempt, **told}
    return Line(
        "failure", f"{who}: {how}: {_described(failure.code, failure.message, failure.hint)}", "red", fields
    )


def _warning(event: str, code: str, message: str, hint: str) -> Line:
    return Line(
        event, _described(code, message, hint), "yellow", {"code": code, "message": message, "hint": hint}
    )


def _described(code: str, message: str, hint: str) -> str:
    return f"[{code}] {message}  Do: {hint}" if hint else f"[{code}] {message}"
