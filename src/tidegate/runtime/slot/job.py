"""The job of a slot, on an executor or in any other process.

1 open the writer, fencing an older holder; 2 read the control topic to its end: a newer epoch, a newer
attempt of this slot or a stop ends the job before it does anything; 3 land: remove unused state, and publish
the host and the state that it holds; 4 wait for the plan of this epoch; 5 open the tasks from the committed
positions; 6 loop: read, process, fire timers, commit each interval, follow the control topic, and hourly free
disk space on the host; 7 when a stop is requested: finish, commit, close.

After a fence only the newest attempt opens its writer again: an expired transaction and a real zombie look
the same from here, and the control topic distinguishes them. The job waits for a log that does not answer,
also to a commit, and then repeats from 1: the new writer settles the open transaction, and the positions that
are read after it show how. It also repeats from 1 when the log refuses a record (`refused_records`), and when
state is damaged: the slot finds the damage itself, or `tidegate state check --repair` marks a folder, and
marked state is rebuilt when opened.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from tidegate.clock import Clock
from tidegate.errors import FencedError, LogError, StateError, TidegateError
from tidegate.log import names
from tidegate.log.faultpoints import reach
from tidegate.log.protocol import Log, Writer
from tidegate.runtime.slot.host import folders_here, host_name, machine_name
from tidegate.runtime.slot.pace import REPLAY_OPEN_SECONDS
from tidegate.runtime.slot.purger import Purger
from tidegate.runtime.slot.refused_records import Refusals, ReopenSlot
from tidegate.runtime.slot.restore_progress import RestoreProgress
from tidegate.runtime.slot.slot import Slot
from tidegate.runtime.slot.slot_drain import SlotDrain
from tidegate.runtime.slot.slot_numbers import slot_numbers
from tidegate.runtime.slot.slot_run import SlotRun
from tidegate.runtime.topics.control import ROLE, Control, ControlFollower, SlotPlan
from tidegate.runtime.topics.failures import failure_of
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.runtime.topics.status import Ended, Landing, Warned, publish_status
from tidegate.state.changelog import DELETE_RETENTION_MS
from tidegate.state.cleanup import Cleanup, NeededState, Room
from tidegate.state.manager import Limits
from tidegate.state.protocol import RestoreListener
from tidegate.types import Offset, TopicPartition

IDLE_SECONDS = 0.02
CONTROL_POLL_SECONDS = 0.5
"""How often the control topic is read, however rare commits are."""
WAIT_SECONDS = 0.2
REOPENINGS = 5
UNREACHABLE, UNKNOWN = "log-unreachable", "commit-unknown"
REOPENED_AFTER = (UNREACHABLE, UNKNOWN, "offset-unknown")
"""After these errors everything is reopened and continues from the positions, which show what was
committed."""
logger = logging.getLogger("tidegate.slot")


@dataclass(frozen=True, slots=True)
class SlotIntervals:
    """Intervals of a slot's background work."""

    report_seconds: float = 1.0
    """How often it publishes its numbers."""
    purge_seconds: float = 30.0
    make_room_after_seconds: float = 60.0
    """By then all tasks that are assigned to this host have locked their folders."""
    make_room_seconds: float = 3600.0


SLOT_INTERVALS = SlotIntervals()


