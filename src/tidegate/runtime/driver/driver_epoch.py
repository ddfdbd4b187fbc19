"""A term: one epoch of a driver, with its slots and stages.

Each has a thread, which starts its job again and again until the term is over. A driver that plans anew ends
one term and begins the next, under a higher epoch.
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
from tidegate.runtime.driver.assign import assign, saved
from tidegate.runtime.driver.run import Run
from tidegate.runtime.driver.slot_overview import SlotOverview
from tidegate.runtime.driver.takeover import Claim, ask_to_stop, may_regain
from tidegate.runtime.slot.stage import Stage
from tidegate.runtime.topics.control import ROLE, Cause, read_control
from tidegate.runtime.topics.failures import lost
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.runtime.topics.status import Landing, tell

TICK_SECONDS = 0.1
CANCEL_SECONDS = 2.0


class Launcher(Protocol):
    """Where slots run."""

    def launch(self, order: SlotOrder) -> None:
        """Run a slot's job; returns when it has ended, raises if it failed."""
        ...

    def run_stage(self, stage: Stage, number: int, epoch: int, writer: str, stopped: threading.Event) -> None:
        """Run a DataFrame stage until it is stopped; raises if it failed. Its number is below 0."""
        ...

    def cancel(self, number: int) -> None:
        """End the job of a slot or a stage without asking it."""
        ...

    def room(self) -> int:
        """How many slots there is room for now; some cores stay free."""
        ...

    def cores(self) -> int:
        """How many slots could run now at all."""
        ...


@dataclass(frozen=True, slots=True)
class Patience:
    """How long things may take, and how often they may fail."""

    landing_seconds: float = 60.0
    stop_seconds: float = 8.0
    failures: int = 5
    within_seconds: float = 60.0
    back_off_seconds: float = 0.2
    longest_back_off_seconds: float = 5.0
    gone_seconds: float = 60.0
    """After so much silence a slot for which there is no core is gone for good."""
    new_plan_stop_seconds: float = 5.0
    between_plans_seconds: float = 60.0
    look_for_partitions_seconds: float = 10.0
    """Partitions that were added to a source are read after twice that time, and a new plan."""
    large_restore: int = 5_000_000
    """Changelog records that a slot reads in about the time in which all of them stop and start again."""


@dataclass(frozen=True, slots=True)
class DriverResources:
    """What a driver works with, in all its terms."""

    run: Run
    log: Log
    launcher: Launcher
    order: Callable[[Claim, int, int], SlotOrder]
    """Makes the order of a slot's attempt."""
    clock: Clock
    patience: Patience


