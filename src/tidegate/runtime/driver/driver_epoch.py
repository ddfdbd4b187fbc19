"""One epoch of a driver, with its slots and stages.

Each slot and each stage has a thread, which restarts its job until the epoch ends. For a new plan a driver
ends one epoch and begins the next.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec

from tidegate.clock import Clock
from tidegate.errors import FencedError, LogError, TidegateError
from tidegate.log.positions import TaskId
from tidegate.log.protocol import Log
from tidegate.runtime.driver.assign import assign, restore_savings
from tidegate.runtime.driver.run import Run
from tidegate.runtime.driver.slot_overview import SlotOverview
from tidegate.runtime.driver.takeover import Claim, may_regain, request_stop
from tidegate.runtime.slot.stage import Stage
from tidegate.runtime.topics.control import ROLE, Cause, read_control
from tidegate.runtime.topics.failures import failure_seen_by_driver
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.runtime.topics.status import Landing, publish_status

TICK_SECONDS = 0.1
CANCEL_SECONDS = 2.0


class Launcher(Protocol):
    """Runs the jobs of slots and stages."""

    def launch(self, order: SlotOrder) -> None:
        """Run a slot's job. Returns when it has ended, raises if it failed."""
        ...

    def run_stage(self, stage: Stage, number: int, epoch: int, writer: str, stopped: threading.Event) -> None:
        """Run a DataFrame stage until it is stopped. Raises if it failed. Its number is negative."""
        ...

    def cancel(self, number: int) -> None:
        """Kill the job of a slot or a stage."""
        ...

    def room(self) -> int:
        """Return how many slots there is room for now; some cores stay free."""
        ...

    def cores(self) -> int:
        """Return how many slots could run now if no core stayed free."""
        ...


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeouts of the driver, and how many failures it tolerates."""

    landing_seconds: float = 60.0
    stop_seconds: float = 8.0
    failures: int = 5
    within_seconds: float = 60.0
    back_off_seconds: float = 0.2
    longest_back_off_seconds: float = 5.0
    gone_seconds: float = 60.0
    """A slot that has published nothing for this long, and for which there is no core, is lost for good."""
    new_plan_stop_seconds: float = 5.0
    between_plans_seconds: float = 60.0
    look_for_partitions_seconds: float = 10.0
    """Partitions that were added to a source are read after twice this time, and a new plan."""
    large_restore: int = 5_000_000
    """How many changelog records a slot reads in the time that a restart of all slots takes."""


@dataclass(frozen=True, slots=True)
class DriverResources:
    """What a driver uses in all its epochs."""

    run: Run
    log: Log
    launcher: Launcher
    order: Callable[[Claim, int, int], SlotOrder]
    """Creates the order for an attempt of a slot."""
    clock: Clock
    patience: Patience


class DriverEpoch:
    """The slots and stages of one claim."""

    def __init__(self, resources: DriverResources, claim: Claim, count: int, overview: SlotOverview) -> None:
        self.claim = claim
        self.count = count
        self.fatal: TidegateError | None = None
        """The error that keeps the driver itself from writing."""
        self._resources = resources
        self._overview = overview
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._threads: dict[int, threading.Thread] = {}
        self._not_landed: set[int] = set()
        self._assignment: dict[int, list[TaskId]] = {}

    def start_slots(self) -> None:
        for slot in range(self.count):
            self._start(slot, partial(self._launch, slot))

    def plan(self, landed: Mapping[int, Landing]) -> None:
        """Write the plan: step 5 of a takeover. Slots that have not landed are cancelled."""
        for slot in set(self._threads) - set(landed):
            self._not_landed.add(slot)
            self._resources.launcher.cancel(slot)
        self.count = len(landed)
        tasks = [task for _, task in self._resources.run.tasks()]
        assignment = self._assignment = assign(tasks, landed) if tasks else {}
        hosts = {slot: landing.host for slot, landing in landed.items()}
        with self._lock:
            self._write_plan(assignment, hosts)
        self._overview.plans += 1

    def _write_plan(self, assignment: Mapping[int, list[TaskId]], hosts: Mapping[int, str]) -> None:
        """Write the plan, and reopen the writer once if it failed, perhaps in the thread of a slot that was
        starting. A plan whose commit was not acknowledged but can be read is not written again: slots may
        already work by it."""
        run, log = self._resources.run, self._resources.log
        try:
            run.plan(self.claim, assignment, hosts)
        except FencedError:
            raise
        except LogError as error:
            if not may_regain(error):
                raise
            self.claim.regain(log)
            if read_control(log, run.manifest.app).plan(ROLE).epoch < self.claim.epoch:
                run.plan(self.claim, assignment, hosts)

    def start_stages(self) -> None:
        for index, stage in enumerate(self._resources.run.stages()):
            number = -1 - index
            self._start(number, partial(self._run_stage, stage, number))

    def lost_slots(self) -> set[int]:
        """Return the slots that have published nothing for long, if there are too few cores for all. With
        enough cores a silent slot is only busy."""
        since = time.monotonic() - self._resources.patience.gone_seconds
        silent = {
            slot
            for slot, at in self._overview.last_report.items()
            if at < since and slot not in self._not_landed
        }
        return silent if silent and self._resources.launcher.cores() < self.count else set()

    def would_save_restores(self) -> bool:
        """Return whether restarted slots restore much state that other hosts hold."""
        overview = self._overview
        restoring = {
            slot: numbers.to_restore - numbers.restored
            for slot, numbers in overview.numbers.items()
            if numbers.restoring and slot in self._assignment and overview.landings[slot].attempt > 1
        }
        large = self._resources.patience.large_restore
        if sum(restoring.values()) < large:
            return False
        landings = {slot: overview.landings[slot] for slot in self._assignment}
        return restore_savings(self._assignment, landings, restoring) >= large

    def end(
        self,
        seconds: float,
        while_waiting: Callable[[], object],
        *,
        for_new_plan: bool,
        failure: Cause | None = None,
    ) -> None:
        """Request the slots to stop and wait for them; then cancel those that are left. Works also if the log
        does not answer. `failure` is the error that ended the driver."""
        self._ended.set()
        app, epoch, now = self._resources.run.manifest.app, self.claim.epoch, self._resources.clock.now()
        with suppress(TidegateError):
            request_stop(
                self._resources.log, app, f"{epoch}", now, epoch, for_new_plan=for_new_plan, failure=failure
            )
        self._await(time.monotonic() + seconds, while_waiting)
        for number, thread in self._threads.items():
            if thread.is_alive():
                self._resources.launcher.cancel(number)
        self._await(time.monotonic() + CANCEL_SECONDS, while_waiting)

    def _await(self, deadline: float, while_waiting: Callable[[], object]) -> None:
        for thread in self._threads.values():
            while thread.is_alive() and time.monotonic() < deadline:
                with suppress(TidegateError):
                    while_waiting()
                thread.join(TICK_SECONDS / 2)

    # --- threads --------------------------------------------------------------------------------------

    def _start(self, number: int, run_attempt: Callable[[int], None]) -> None:
        kind = "slot" if number >= 0 else "stage"
        thread = threading.Thread(
            target=self._keep_running,
            args=(number, run_attempt),
            name=f"tidegate-{kind}-{abs(number)}",
            daemon=True,
        )
        self._threads[number] = thread
        thread.start()

    def _keep_running(self, number: int, run_attempt: Callable[[int], None]) -> None:
        """Restart the job of a slot or a stage until the epoch ends, each time as a new attempt."""
        patience = self._resources.patience
        attempt, wait = 0, patience.back_off_seconds
        while not self._has_ended(number):
            attempt += 1
            began = time.monotonic()
            try:
                run_attempt(attempt)
            except _FatalError:
                return
            except Exception as error:  # noqa: BLE001 - too many of them end the app
                if self._has_ended(number):  # cancelled by `plan` or `end`
                    return
                self._report_failure(number, attempt, error)
            if self._has_ended(number):
                return
            self._overview.restarts += 1
            if time.monotonic() - began > patience.within_seconds:
                wait = patience.back_off_seconds  # it ran long enough: restart at once
                continue
            self._ended.wait(wait)
            wait = min(2 * wait, patience.longest_back_off_seconds)

    def _has_ended(self, number: int) -> bool:
        return self._ended.is_set() or number in self._not_landed

    def _launch(self, slot: int, attempt: int) -> None:
        try:
            self._begin_attempt(slot, attempt)
        except TidegateError as error:
            self.fatal = self.fatal or error
            raise _FatalError from error
        order = self._resources.order(self.claim, slot, attempt)
        self._resources.launcher.launch(
            msgspec.structs.replace(order, tasks=[str(task) for task in self._assignment.get(slot, [])])
        )

    def _begin_attempt(self, slot: int, attempt: int) -> None:
        """Write the attempt to the control topic, waiting for the log if it does not answer."""
        lost = False
        while True:
            try:
                with self._lock:
                    if lost:
                        self.claim.regain(self._resources.log)
                    self.claim.begin_attempt(slot, attempt, self._resources.clock.now())
            except FencedError:
                if lost:
                    raise
            except LogError as error:
                if not may_regain(error) or self._ended.wait(self._resources.patience.back_off_seconds):
                    raise
            else:
                return
            lost = True

    def _run_stage(self, stage: Stage, number: int, attempt: int) -> None:  # noqa: ARG002 - it needs none
        writer = self.claim.stage_writer_id(stage)
        self._resources.launcher.run_stage(stage, number, self.claim.epoch, writer, self._ended)

    def _report_failure(self, number: int, attempt: int, error: Exception) -> None:
        """Publish that a job failed. It may have been killed before it could report anything. A report of the
        slot itself comes first in the status topic, and is preferred to this one."""
        failure = msgspec.structs.replace(
            failure_seen_by_driver(error, self.claim.epoch, number, attempt), by_driver=True
        )
        self._overview.add_seen_by_driver(failure)
        with suppress(TidegateError):
            publish_status(
                self._resources.log, self._resources.run.manifest.app, failure, self._resources.clock.now()
            )


class _FatalError(Exception):
    """The driver itself cannot write any more; the error is in `DriverEpoch.fatal`."""
