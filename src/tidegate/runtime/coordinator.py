"""The driver of an app: takes it over, starts its slots, restarts those that fail, and ends them.

It knows nothing of Spark. A launcher runs a slot's job somewhere and returns when the job has ended.

    starting ── plan written ──> running ── stop asked for ──> stopping ──> stopped
        └──────────────┴── budget spent, another driver, no slot lands ──> failed
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from tidegate.clock import Clock
from tidegate.errors import FencedError, LogError, TidegateError, first_line
from tidegate.log.protocol import Log
from tidegate.runtime.assign import assign
from tidegate.runtime.caught_up import CaughtUp
from tidegate.runtime.control import ControlFollower
from tidegate.runtime.host import machine_name
from tidegate.runtime.order import SlotOrder
from tidegate.runtime.start import Run
from tidegate.runtime.status import Ended, Failure, Landing, Numbers, StatusFollower
from tidegate.runtime.takeover import ROLE, Claim, ask_to_stop, take_over

TICK_SECONDS = 0.1


class Launcher(Protocol):
    """Where slots run."""

    def launch(self, order: SlotOrder) -> None:
        """Run a slot's job; returns when it has ended, raises if it failed."""
        ...

    def cancel(self, slot: int) -> None:
        """End a slot's job without asking it."""
        ...


class State(Enum):
    """Where the driver is."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long things may take, and how often they may fail."""

    landing_seconds: float = 60.0
    stop_seconds: float = 8.0
    failures: int = 5
    within_seconds: float = 60.0
    back_off_seconds: float = 0.2
    longest_back_off_seconds: float = 5.0


@dataclass(slots=True)
class View:
    """What is known of the slots."""

    landings: dict[int, Landing] = field(default_factory=dict)
    numbers: dict[int, Numbers] = field(default_factory=dict)
    failures: deque[tuple[float, Failure]] = field(default_factory=lambda: deque(maxlen=100))
    restarts: int = 0
    records: int = 0


