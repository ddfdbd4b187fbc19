"""The driver of an app: takes it over, starts its slots, restarts those that fail, and stops them.

It does not depend on Spark. A launcher runs a slot's job somewhere and returns when the job has ended.

    starting ── plan written ──> running ── stop requested ──> stopping ──> stopped
        ^                         │ │
        └─ a slot lost for good, ─┘ └── too many failures, another driver, no slot lands ──> failed
           room for more slots, a
           large restore to avoid,
           or added partitions
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from enum import Enum

from tidegate.errors import FencedError, LogError, TidegateError, first_line
from tidegate.runtime.driver.caught_up import Ending
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
from tidegate.runtime.topics.status import Failure, StatusFollower, Warned, publish_status

__all__ = ["Coordinator", "DriverResources", "DriverState", "Launcher", "Patience", "SlotOverview"]

ROOM_CHECK_SECONDS = 2.0
QUIET_SECONDS = 3.0
"""Slots publish something once a second. If none has for this long, the log may be unreachable."""
LAST_REPORTS_SECONDS = 3.0
"""The longest time to read what slots published while they ended."""


class DriverState(Enum):
    """The state of a driver."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


class Coordinator:
    """Runs one app until it is stopped."""

    def __init__(
        self,
        resources: DriverResources,
        slots: int | None,
        *,
        until_caught_up: Ending | None = None,
        machine: str | None = None,
    ) -> None:
        """Without `slots` there are as many as the launcher has room for. With `machine`, slots that land on
        another machine are refused."""
        self._resources = resources
        self._requested_slots = slots
        self._caught_up = until_caught_up
        self._machine = machine
        self._stop_requested = threading.Event()
        self._driver_epoch: DriverEpoch | None = None
        self._first_epoch = 0
        self._watch = PartitionWatch(resources.run, resources.patience.look_for_partitions_seconds)
        self._grown_run: Run | None = None
        self._planned_at = 0.0
        self._next_room_check = 0.0
        self._log_checked_at = 0.0
        self._last_room = self._unfilled_room = 0
        self.state = DriverState.STARTING
        self.error: TidegateError | None = None
        self._cause: Cause | None = None
        self.overview = SlotOverview()

    @property
    def claim(self) -> Claim | None:
        return self._driver_epoch.claim if self._driver_epoch else None

    @property
    def epoch(self) -> int:
        return self.claim.epoch if self.claim else 0

    def run(self) -> None:
        """Run the app in this thread until it ends. Raises the error that made it fail."""
        log, clock, manifest = self._resources.log, self._resources.clock, self._resources.run.manifest
        status = StatusFollower(log, manifest.app)
        control: ControlFollower | None = None
        claim: Claim | None = None
        try:
            claim = take_over(log, manifest.app, manifest.generation, clock)
            self._first_epoch = claim.epoch
            self._report_notices(claim)
            control = ControlFollower(log, manifest.app)
            slots: int | None = self._within_tasks(self._requested_slots or self._resources.launcher.room())
            while slots is not None:
                driver_epoch = self._begin_epoch(claim, slots, status, control)
                slots = self._watch_epoch(driver_epoch, status, control)
                if slots is not None:
                    claim = self._renewed_claim(claim, status, control)
                    if self._must_stop(control):
                        break
                    self._adopt_partitions(claim)
        except BaseException as error:
            self.state = DriverState.FAILED
            if isinstance(error, TidegateError):
                self.error = error
            self._cause = _cause_of(error)
            raise
        finally:
            if self.state is not DriverState.FAILED:
                self.state = DriverState.STOPPING
            with ExitStack() as closing:
                for one in (status, control, claim):
                    if one is not None:
                        closing.callback(one.close)
                self._end_epoch(status, self._resources.patience.stop_seconds)
            if self.state is DriverState.STOPPING:
                self.state = DriverState.STOPPED

    def stop(self) -> None:
        """Request a stop; `run` returns when everything is committed and closed. Safe from any thread."""
        self._stop_requested.set()

    # --- steps of a run -------------------------------------------------------------------------------

    def _begin_epoch(
        self, claim: Claim, slots: int, status: StatusFollower, control: ControlFollower
    ) -> DriverEpoch:
        self.overview.begin_epoch()
        driver_epoch = self._driver_epoch = DriverEpoch(self._resources, claim, slots, self.overview)
        driver_epoch.start_slots()
        self._await_landings(driver_epoch, status, control)
        if not self._stop_requested.is_set():
            self._unfilled_room = (
                self._resources.launcher.room() if len(self.overview.landings) < slots else 0
            )
            driver_epoch.plan(dict(self.overview.landings))
            driver_epoch.start_stages()
            self._warn_of_stages(driver_epoch)
        self._planned_at = time.monotonic()
        self.state = DriverState.RUNNING
        return driver_epoch

    def _renewed_claim(self, claim: Claim, status: StatusFollower, control: ControlFollower) -> Claim:
        """End the current epoch and claim the next one. Returns the claim unchanged if the app must stop."""
        log, app = self._resources.log, self._resources.run.manifest.app
        self._end_epoch(status, self._resources.patience.new_plan_stop_seconds, for_new_plan=True)
        control.poll()
        if not self._must_stop(control):
            claim = claim.renew(log, self._resources.clock)
            if self._ends_this_run(read_control(log, app).stop(ROLE)):
                # The stop names the previous epoch: it was acknowledged before this one was written.
                self._stop_requested.set()
        return claim

    def _adopt_partitions(self, claim: Claim) -> None:
        """Write the manifest with added partitions. Slots read it before the plan assigns them tasks."""
        if self._grown_run is not None:
            write_manifest(claim.writer, self._grown_run.manifest, self._resources.clock.now())
            self._resources, self._grown_run = replace(self._resources, run=self._grown_run), None
            self._watch = PartitionWatch(
                self._resources.run, self._resources.patience.look_for_partitions_seconds
            )

    def _await_landings(
        self, driver_epoch: DriverEpoch, status: StatusFollower, control: ControlFollower
    ) -> None:
        waited = self._resources.patience.landing_seconds
        deadline = time.monotonic() + waited
        while len(self.overview.landings) < driver_epoch.count and not self._stop_requested.is_set():
            self._read_status(status, TICK_SECONDS)
            self._raise_if_over(driver_epoch, control)
            if self._must_stop(control):
                self._stop_requested.set()
            if time.monotonic() > deadline:
                break
        if driver_epoch.count and not self.overview.landings and not self._stop_requested.is_set():
            raise LogError(
                "no-landing",
                f"none of {driver_epoch.count} slots started within {waited:g} s",
                "check that the cluster has free cores, or lower the number of slots",
            )
        machines = {landing.machine for landing in self.overview.landings.values()}
        if self._machine is not None and machines - {self._machine}:
            raise LogError(
                "log-on-one-machine",
                "a sqlite log is on one machine, and executors run on others",
                "use a kafka:// log, or --master local[*]",
            )

    def _watch_epoch(
        self, driver_epoch: DriverEpoch, status: StatusFollower, control: ControlFollower
    ) -> int | None:
        """Watch an epoch until it ends. Returns the number of slots of the next plan, or None if the app
        stops."""
        while not self._stop_requested.is_set():
            self._read_status(status, TICK_SECONDS)
            self._check_log()
            self._raise_if_over(driver_epoch, control)
            if self._must_stop(control):
                return None
            if self._caught_up is not None and self._caught_up.reached():
                return None
            slots = self._more_partitions() or self._slots_of_due_plan(driver_epoch)
            if slots is not None:
                return slots
        return None

    def _more_partitions(self) -> int | None:
        """Return how many slots a plan with added partitions should have, or None if there are none. A run
        that stops when caught up ignores them: its ends were pinned when it started."""
        self._grown_run = self._watch.check(self.epoch) if self._caught_up is None else None
        if self._grown_run is None:
            return None
        return max(
            1, min(self._requested_slots or self._resources.launcher.room(), len(self._grown_run.tasks()))
        )

    def _slots_of_due_plan(self, driver_epoch: DriverEpoch) -> int | None:
        """Return how many slots a new plan should have, or None if none is due. New plans are rare, since all
        slots stop for them."""
        now = time.monotonic()
        if now < self._next_room_check:
            return None
        self._next_room_check = now + ROOM_CHECK_SECONDS
        left = driver_epoch.count - len(driver_epoch.lost_slots())
        if 0 < left < driver_epoch.count:
            return self._within_tasks(
                left if self._requested_slots else min(left, self._resources.launcher.room())
            )
        if now < self._planned_at + self._resources.patience.between_plans_seconds:
            return None
        return (
            driver_epoch.count
            if driver_epoch.would_save_restores()
            else self._slots_if_more_room(driver_epoch)
        )

    def _slots_if_more_room(self, driver_epoch: DriverEpoch) -> int | None:
        """Return how many slots there is room for, or None if that is not more than now."""
        before, self._last_room = self._last_room, self._resources.launcher.room()
        if self._last_room != before:  # executors come one after the other
            return None
        if self._last_room <= self._unfilled_room:  # other programs used it at the last plan
            return None
        more = self._within_tasks(min(self._requested_slots or self._last_room, self._last_room))
        return more if more > driver_epoch.count else None

    def _within_tasks(self, slots: int) -> int:
        """Return how many slots the tasks need. None for the stage of a replay, which runs alone."""
        tasks = len(self._resources.run.tasks())
        return max(1, min(slots, tasks)) if tasks else 0

    def _must_stop(self, control: ControlFollower) -> bool:
        """Return whether a stop was requested, by `stop` or through the control topic."""
        return self._stop_requested.is_set() or self._ends_this_run(control.current.stop(ROLE))

    def _ends_this_run(self, stop: Stop) -> bool:
        """Return whether a stop ends this run, whichever of its epochs it names."""
        return stop.epoch >= self._first_epoch and not stop.for_new_plan

    def _end_epoch(self, status: StatusFollower, seconds: float, *, for_new_plan: bool = False) -> None:
        if self._driver_epoch is not None:
            self._driver_epoch.end(
                seconds,
                lambda: self._read_status(status, 0.0),
                for_new_plan=for_new_plan,
                failure=self._cause,
            )
            with suppress(TidegateError):
                self._read_last_reports(status)

    def _report_notices(self, claim: Claim) -> None:
        """Publish them to the status topic, for the overview of this run and for servers that follow it."""
        for notice in self._resources.run.notices:
            warned = Warned(claim.epoch, DRIVER, 0, notice.code, notice.message, notice.hint)
            with suppress(TidegateError):
                publish_status(self._resources.log, claim.app, warned, self._resources.clock.now())

    def _warn_of_stages(self, driver_epoch: DriverEpoch) -> None:
        """Warn if slots use all cores: stages would wait without any message."""
        cores = self._resources.launcher.cores()
        if self._resources.run.stages() and cores <= driver_epoch.count:
            message = f"slots use all {cores} cores, and stages wait for one"
            self.overview.add(Warned(self.epoch, -1, 0, "no-core-for-stages", message, "lower --slots"))

    # --- what is known --------------------------------------------------------------------------------

    def _raise_if_over(self, driver_epoch: DriverEpoch, control: ControlFollower) -> None:
        """Raise the error that ends the app: another driver took over, the driver's writer failed, slots
        failed too often, or no executor can run the app."""
        control.poll()
        if control.current.epoch(ROLE) > self.epoch:
            raise FencedError(
                f"driver of {self._resources.run.manifest.app}", self.epoch, control.current.epoch(ROLE)
            )
        if driver_epoch.fatal is not None:
            raise driver_epoch.fatal
        recent = self.overview.recent_failures(self._resources.patience.within_seconds)
        too_many = len(recent) > self._resources.patience.failures
        refused = driver_epoch.count and self.overview.all_refused(self.epoch, driver_epoch.count)
        if recent and (too_many or refused):
            raise error_of(_cause(recent), len(recent))

    def _check_log(self) -> None:
        """Check the log when slots are quiet. The driver waits for a log that does not answer, and the
        overview shows it."""
        now = time.monotonic()
        quiet = max(self.overview.last_report.values(), default=now)
        if now < max(quiet, self._log_checked_at) + QUIET_SECONDS:
            return
        self._log_checked_at = now
        try:
            self._resources.log.check()
        except LogError as error:
            self.overview.log_trouble = error
        else:
            self.overview.log_trouble = None

    def _read_status(self, status: StatusFollower, wait: float) -> None:
        """Add what was published to the overview."""
        for one in status.poll(wait):
            if one.epoch == self.epoch:
                self.overview.add(one)

    def _read_last_reports(self, status: StatusFollower) -> None:
        """Read the totals that slots published right before their jobs ended."""
        deadline, end = time.monotonic() + LAST_REPORTS_SECONDS, status.end()
        while time.monotonic() < deadline and not status.has_read(end):
            self._read_status(status, TICK_SECONDS)


def _cause_of(error: BaseException) -> Cause:
    """Return the error in the form that is kept in the control topic."""
    if isinstance(error, TidegateError):
        return Cause(error.code, error.message, error.hint)
    return Cause(type(error).__name__, first_line(error), "see the output of the driver")


def _cause(failures: list[Failure]) -> Failure:
    """Return the first failure that has another cause than a lost job."""
    return next((one for one in failures if one.code != "slot-lost"), failures[0])
