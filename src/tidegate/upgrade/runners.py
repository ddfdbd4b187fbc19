"""Where the tasks of a recalculation run: in this process, or as the jobs of slots that a launcher starts.
The batches of a DataFrame stage run on Spark in both cases."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from tidegate.clock import Clock
from tidegate.errors import ConfigError, LogError
from tidegate.runtime.driver.caught_up import CHECK_SECONDS
from tidegate.runtime.driver.coordinator import Coordinator, DriverResources, Launcher, Patience
from tidegate.runtime.driver.run import Run
from tidegate.runtime.driver.takeover import Claim, take_over
from tidegate.runtime.slot.slot import Slot
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.state.manager import Limits
from tidegate.upgrade.cut import by_topic
from tidegate.upgrade.recalculate import Pins, Step

WAIT_SECONDS = 0.05
COMMIT_INTERVAL_MS = 3000
"""A replay has no reader to hurry for, and fewer commits fold more rows."""


class RunningStage(Protocol):
    """A DataFrame stage that runs batch after batch."""

    def step(self) -> bool:
        """Process one batch. Returns whether there was something to do."""
        ...


OpenStages = Callable[[Run], Sequence[RunningStage]]
"""Opens the stages of a run by its written plan."""


def no_session(run: Run) -> Sequence[RunningStage]:
    """Raise ConfigError `no-session`: nothing here runs DataFrame stages."""
    raise ConfigError(
        "no-session",
        f"{run.manifest.app!r} has the DataFrame stage {run.stages()[0].name!r}, which runs on Spark",
        "pass a session: Driver(app, spark=...)",
    )


class InProcess:
    """Runs the tasks in this thread, one slot after the other. For small apps and tests."""

    def __init__(
        self,
        state_dir: Path,
        slots: int = 1,
        limits: Limits | None = None,
        commit_seconds: float = COMMIT_INTERVAL_MS / 1000,
        open_stages: OpenStages = no_session,
    ) -> None:
        self._state_dir = state_dir
        self._slots = slots
        self._limits = limits
        self._commit_seconds = commit_seconds
        self._open_stages = open_stages

    def run(self, run: Run, pinned: Pins, step: Step) -> None:
        if run.stages():
            self._run_stages(run, step)
            return
        slots = self._opened(run, pinned)
        try:
            busy, due = True, time.monotonic() + self._commit_seconds
            while not all(_finished(slot) for slot in slots):
                wait = 0.0 if busy else WAIT_SECONDS
                busy, commits = False, time.monotonic() >= due
                for slot in slots:
                    busy |= slot.step(wait)
                    if commits or slot.finishing():
                        slot.commit()
                if commits:
                    step.report()
                    due = time.monotonic() + self._commit_seconds
            for slot in slots:
                slot.close()
        finally:
            for slot in slots:
                slot.drop()

    def _run_stages(self, run: Run, step: Step) -> None:
        manifest = run.manifest
        with closing(take_over(run.log, manifest.app, manifest.generation, run.context.clock)) as claim:
            run.plan(claim, {}, {})
        for stage in self._open_stages(run):
            while stage.step():
                step.report()

    def _opened(self, run: Run, pinned: Pins) -> list[Slot]:
        return run.slots(self._state_dir, self._slots, self._limits, pinned=pinned)


def _finished(slot: Slot) -> bool:
    return not slot.restoring and all(task.finished() and not task.moved() for task in slot.tasks)


@dataclass(frozen=True, slots=True)
class OnSlots:
    """Runs the tasks on slots: one epoch of a driver per step."""

    launcher: Launcher
    order: Callable[[Claim, int, int], SlotOrder]
    """Creates the order of a slot; the bounds of the replay are added to it."""
    clock: Clock
    patience: Patience
    slots: int | None = None
    machine: str | None = None

    def run(self, run: Run, pinned: Pins, step: Step) -> None:
        def order(claim: Claim, slot: int, attempt: int) -> SlotOrder:
            return msgspec.structs.replace(
                self.order(claim, slot, attempt),
                app_id=run.manifest.app,
                pinned=by_topic(pinned),
                replay=run.context.replay,
                on_error=run.context.on_error,
                commit_interval_ms=COMMIT_INTERVAL_MS,
            )

        resources = DriverResources(run, run.log, self.launcher, order, self.clock, self.patience)
        Coordinator(resources, self.slots, until_caught_up=_StepEnd(step), machine=self.machine).run()
        if not step.reached():
            raise LogError(
                "recalculation-stopped",
                f"the recalculation of {run.manifest.app!r} was stopped before it had finished",
                "start it again",
            )


class _StepEnd:
    """Checks now and then whether a step has finished."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._next_check = 0.0

    def reached(self) -> bool:
        if time.monotonic() < self._next_check:
            return False
        self._next_check = time.monotonic() + CHECK_SECONDS
        try:
            return self._step.reached()
        except LogError as error:
            if not error.retryable:
                raise
            return False