class Coordinator:
    """Runs one app until it is stopped."""

    def __init__(
        self,
        run: Run,
        log: Log,
        launcher: Launcher,
        order: Callable[[Claim, int, int], SlotOrder],
        slots: int,
        clock: Clock,
        *,
        patience: Patience | None = None,
        until_caught_up: CaughtUp | None = None,
        one_machine: bool = False,
    ) -> None:
        """`order` makes the order of a slot's attempt; `one_machine` refuses slots on other machines."""
        self._run = run
        self._log = log
        self._launcher = launcher
        self._order = order
        self._clock = clock
        self._patience = patience or Patience()
        self._caught_up = until_caught_up
        self._one_machine = one_machine
        self._lock = threading.Lock()
        self._stop_asked = threading.Event()
        self._claim: Claim | None = None
        self._ended: set[int] = set()
        self._fatal: TidegateError | None = None
        self._threads: dict[int, threading.Thread] = {}
        self._count = min(slots, len(run.tasks()))
        self.state = State.STARTING
        self.error: TidegateError | None = None
        self.view = View()

    @property
    def epoch(self) -> int:
        return self._claim.epoch if self._claim else 0

    def run(self) -> None:
        """All of it, in this thread. Raises what made the app fail."""
        app = self._run.manifest.app
        status = StatusFollower(self._log, app)
        control: ControlFollower | None = None
        try:
            self._claim = take_over(self._log, app, self._run.manifest.generation, self._clock)
            control = ControlFollower(self._log, app)
            self._start_slots()
            self._await_landings(status, control)
            self._plan()
            self.state = State.RUNNING
            self._follow(status, control)
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            self._end(status)
            status.close()
            if control is not None:
                control.close()
            if self._claim is not None:
                self._claim.close()

    def stop(self) -> None:
        """Ask for the end; `run` returns when everything is committed and closed. From any thread."""
        self._stop_asked.set()

    # --- steps of a run -------------------------------------------------------------------------------

    def _start_slots(self) -> None:
        for slot in range(self._count):
            thread = threading.Thread(target=self._keep, args=(slot,), name=f"tidegate-slot-{slot}")
            thread.daemon = True
            self._threads[slot] = thread
            thread.start()

    def _await_landings(self, status: StatusFollower, control: ControlFollower) -> None:
        deadline = time.monotonic() + self._patience.landing_seconds
        while len(self.view.landings) < self._count and not self._stop_asked.is_set():
            self._read(status, TICK_SECONDS)
            self._check(control)
            if time.monotonic() > deadline:
                break
        if not self.view.landings and not self._stop_asked.is_set():
            raise LogError(
                "no-landing",
                f"no slot of {self._count} started within {self._patience.landing_seconds:g} s",
                "has the cluster free cores? look at its page, or lower the number of slots",
            )
        here = machine_name()
        if self._one_machine and any(landing.machine != here for landing in self.view.landings.values()):
            raise LogError(
                "log-on-one-machine",
                "a sqlite log lies on one machine, and executors run on others",
                "use a kafka:// log, or --master local[*]",
            )

    def _plan(self) -> None:
        """Step 5 of the start. A slot that did not land in time is not waited for."""
        if self._stop_asked.is_set():
            return
        assert self._claim is not None  # noqa: S101 - set by run
        landed = dict(self.view.landings)
        for slot in set(self._threads) - set(landed):
            self._ended.add(slot)
            self._launcher.cancel(slot)
        given = assign([task for _, task in self._run.tasks()], landed)
        hosts = {slot: landing.host for slot, landing in landed.items()}
        with self._lock:
            self._run.append_first_positions(self._claim.writer)
            self._claim.write_plan(given, hosts, self._clock.now())

    def _follow(self, status: StatusFollower, control: ControlFollower) -> None:
        while not self._stop_asked.is_set():
            self._read(status, TICK_SECONDS)
            self._check(control)
            if control.now.stopped(ROLE) >= self.epoch:
                return
            if self._caught_up is not None and self._caught_up.reached():
                return

    def _end(self, status: StatusFollower) -> None:
        """Ask the slots to finish and wait; then end what is left."""
        if self.state is not State.FAILED:
            self.state = State.STOPPING
        self._stop_asked.set()
        if self._claim is not None:
            ask_to_stop(self._log, self._run.manifest.app, f"{self.epoch}", self._clock.now(), self.epoch)
        deadline = time.monotonic() + self._patience.stop_seconds
        for thread in self._threads.values():
            while thread.is_alive() and time.monotonic() < deadline:
                self._read(status, 0.0)
                thread.join(TICK_SECONDS / 2)
        for slot, thread in self._threads.items():
            if thread.is_alive():
                self._launcher.cancel(slot)
                thread.join(2.0)
        self._read(status, 0.0)
        if self.state is State.STOPPING:
            self.state = State.STOPPED

    # --- slots ----------------------------------------------------------------------------------------

    def _keep(self, slot: int) -> None:
        """Start a slot's job again and again, each time as a new attempt."""
        attempt, wait = 0, self._patience.back_off_seconds
        while not self._stop_asked.is_set() and slot not in self._ended:
            attempt += 1
            began = time.monotonic()
            try:
                order = self._order_of(slot, attempt)
            except TidegateError as error:
                self._fatal = self._fatal or error
                return
            try:
                self._launcher.launch(order)
            except Exception as error:  # noqa: BLE001 - counted, and told by the budget
                self._note(slot, attempt, error)
            else:
                if self._stop_asked.is_set() or slot in self._ended:
                    return
            self.view.restarts += 1
            if time.monotonic() - began > self._patience.within_seconds:
                wait = self._patience.back_off_seconds
            self._stop_asked.wait(wait)
            wait = min(2 * wait, self._patience.longest_back_off_seconds)

    def _order_of(self, slot: int, attempt: int) -> SlotOrder:
        assert self._claim is not None  # noqa: S101 - set by run
        with self._lock:
            self._claim.begin_attempt(slot, attempt, self._clock.now())
        return self._order(self._claim, slot, attempt)

    def _note(self, slot: int, attempt: int, error: Exception) -> None:
        """A job that failed without telling why: it was killed, or never began."""
        if isinstance(error, TidegateError):
            said = error.code, error.message, error.hint
        else:
            said = "slot-lost", f"slot {slot} ended: {first_line(error)}", "see the cluster's log of the job"
        failure = Failure(self.epoch, slot, attempt, *said)
        if not any((one.slot, one.attempt) == (slot, attempt) for _, one in list(self.view.failures)):
            self.view.failures.append((time.monotonic(), failure))

    def _check(self, control: ControlFollower) -> None:
        """Raise for what ends the app: another driver, a writer that failed, a budget that is spent."""
        control.poll()
        if control.now.epoch(ROLE) > self.epoch:
            raise FencedError(f"driver of {self._run.manifest.app}", self.epoch, control.now.epoch(ROLE))
        if self._fatal is not None:
            raise self._fatal
        self._check_budget()

    def _check_budget(self) -> None:
        since = time.monotonic() - self._patience.within_seconds
        recent = [failure for at, failure in list(self.view.failures) if at >= since]
        if len(recent) > self._patience.failures:
            cause = _cause(recent)
            raise LogError(cause.code, f"{cause.message} ({len(recent)} failures of slots)", cause.hint)

    def _read(self, status: StatusFollower, wait: float) -> None:
        for one in status.poll(wait):
            if one.epoch != self.epoch:
                continue
            match one:
                case Landing():
                    self.view.landings[one.slot] = one
                case Numbers():
                    self.view.numbers[one.slot] = one
                case Failure():
                    self._take_failure(one)
                case Ended():
                    self.view.records += one.records

    def _take_failure(self, failure: Failure) -> None:
        """What the slot itself told counts more than how its job looked from outside."""
        for index, (at, one) in enumerate(self.view.failures):
            if (one.slot, one.attempt) == (failure.slot, failure.attempt):
                self.view.failures[index] = at, failure
                return
        self.view.failures.append((time.monotonic(), failure))

    def _fail(self, error: BaseException) -> None:
        self.state = State.FAILED
        if isinstance(error, TidegateError):
            self.error = error


def _cause(failures: list[Failure]) -> Failure:
    """The first that says more than that a job was lost."""
    return next((one for one in failures if one.code != "slot-lost"), failures[0])
