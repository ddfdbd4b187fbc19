"""The driver of an app: takes it over, starts its slots, restarts those that fail, and ends them.

It knows nothing of Spark. A launcher runs a slot's job somewhere and returns when the job has ended.

    starting ── plan written ──> running ── stop asked for ──> stopping ──> stopped
        ^                         │ │
        └─ a slot gone for good, ─┘ └── budget spent, another driver, no slot lands ──> failed
           room for more, a large
           restore to be saved, or
           more source partitions
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from enum import Enum

from tidegate.errors import FencedError, LogError, TidegateError, first_line
from tidegate.runtime.driver.caught_up import CaughtUp
from tidegate.runtime.driver.driver_epoch import (
    TICK_SECONDS,
    DriverEpoch,
    DriverResources,
    Launcher,
    Patience,
)
from tidegate.runtime.driver.first_start import write_manifest
from tidegate.runtime.driver.partition_watch import DRIVER, PartitionWatch
from tidegate.runtime.driver.run import Run
from tidegate.runtime.driver.slot_overview import SlotOverview
from tidegate.runtime.driver.takeover import Claim, take_over
from tidegate.runtime.topics.control import ROLE, Cause, ControlFollower, Stop, read_control
from tidegate.runtime.topics.failures import error_of
from tidegate.runtime.topics.status import Failure, StatusFollower, Warned, tell

__all__ = ["Coordinator", "DriverResources", "Launcher", "Patience", "SlotOverview", "State"]

LOOK_FOR_ROOM_SECONDS = 2.0
QUIET_SECONDS = 3.0
"""Slots publish something once a second. If none does for so long, it may be the log."""
LAST_REPORTS_SECONDS = 3.0
"""How long to read what slots published while they ended, at most."""


class State(Enum):
    """Where the driver is."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