class SlotJob:
    """One attempt of one slot."""

    def __init__(
        self,
        order: SlotOrder,
        run: SlotRun,
        log: Log,
        clock: Clock,
        intervals: SlotIntervals = SLOT_INTERVALS,
    ) -> None:
        self._order = order
        self._run = run
        self._log = log
        self._clock = clock
        self._intervals = intervals
        self._state_dir = Path(order.folder) / (os.environ.get("TIDEGATE_STATE_DIR") or order.state_dir)
        self._records = self._skipped = self._dead_letters = 0
        self._next_report = time.monotonic()
        self._progress = RestoreProgress(self._warn)
        self._warned: set[tuple[str, str]] = set()
        self._refusals = Refusals()
        self._purger = Purger(log)

    def run(self) -> Iterator[None]:
        """Run until a stop is requested. Yields about once a second."""
        reopened, first = 0, True
        while True:
            try:
                if not first and self._superseded():
                    break
                first = False
                yield from self._run_once()
            except FencedError:
                reopened += 1
                if reopened > REOPENINGS:
                    break
            except ReopenSlot as again:
                self._warn(again.why)
            except StateError as error:
                reopened += 1
                self._reopen_after(error, reopened)
            except Exception as error:
                if not isinstance(error, LogError) or error.code not in REOPENED_AFTER:
                    self._publish_failure(error)
                    raise
                yield from self._await_log(error)
            else:
                break
        order = self._order
        publish_status(
            self._log,
            order.app_id,
            Ended(order.epoch, order.slot, order.attempt, self._records, self._skipped, self._dead_letters),
            self._clock.now(),
        )

    def _reopen_after(self, error: StateError, reopened: int) -> None:
        """Continue after damaged state, which is rebuilt when it is opened again; raise other errors."""
        if error.code != "corrupt-state" or reopened > REOPENINGS:
            self._publish_failure(error)
            raise error
        self._warn(error)

    def _await_log(self, why: LogError) -> Iterator[None]:
        """Wait until the log answers, for as long as it takes: a restart of the job would have to wait too. A
        log that is unusable (`commit-unknown`) is not waited for: it must be opened by a new attempt."""
        while True:
            try:
                self._log.check()
            except LogError as error:
                if error.code == UNKNOWN:
                    raise
                if self._report_due():
                    yield
                time.sleep(WAIT_SECONDS)
            else:
                break
        if why.code != UNREACHABLE:
            with suppress(LogError):
                self._warn(why)

    def _run_once(self) -> Iterator[None]:
        order = self._order
        reach("slot.1")
        replays = order.replay is not None
        writer = self._log.writer(order.writer, open_seconds=REPLAY_OPEN_SECONDS if replays else None)
        try:
            reach("slot.2")
            with closing(ControlFollower(self._log, order.app_id)) as control:
                if self._must_end(control.current):
                    return
                reach("slot.3")
                self._clean_up()
                self._land()
                plan = yield from self._planned(control)
                if plan is None:
                    return
                reach("slot.5")
                self._run.check_topics(control.current.plan(ROLE))
                slot = open_slot(
                    self._run, order, plan, self._state_dir, writer, self._progress, self._refusals
                )
                try:
                    yield from self._loop(slot, control)
                finally:
                    slot.drop()
        finally:
            with suppress(TidegateError):
                writer.close()

    def _land(self) -> None:
        order = self._order
        folders = folders_here(self._state_dir, order.app_id)
        landing = Landing(
            order.epoch, order.slot, order.attempt, host_name(), os.getpid(), machine_name(), folders
        )
        publish_status(self._log, order.app_id, landing, self._clock.now())

    def _planned(self, control: ControlFollower) -> Generator[None, None, SlotPlan | None]:
        """Wait for the plan: step 4. Returns None if there is nothing to do for this slot any more."""
        order = self._order
        reach("slot.4")
        while not self._must_end(control.current):
            plan = control.current.plan(ROLE)
            if plan.epoch == order.epoch:
                return next((one for one in plan.slots if one.slot == order.slot), None)
            control.poll(0.1)
            if self._report_due():
                yield
        return None

    def _loop(self, slot: Slot, control: ControlFollower) -> Iterator[None]:
        interval = longest = self._order.commit_interval_ms / 1000
        commit_due = time.monotonic() + interval
        control_due = time.monotonic() + min(interval, CONTROL_POLL_SECONDS)
        purge_due = time.monotonic() + self._intervals.purge_seconds
        room_due = time.monotonic() + self._intervals.make_room_after_seconds
        longest_idle_ms = self._longest_idle_ms()
        drain = SlotDrain(slot, self._order.epoch, self._clock)
        drain.follow(control.current)
        while True:
            now = time.monotonic()
            slot.step(wait=max(0.0, min(commit_due - now, IDLE_SECONDS)), until=min(commit_due, control_due))
            if time.monotonic() >= commit_due or slot.finishing():
                slot.commit()
                commit_due = max(commit_due + interval, time.monotonic() + interval / 2)
                if commit_due > purge_due:
                    self._purge(slot.purgeable())
                    purge_due = commit_due + self._intervals.purge_seconds
                if commit_due > room_due:
                    self._clean_up(Room(self._clock.now(), longest_idle_ms, self._order.state_budget_bytes))
                    room_due = commit_due + self._intervals.make_room_seconds
            if time.monotonic() < control_due:
                continue
            control_due = time.monotonic() + min(interval, CONTROL_POLL_SECONDS)
            control.poll()
            if self._superseded_by(control.current):
                return
            if self._must_end(control.current):
                reach("slot.7")
                self._count(slot)
                slot.commit()
                self._warn_of_batches(slot)
                purgeable, committed = slot.purgeable(), slot.committed()
                slot.close()
                self._mirror(committed)
                self._purge(purgeable)
                return
            drain.follow(control.current)
            interval = drain.commit_seconds(longest)
            commit_due = min(commit_due, time.monotonic() + interval)
            if self._report_due() or drain.report_due():
                for task in slot.tasks:
                    task.state.environment.check_undamaged()
                self._publish_numbers(slot, drain.rests_until)
                self._mirror(slot.committed())
                yield

    def _mirror(self, committed: Mapping[TopicPartition, Offset]) -> None:
        """Publish the positions for tools of users; those of a replay are of no use to them."""
        if self._order.replay is None:
            self._log.mirror(self._order.app_id, committed)

    def _purge(self, purgeable: Mapping[TopicPartition, Offset]) -> None:
        for problem in self._purger.run(purgeable):
            self._warn(problem)

    # --- the host's folders ---------------------------------------------------------------------------

    def _clean_up(self, room: Room | None = None) -> None:
        """Remove unused state from this host. Problems are reported as warnings; they do not stop the
        slot."""
        manifest, tasks = self._run.manifest, frozenset(task for _, task in self._run.tasks())
        cleanup = Cleanup(
            self._state_dir, NeededState(manifest.app, self._log.id, manifest.generation, tasks)
        )
        cleanup.run(room)
        if room is not None and not names.of_preview(manifest.app):
            for unused in (names.preview(manifest.app), names.upgrade(manifest.app)):
                # what a recalculation left on this host
                Cleanup(self._state_dir, NeededState(unused, self._log.id, 1, frozenset())).run()
        for path, reason in cleanup.removed.items():
            logger.info("app %s, slot %d: removed %s: %s", manifest.app, self._order.slot, path, reason)
        for problem in cleanup.problems:
            self._warn(problem)

    def _longest_idle_ms(self) -> int:
        """Return after how many milliseconds every restore discards state that was not used here."""
        topics = {store.changelog for store in self._run.manifest.stores.values() if store.changelog}
        kept = (self._log.describe(topic).setting("delete.retention.ms") for topic in topics)
        return max(kept, default=DELETE_RETENTION_MS) // 2

    # --- whether to continue --------------------------------------------------------------------------

    def _must_end(self, control: Control) -> bool:
        return self._superseded_by(control) or control.stopped(ROLE) >= self._order.epoch

    def _superseded_by(self, control: Control) -> bool:
        order, newest = self._order, control.attempt(ROLE, self._order.slot)
        newer = (newest.epoch, newest.attempt) > (order.epoch, order.attempt)
        return newer or control.epoch(ROLE) > order.epoch or control.active() > order.generation

    def _superseded(self) -> bool:
        with closing(ControlFollower(self._log, self._order.app_id)) as control:
            return self._superseded_by(control.current)

    # --- what it publishes ----------------------------------------------------------------------------

    def _report_due(self) -> bool:
        if time.monotonic() < self._next_report:
            return False
        self._next_report = time.monotonic() + self._intervals.report_seconds
        return True

    def _publish_numbers(self, slot: Slot, rests_until: int) -> None:
        order, now = self._order, self._clock.now()
        per_second = (slot.records - self._records) / self._intervals.report_seconds
        self._count(slot)
        numbers = slot_numbers(order, slot, self._progress, now, per_second, rests_until)
        publish_status(self._log, order.app_id, numbers, now)
        self._warn_of_batches(slot)

    def _count(self, slot: Slot) -> None:
        self._records = slot.records
        self._skipped = sum(task.skipped for task in slot.tasks)
        self._dead_letters = sum(task.dead_letters.count for task in slot.tasks)

    def _warn_of_batches(self, slot: Slot) -> None:
        for task in slot.tasks:
            if task.batches_taken_apart:
                self._warn(
                    StateError(
                        "batch-taken-apart",
                        f"task {task.id}: a batch failed as a whole and was processed record by record",
                        "see the dead letters or skipped records; with none, a function depends on batches",
                    )
                )

    def _warn(self, problem: TidegateError) -> None:
        """Report a problem once: to the log of this process and to the status topic. If the log fails, its
        error is raised and the problem is reported again next time."""
        order, reported = self._order, (problem.code, problem.message)
        if reported not in self._warned:
            logger.warning("app %s, slot %d: %s", order.app_id, order.slot, problem)
            warning = Warned(order.epoch, order.slot, order.attempt, *reported, problem.hint)
            publish_status(self._log, order.app_id, warning, self._clock.now())
            self._warned.add(reported)

    def _publish_failure(self, error: Exception) -> None:
        """Publish the error that ends the job, if the log can be written."""
        order = self._order
        failure = failure_of(error, order.epoch, order.slot, order.attempt)
        with suppress(TidegateError):
            publish_status(self._log, order.app_id, failure, self._clock.now())


def open_slot(
    run: SlotRun,
    order: SlotOrder,
    plan: SlotPlan,
    state_dir: Path,
    writer: Writer,
    listener: RestoreListener,
    refusals: Refusals | None = None,
    limits: Limits | None = None,
) -> Slot:
    """Open the tasks of one attempt of a slot: step 5."""
    return run.slot(
        plan,
        order.epoch,
        state_dir,
        limits,
        listener,
        attempt=order.attempt,
        writer=writer,
        pinned=_pins(order),
        refusals=refusals,
    )


def _pins(order: SlotOrder) -> dict[TopicPartition, int] | None:
    if order.pinned is None:
        return None
    return {
        TopicPartition(topic, partition): end
        for topic, ends in order.pinned.items()
        for partition, end in ends.items()
    }
