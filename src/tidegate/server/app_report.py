"""The report on an app, for `tidegate status` and for the server. Its state is one of:

    never-started   no driver ever took the app over
    starting        a driver took it over or makes a new plan, and its slots are not at work yet
    restoring       all slots are at work, and some restore state
    running         all slots are at work
    partial         some slots are at work, others are not
    restarting      no slot is at work, and some failed in the last seconds: their jobs are restarted
    stopping        a stop was requested, and slots are still at work
    stopped         stopped as requested
    failed          the driver gave up; the control topic holds the cause
    silent          not stopped, and no slot reports: killed, or cut off from the log

The report uses only what was published. A slot is at work if it published something in the last seconds. A
driver publishes nothing as long as its slots run, so a killed driver shows by its slots falling silent.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from tidegate.errors import LogError
from tidegate.log import names
from tidegate.log.ensure import find_topic
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.runtime.topics.control import ROLE
from tidegate.runtime.topics.status import Failure, Recalculating, Warned
from tidegate.runtime.topics.upgrades import Question
from tidegate.server.app_follower import AppFollowers, AppState
from tidegate.server.metrics import slots_of
from tidegate.topology.manifest import Manifest
from tidegate.types import Offset, TopicPartition

AT_WORK = ("running", "restoring")
LANDING_SECONDS = 90.0
"""A driver that took over and wrote no plan within this time is not starting any more."""
PLAN_SECONDS = 10.0
"""The time that slots may take from their plan to their first numbers."""
RESTART_SECONDS = 10.0
"""A failed job is restarted within this time, unless there are not enough cores for it."""
RECALCULATING_SECONDS = 10.0
"""A recalculation publishes its progress once a second; one that has not for this long has ended."""
MOST_DEAD_LETTERS = 10_000
"""Counting stops here."""


class SlotReport(msgspec.Struct, frozen=True):
    """One slot of the plan."""

    slot: int
    state: str
    host: str
    tasks: int
    running: int
    restoring: int
    restored: int
    to_restore: int
    records_per_second: float
    lag: int
    restarts: int


class FailureReport(msgspec.Struct, frozen=True):
    """The last failure: of a slot, or without one the reason why the driver gave up."""

    code: str
    message: str
    hint: str
    at: int | None
    slot: int | None = None
    attempt: int | None = None


class DeadLetters(msgspec.Struct, frozen=True):
    """The dead-letter topic, and how many records it holds."""

    topic: str
    records: int
    at_least: bool = False
    """Whether there are more than `records`."""


class AppReport(msgspec.Struct, frozen=True):
    """One app at one time. Times are in milliseconds."""

    app: str
    state: str
    since: int | None
    last_heard: int | None
    """When a slot last published anything; None if the topic does not hold it any more."""
    epoch: int
    slots: list[SlotReport]
    tasks: int
    tasks_running: int
    tasks_restoring: int
    restored: int
    to_restore: int
    records_per_second: float
    lag: int | None
    """None if it is unknown because a topic that the app reads is missing."""
    restarts: int
    last_failure: FailureReport | None
    dead_letters: DeadLetters
    warnings: list[Warned]
    recalculating: Recalculating | None = None
    """The progress of the recalculation of an upgrade; None if none has reported lately."""
    waits_for: list[Question] = []
    """What an upgrade waits for: it needs consent."""

    @property
    def at_work(self) -> int:
        """The number of slots at work."""
        return sum(slot.state in AT_WORK for slot in self.slots)


class AppReports:
    """Reports on the apps on a log."""

    def __init__(self, log: Log, followers: AppFollowers) -> None:
        self._followers = followers
        self._dead_letters = DeadLetterCounts(log)

    def dead_letters(self, app: str) -> DeadLetters:
        """Count the dead letters of an app."""
        return self._dead_letters.of(app)

    def of(self, manifest: Manifest) -> AppReport:
        """Report on an app as of now, without its lag if a topic that it reads is missing."""
        dead_letters = self._dead_letters.of(manifest.app)
        try:
            return report(self._followers.state(manifest), dead_letters)
        except LogError as error:
            if error.code != "no-such-topic":
                raise
        app = self._followers.state(manifest, with_lag=False)
        return msgspec.structs.replace(report(app, dead_letters), lag=None)


def report(app: AppState, dead_letters: DeadLetters) -> AppReport:
    """Report on an app in this state."""
    state, since = state_of(app)
    slots = _slots(app)
    return AppReport(
        app=app.app,
        state=state,
        since=since,
        last_heard=_last_heard(app),
        epoch=app.epoch,
        slots=slots,
        tasks=sum(len(slot.tasks) for slot in app.plan.slots),
        tasks_running=sum(slot.running for slot in slots),
        tasks_restoring=sum(slot.restoring for slot in slots),
        restored=sum(slot.restored for slot in slots),
        to_restore=sum(slot.to_restore for slot in slots),
        records_per_second=round(sum(slot.records_per_second for slot in slots), 1),
        lag=sum(one.lag for one in app.lags),
        restarts=sum(slot.restarts for slot in slots),
        last_failure=_last_failure(app),
        dead_letters=dead_letters,
        warnings=list(app.statuses.warnings),
        recalculating=_recalculating(app),
        waits_for=waits_for(app),
    )


def waits_for(app: AppState) -> list[Question]:
    """Return the questions that an upgrade of the app needs consent for."""
    return app.upgrade.questions if app.upgrade is not None and app.upgrade.state == "waiting" else []


def state_of(app: AppState) -> tuple[str, int | None]:
    """The state of an app, and since when it has it."""
    if not app.epoch:
        return "never-started", None
    states = {number: slot.state(app.now) for number, slot in slots_of(app).items()}
    busy = [state for state in states.values() if state in (*AT_WORK, "starting")]
    stop_requested = app.stop.epoch >= app.epoch
    if stop_requested and not app.stop.for_new_plan:
        return _ended(app, busy=bool(busy))
    if stop_requested or app.plan.epoch < app.epoch:
        since = app.times.get(f"{'stop' if stop_requested else 'epoch'}/{ROLE}")
        if busy or _ago(app, since) < LANDING_SECONDS:
            return "starting", since
        return "silent", _last_heard(app) or since
    return _planned(app, [states[slot.slot] for slot in app.plan.slots])


def _ended(app: AppState, *, busy: bool) -> tuple[str, int | None]:
    since = app.times.get(f"stop/{ROLE}")
    if busy:
        return "stopping", since
    return ("failed" if app.stop.failure is not None else "stopped"), since


def _planned(app: AppState, states: list[str]) -> tuple[str, int | None]:
    """The state while a plan is in force, from the states of its slots."""
    since = app.times.get(f"plan/{ROLE}")
    working = [state for state in states if state in AT_WORK]
    if states and len(working) == len(states):
        return ("restoring" if "restoring" in working else "running"), since
    if _ago(app, since) < PLAN_SECONDS or (not working and "starting" in states):
        return "starting", since
    if working:
        return "partial", since
    heard = _last_heard(app)
    if "failed" in states and _ago(app, heard) < RESTART_SECONDS:
        return "restarting", heard
    return "silent", heard or since


def _ago(app: AppState, at: int | None) -> float:
    """Seconds since a time. One in the future, by the clock of another machine, counts as now."""
    return float("inf") if at is None else max(0, app.wall - at) / 1000


def _last_heard(app: AppState) -> int | None:
    """When a slot of the newest epoch last published anything, if the topic still holds it."""
    ages = [app.now - slot.heard for slot in slots_of(app).values()]
    return None if not ages or min(ages) == float("inf") else app.wall - round(min(ages) * 1000)


def _slots(app: AppState) -> list[SlotReport]:
    planned = {slot.slot: slot for slot in app.plan.slots}
    lag = app.lag_by_slot()
    found = []
    for number, slot in slots_of(app).items():
        state, numbers = slot.state(app.now), slot.numbers
        counts = slot.tasks(app.now, 0)
        live = numbers if state in AT_WORK else None
        found.append(
            SlotReport(
                slot=number,
                state=state,
                host=slot.host or (planned[number].host if number in planned else ""),
                tasks=len(planned[number].tasks) if number in planned else 0,
                running=counts["running"],
                restoring=counts["restoring"],
                restored=live.restored if live else 0,
                to_restore=live.to_restore if live else 0,
                records_per_second=live.per_second if live else 0.0,
                lag=lag.get(number, 0),
                restarts=app.restarts(number),
            )
        )
    return found


def _recalculating(app: AppState) -> Recalculating | None:
    if app.statuses.recalculating is None:
        return None
    heard, progress = app.statuses.recalculating
    return progress if app.now - heard <= RECALCULATING_SECONDS else None


def _last_failure(app: AppState) -> FailureReport | None:
    """Why the driver gave up, else the newest failure of a slot that the status topic holds."""
    cause = app.stop.failure
    if cause is not None and app.stop.epoch >= app.epoch:
        return FailureReport(cause.code, cause.message, cause.hint, app.times.get(f"stop/{ROLE}"))
    if app.statuses.last_failure is None:
        return None
    failure: Failure
    at, failure = app.statuses.last_failure
    return FailureReport(failure.code, failure.message, failure.hint, at, failure.slot, failure.attempt)


class DeadLetterCounts:
    """Counts dead letters, and counts them again only when the topic has changed."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[str, tuple[object, DeadLetters]] = {}

    def of(self, app: str) -> DeadLetters:
        """Count committed records. Offsets are no count: on Kafka transaction markers have offsets too."""
        topic = names.dead_letters(app)
        info = find_topic(self._log, topic)
        if info is None:
            return DeadLetters(topic, 0)
        partitions = [TopicPartition(topic, number) for number in range(info.partitions)]
        ends = self._log.ends(partitions)
        written = info.uid, tuple(info.starts), tuple(ends.values())
        known = self._known.get(topic)
        if known is None or known[0] != written:
            starts = {one: Offset(info.starts[one.partition]) for one in partitions}
            known = self._known[topic] = written, self._counted(topic, starts, ends)
        return known[1]

    def _counted(
        self, topic: str, starts: dict[TopicPartition, Offset], ends: dict[TopicPartition, Offset]
    ) -> DeadLetters:
        count = 0
        with suppress(LogError):  # retention may delete what is being read; then `at_least` is set
            for partition, start in starts.items():
                for batch in read_between(self._log, partition, start, ends[partition]):
                    count += batch.num_rows
                    if count >= MOST_DEAD_LETTERS:
                        return DeadLetters(topic, MOST_DEAD_LETTERS, at_least=True)
            return DeadLetters(topic, count)
        return DeadLetters(topic, count, at_least=True)