class DriverEpoch:
    """The slots and stages of one claim."""

    def __init__(self, means: DriverResources, claim: Claim, count: int, view: SlotOverview) -> None:
        self.claim = claim
        self.count = count
        self.fatal: TidegateError | None = None
        """What keeps the driver itself from writing."""
        self._means = means
        self._view = view
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads: dict[int, threading.Thread] = {}
        self._left_out: set[int] = set()
        self._given: dict[int, list[TaskId]] = {}

    def start_slots(self) -> None:
        for slot in range(self.count):
            self._start(slot, partial(self._launch, slot))

    def plan(self, landed: Mapping[int, Landing]) -> None:
        """Step 5 of the start. A slot that did not land in time is not waited for."""
        for slot in set(self._threads) - set(landed):
            self._left_out.add(slot)
            self._means.launcher.cancel(slot)
        self.count = len(landed)
        given = self._given = assign([task for _, task in self._means.run.tasks()], landed)
        hosts = {slot: landing.host for slot, landing in landed.items()}
        with self._lock:
            self._write_plan(given, hosts)
        self._view.plans += 1

    def _write_plan(self, given: Mapping[int, list[TaskId]], hosts: Mapping[int, str]) -> None:
        """A writer that failed, perhaps for a slot that was starting, is regained, once. A plan that was
        written without an answer is in force: slots may have begun to work."""
        run, log = self._means.run, self._means.log
        try:
            run.plan(self.claim, given, hosts)
        except FencedError:
            raise
        except LogError as error:
            if not may_regain(error):
                raise
            self.claim.regain(log)
            if read_control(log, run.manifest.app).plan(ROLE).epoch < self.claim.epoch:
                run.plan(self.claim, given, hosts)

    def start_stages(self) -> None:
        for index, stage in enumerate(self._means.run.stages()):
            number = -1 - index
            self._start(number, partial(self._run_stage, stage, number))

    def gone(self) -> set[int]:
        """Slots that say nothing for long, if there are not enough cores for all. With enough of them a slot
        is only busy, and comes back by itself."""
        since = time.monotonic() - self._means.patience.gone_seconds
        silent = {slot for slot, at in self._view.heard.items() if at < since and slot not in self._left_out}
        return silent if silent and self._means.launcher.cores() < self.count else set()

    def saves(self) -> bool:
        """Whether slots that started again on other hosts restore much that lies elsewhere."""
        view = self._view
        restoring = {
            slot: told.to_restore - told.restored
            for slot, told in view.numbers.items()
            if told.restoring and slot in self._given and view.landings[slot].attempt > 1
        }
        large = self._means.patience.large_restore
        if sum(restoring.values()) < large:
            return False
        landings = {slot: view.landings[slot] for slot in self._given}
        return saved(self._given, landings, restoring) >= large

    def end(
        self,
        seconds: float,
        meanwhile: Callable[[], object],
        *,
        for_new_plan: bool,
        failure: Cause | None = None,
    ) -> None:
        """Ask the slots to finish and wait; then end what is left. Also if the log does not answer. `failure`
        is what made the driver give up."""
        self._over.set()
        app, epoch, now = self._means.run.manifest.app, self.claim.epoch, self._means.clock.now()
        with suppress(TidegateError):
            ask_to_stop(
                self._means.log, app, f"{epoch}", now, epoch, for_new_plan=for_new_plan, failure=failure
            )
        self._await(time.monotonic() + seconds, meanwhile)
        for number, thread in self._threads.items():
            if thread.is_alive():
                self._means.launcher.cancel(number)
        self._await(time.monotonic() + CANCEL_SECONDS, meanwhile)

    def _await(self, deadline: float, meanwhile: Callable[[], object]) -> None:
        for thread in self._threads.values():
            while thread.is_alive() and time.monotonic() < deadline:
                with suppress(TidegateError):
                    meanwhile()
                thread.join(TICK_SECONDS / 2)

    # --- threads --------------------------------------------------------------------------------------

    def _start(self, number: int, once: Callable[[int], None]) -> None:
        kind = "slot" if number >= 0 else "stage"
        thread = threading.Thread(
            target=self._keep, args=(number, once), name=f"tidegate-{kind}-{abs(number)}", daemon=True
        )
        self._threads[number] = thread
        thread.start()

    def _keep(self, number: int, once: Callable[[int], None]) -> None:
        """Start the job of a slot or a stage again and again, each time as a new attempt."""
        patience = self._means.patience
        attempt, wait = 0, patience.back_off_seconds
        while not self._has_ended(number):
            attempt += 1
            began = time.monotonic()
            try:
                once(attempt)
            except _FatalError:
                return
            except Exception as error:  # noqa: BLE001 - counted, and told by the budget
                if self._has_ended(number):  # we cancelled it ourselves
                    return
                self._note(number, attempt, error)
            if self._has_ended(number):
                return
            self._view.restarts += 1
            if time.monotonic() - began > patience.within_seconds:
                wait = patience.back_off_seconds  # it was well: no reason to wait at all
                continue
            self._over.wait(wait)
            wait = min(2 * wait, patience.longest_back_off_seconds)

    def _has_ended(self, number: int) -> bool:
        return self._over.is_set() or number in self._left_out

    def _launch(self, slot: int, attempt: int) -> None:
        try:
            self._begin_attempt(slot, attempt)
        except TidegateError as error:
            self.fatal = self.fatal or error
            raise _FatalError from error
        order = self._means.order(self.claim, slot, attempt)
        self._means.launcher.launch(
            msgspec.structs.replace(order, tasks=[str(task) for task in self._given.get(slot, [])])
        )

    def _begin_attempt(self, slot: int, attempt: int) -> None:
        """Written, also where the log has to be waited for."""
        lost = False
        while True:
            try:
                with self._lock:
                    if lost:
                        self.claim.regain(self._means.log)
                    self.claim.begin_attempt(slot, attempt, self._means.clock.now())
            except FencedError:
                if lost:
                    raise
            except LogError as error:
                if not may_regain(error) or self._over.wait(self._means.patience.back_off_seconds):
                    raise
            else:
                return
            lost = True

    def _run_stage(self, stage: Stage, number: int, attempt: int) -> None:  # noqa: ARG002 - it needs none
        writer = self.claim.stage_writer_id(stage)
        self._means.launcher.run_stage(stage, number, self.claim.epoch, writer, self._over)

    def _note(self, number: int, attempt: int, error: Exception) -> None:
        """A job that failed, perhaps without a report: it was killed, or never began. What the slot reported
        itself lies before this in the status topic, and counts more."""
        failure = msgspec.structs.replace(lost(error, self.claim.epoch, number, attempt), by_driver=True)
        self._view.note(failure)
        with suppress(TidegateError):
            tell(self._means.log, self._means.run.manifest.app, failure, self._means.clock.now())


class _FatalError(Exception):
    """The driver itself cannot write any more; the error is kept."""