class Coordinator:
    """Runs one app until it is stopped."""

    def __init__(
        self,
        means: DriverResources,
        slots: int | None,
        *,
        until_caught_up: CaughtUp | None = None,
        machine: str | None = None,
    ) -> None:
        """Without `slots` there are as many as there is room for; with `machine` slots on others are
        refused."""
        self._means = means
        self._wanted = slots
        self._caught_up = until_caught_up
        self._machine = machine
        self._stop_asked = threading.Event()
        self._term: DriverEpoch | None = None
        self._first_epoch = 0
        self._watch = PartitionWatch(means.run, means.patience.look_for_partitions_seconds)
        self._grown: Run | None = None
        self._planned_at = 0.0
        self._look_at = 0.0
        self._looked_at = 0.0
        self._room = self._unfilled = 0
        self.state = State.STARTING
        self.error: TidegateError | None = None
        self._cause: Cause | None = None
        self.view = SlotOverview()

    @property
    def claim(self) -> Claim | None:
        return self._term.claim if self._term else None

    @property
    def epoch(self) -> int:
        return self.claim.epoch if self.claim else 0

    def run(self) -> None:
        """All of it, in this thread. Raises what made the app fail."""
        log, clock, manifest = self._means.log, self._means.clock, self._means.run.manifest
        status = StatusFollower(log, manifest.app)
        control: ControlFollower | None = None
        claim: Claim | None = None
        try:
            claim = take_over(log, manifest.app, manifest.generation, clock)
            self._first_epoch = claim.epoch
            self._report_notices(claim)
            control = ControlFollower(log, manifest.app)
            slots: int | None = self._most(self._wanted or self._means.launcher.room())
            while slots:
                term = self._begin(claim, slots, status, control)
                slots = self._follow(term, status, control)
                if slots:
                    claim = self._renewed(claim, status, control)
                    if self._must_stop(control):
                        break
                    self._take_in(claim)
        except BaseException as error:
            self.state = State.FAILED
            if isinstance(error, TidegateError):
                self.error = error
            self._cause = _cause_of(error)
            raise
        finally:
            if self.state is not State.FAILED:
                self.state = State.STOPPING
            with ExitStack() as closing:
                for one in (status, control, claim):
                    if one is not None:
                        closing.callback(one.close)
                self._end(status, self._means.patience.stop_seconds)
            if self.state is State.STOPPING:
                self.state = State.STOPPED

    def stop(self) -> None:
        """Ask for the end; `run` returns when everything is committed and closed. From any thread."""
        self._stop_asked.set()

    # --- steps of a run -------------------------------------------------------------------------------

    def _begin(
        self, claim: Claim, slots: int, status: StatusFollower, control: ControlFollower
    ) -> DriverEpoch:
        self.view.next_term()
        term = self._term = DriverEpoch(self._means, claim, slots, self.view)
        term.start_slots()
        self._await_landings(term, status, control)
        if not self._stop_asked.is_set():
            self._unfilled = self._means.launcher.room() if len(self.view.landings) < slots else 0
            term.plan(dict(self.view.landings))
            term.start_stages()
            self._warn_of_stages(term)
        self._planned_at = time.monotonic()
        self.state = State.RUNNING
        return term

    def _renewed(self, claim: Claim, status: StatusFollower, control: ControlFollower) -> Claim:
        """End the term and raise the epoch for the next one; the claim as it is where the app shall end."""
        log, app = self._means.log, self._means.run.manifest.app
        self._end(status, self._means.patience.new_plan_stop_seconds, for_new_plan=True)
        control.poll()
        if not self._must_stop(control):
            claim = claim.renew(log, self._means.clock)
            if self._is_for_us(read_control(log, app).stop(ROLE)):
                # It named the epoch before, and was acknowledged when this one was not there yet.
                self._stop_asked.set()
        return claim

    def _take_in(self, claim: Claim) -> None:
        """Partitions that were added: slots read the manifest before the plan gives them tasks."""
        if self._grown is not None:
            write_manifest(claim.writer, self._grown.manifest, self._means.clock.now())
            self._means, self._grown = replace(self._means, run=self._grown), None
            self._watch = PartitionWatch(self._means.run, self._means.patience.look_for_partitions_seconds)

    def _await_landings(self, term: DriverEpoch, status: StatusFollower, control: ControlFollower) -> None:
        deadline = time.monotonic() + self._means.patience.landing_seconds
        while len(self.view.landings) < term.count and not self._stop_asked.is_set():
            self._read(status, TICK_SECONDS)
            self._check(term, control)
            if self._must_stop(control):
                self._stop_asked.set()
            if time.monotonic() > deadline:
                break
        if not self.view.landings and not self._stop_asked.is_set():
            raise LogError(
                "no-landing",
                f"no slot of {term.count} started within {self._means.patience.landing_seconds:g} s",
                "has the cluster free cores? look at its page, or lower the number of slots",
            )
        machines = {landing.machine for landing in self.view.landings.values()}
        if self._machine is not None and machines - {self._machine}:
            raise LogError(
                "log-on-one-machine",
                "a sqlite log lies on one machine, and executors run on others",
                "use a kafka:// log, or --master local[*]",
            )

    def _follow(self, term: DriverEpoch, status: StatusFollower, control: ControlFollower) -> int | None:
        """Until the end, or until a new plan is due: over how many slots?"""
        while not self._stop_asked.is_set():
            self._read(status, TICK_SECONDS)
            self._look_at_log()
            self._check(term, control)
            if self._must_stop(control):
                return None
            if self._caught_up is not None and self._caught_up.reached():
                return None
            slots = self._more_partitions() or self._better(term)
            if slots is not None:
                return slots
        return None

    def _more_partitions(self) -> int | None:
        """How many slots a plan with added partitions should have. Of a run that ends by itself they are no
        part: it works up to what there was when it began."""
        self._grown = self._watch.look(self.epoch) if self._caught_up is None else None
        if self._grown is None:
            return None
        return max(1, min(self._wanted or self._means.launcher.room(), len(self._grown.tasks())))

    def _better(self, term: DriverEpoch) -> int | None:
        """How many slots a new plan should have, if one is due: seldom, since everything stops for it."""
        now = time.monotonic()
        if now < self._look_at:
            return None
        self._look_at = now + LOOK_FOR_ROOM_SECONDS
        left = term.count - len(term.gone())
        if 0 < left < term.count:
            return self._most(left if self._wanted else min(left, self._means.launcher.room()))
        if now < self._planned_at + self._means.patience.between_plans_seconds:
            return None
        return term.count if term.saves() else self._more(term)

    def _more(self, term: DriverEpoch) -> int | None:
        """How many slots there is room for, if they are more."""
        before, self._room = self._room, self._means.launcher.room()
        if self._room != before:  # executors come one after the other
            return None
        if self._room <= self._unfilled:  # it was there last time too, and somebody else has it
            return None
        more = self._most(min(self._wanted or self._room, self._room))
        return more if more > term.count else None

    def _most(self, slots: int) -> int:
        return max(1, min(slots, len(self._means.run.tasks())))

    def _must_stop(self, control: ControlFollower) -> bool:
        """Whether somebody asked for the end: here, or through the control topic."""
        return self._stop_asked.is_set() or self._is_for_us(control.now.stop(ROLE))

    def _is_for_us(self, stop: Stop) -> bool:
        """Whether a stop is meant to end this run, under whichever of its epochs it was asked for."""
        return stop.epoch >= self._first_epoch and not stop.for_new_plan

    def _end(self, status: StatusFollower, seconds: float, *, for_new_plan: bool = False) -> None:
        if self._term is not None:
            self._term.end(
                seconds, lambda: self._read(status, 0.0), for_new_plan=for_new_plan, failure=self._cause
            )
            with suppress(TidegateError):
                self._read_last_reports(status)

    def _report_notices(self, claim: Claim) -> None:
        """In the status topic: from there they come to the view of this run and to others who follow it."""
        for notice in self._means.run.notices:
            warned = Warned(claim.epoch, DRIVER, 0, notice.code, notice.message, notice.hint)
            with suppress(TidegateError):
                tell(self._means.log, claim.app, warned, self._means.clock.now())

    def _warn_of_stages(self, term: DriverEpoch) -> None:
        """A stage without a core waits, and nobody would know why."""
        cores = self._means.launcher.cores()
        if self._means.run.stages() and cores <= term.count:
            told = f"slots use all {cores} cores, and stages wait for one"
            self.view.take(Warned(self.epoch, -1, 0, "no-core-for-stages", told, "lower --slots"))

    # --- what is known --------------------------------------------------------------------------------

    def _check(self, term: DriverEpoch, control: ControlFollower) -> None:
        """Raise for what ends the app: another driver, a writer that failed, a budget that is spent."""
        control.poll()
        if control.now.epoch(ROLE) > self.epoch:
            raise FencedError(
                f"driver of {self._means.run.manifest.app}", self.epoch, control.now.epoch(ROLE)
            )
        if term.fatal is not None:
            raise term.fatal
        recent = self.view.recent_failures(self._means.patience.within_seconds)
        if len(recent) > self._means.patience.failures:
            raise error_of(_cause(recent), len(recent))

    def _look_at_log(self) -> None:
        """A log that does not answer is waited for, and that shows."""
        now = time.monotonic()
        quiet = max(self.view.heard.values(), default=now)
        if now < max(quiet, self._looked_at) + QUIET_SECONDS:
            return
        self._looked_at = now
        try:
            self._means.log.check()
        except LogError as error:
            self.view.log_trouble = error
        else:
            self.view.log_trouble = None

    def _read(self, status: StatusFollower, wait: float) -> int:
        """Take what was published, and return how many records that were."""
        found = list(status.poll(wait))
        for one in found:
            if one.epoch == self.epoch:
                self.view.take(one)
        return len(found)

    def _read_last_reports(self, status: StatusFollower) -> None:
        """Slots report their totals when they end, right before their jobs do."""
        deadline = time.monotonic() + LAST_REPORTS_SECONDS
        while time.monotonic() < deadline and self._read(status, TICK_SECONDS):
            pass


def _cause_of(error: BaseException) -> Cause:
    """As it is kept in the control topic, for whoever looks later."""
    if isinstance(error, TidegateError):
        return Cause(error.code, error.message, error.hint)
    return Cause(type(error).__name__, first_line(error), "see the output of the driver")


def _cause(failures: list[Failure]) -> Failure:
    """The first that says more than that a job was lost."""
    return next((one for one in failures if one.code != "slot-lost"), failures[0])
