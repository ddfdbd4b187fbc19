"""What runs inside a slot's job, on an executor or anywhere else.

1 open the writer, fencing an older holder; 2 read the control topic to its end: a newer epoch, a newer
attempt of this slot or a stop ends the job before it did anything; 3 land: remove state that is of no use any
more, tell the host, and what state lies here; 4 wait for the plan of this epoch; 5 open the tasks from the
committed positions; 6 loop: read, process, fire timers, commit each interval, follow the control topic, and
hourly make room on the host; 7 told to stop: finish, commit, close.

After a fence only the newest attempt opens its writer again: an expired transaction and a real zombie look
the same from here, and the control topic tells them apart. A log that does not answer, also to a commit, is
waited for; then all begins anew with 1: a new writer makes the log decide, and the positions that are read
after it show how. So it does when the log refuses a record (`refusals`), and when state is damaged: the slot
finds that itself, or `tidegate state check --repair` marks a folder; what is marked is rebuilt when opened.
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
from tidegate.gate.task_gates import gate_numbers
from tidegate.log.faultpoints import reach
from tidegate.log.protocol import Log, Writer
from tidegate.runtime.slot.host import folders_here, host_name, machine_name
from tidegate.runtime.slot.purger import Purger
from tidegate.runtime.slot.refused_records import Refusals, ReopenSlot
from tidegate.runtime.slot.restore_progress import Progress
from tidegate.runtime.slot.slot import Slot
from tidegate.runtime.slot.slot_run import SlotRun
from tidegate.runtime.topics.control import ROLE, Control, ControlFollower, SlotPlan
from tidegate.runtime.topics.failures import failure_of
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.runtime.topics.status import Ended, Landing, Numbers, Warned, tell
from tidegate.state.changelog import DELETE_RETENTION_MS
from tidegate.state.cleanup import Cleanup, Needs, Room
from tidegate.state.manager import Limits
from tidegate.state.protocol import RestoreListener
from tidegate.types import Offset, TopicPartition

IDLE_SECONDS = 0.02
LOOK_SECONDS = 0.5
"""How often the control topic is read, however seldom there are commits."""
WAIT_SECONDS = 0.2
REOPENINGS = 5
UNREACHABLE, UNKNOWN = "log-unreachable", "commit-unknown"
OPENED_AGAIN = (UNREACHABLE, UNKNOWN, "offset-unknown")
"""After these the positions show what counts: everything is opened again and goes on from there."""
logger = logging.getLogger("tidegate.slot")


@dataclass(frozen=True, slots=True)
class Chores:
    """How often a slot does what can wait."""

    beat_seconds: float = 1.0
    """It tells its numbers."""
    purge_seconds: float = 30.0
    make_room_after_seconds: float = 60.0
    """By then all tasks that were given to this host hold their folders."""
    make_room_seconds: float = 3600.0


CHORES = Chores()


class SlotJob:
    """One start of one slot."""

    def __init__(
        self, order: SlotOrder, run: SlotRun, log: Log, clock: Clock, chores: Chores = CHORES
    ) -> None:
        self._order = order
        self._run = run
        self._log = log
        self._clock = clock
        self._chores = chores
        self._state_dir = Path(order.folder) / (os.environ.get("TIDEGATE_STATE_DIR") or order.state_dir)
        self._records = self._skipped = self._dead_letters = 0
        self._beat = time.monotonic()
        self._progress = Progress(self._warn)
        self._warned: set[tuple[str, str]] = set()
        self._refusals = Refusals()
        self._purger = Purger(log)

    def run(self) -> Iterator[None]:
        """Work until told to stop; yields about once a second."""
        reopened, first = 0, True
        while True:
            try:
                if not first and self._superseded():
                    break
                first = False
                yield from self._work()
            except FencedError:
                reopened += 1
                if reopened > REOPENINGS:
                    break
            except ReopenSlot as again:
                self._warn(again.why)
            except StateError as error:
                reopened += 1
                self._open_again_after(error, reopened)
            except Exception as error:
                if not isinstance(error, LogError) or error.code not in OPENED_AGAIN:
                    self._tell_failure(error)
                    raise
                yield from self._await_log(error)
            else:
                break
        order = self._order
        tell(
            self._log,
            order.app_id,
            Ended(order.epoch, order.slot, order.attempt, self._records, self._skipped, self._dead_letters),
            self._clock.now(),
        )

    def _open_again_after(self, error: StateError, reopened: int) -> None:
        """Damage goes away with that: what is damaged is marked, and rebuilt when it is opened."""
        if error.code != "corrupt-state" or reopened > REOPENINGS:
            self._tell_failure(error)
            raise error
        self._warn(error)

    def _await_log(self, why: LogError) -> Iterator[None]:
        """However long that takes: the driver could do no better, and a new start would find it no sooner.
        A log that is spent is not waited for: it must be opened again, by another start."""
        while True:
            try:
                self._log.check()
            except LogError as error:
                if error.code == UNKNOWN:
                    raise
                if self._beats():
                    yield
                time.sleep(WAIT_SECONDS)
            else:
                break
        if why.code != UNREACHABLE:
            with suppress(LogError):
                self._warn(why)

    def _work(self) -> Iterator[None]:
        order = self._order
        reach("slot.1")
        writer = self._log.writer(order.writer)
        try:
            reach("slot.2")
            with closing(ControlFollower(self._log, order.app_id)) as control:
                if self._must_end(control.now):
                    return
                reach("slot.3")
                self._clean_up()
                self._land()
                plan = yield from self._planned(control)
                if plan is None:
                    return
                reach("slot.5")
                self._run.check_topics(control.now.plan(ROLE))
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
        tell(self._log, order.app_id, landing, self._clock.now())

    def _planned(self, control: ControlFollower) -> Generator[None, None, SlotPlan | None]:
        """Step 4; None if there is nothing to do for this slot any more."""
        order = self._order
        reach("slot.4")
        while not self._must_end(control.now):
            plan = control.now.plan(ROLE)
            if plan.epoch == order.epoch:
                return next((one for one in plan.slots if one.slot == order.slot), None)
            control.poll(0.1)
            if self._beats():
                yield
        return None

    def _loop(self, slot: Slot, control: ControlFollower) -> Iterator[None]:
        interval = self._order.commit_interval_ms / 1000
        due = time.monotonic() + interval
        look = time.monotonic() + min(interval, LOOK_SECONDS)
        purge_due = time.monotonic() + self._chores.purge_seconds
        room_due = time.monotonic() + self._chores.make_room_after_seconds
        sleep_ms = self._longest_sleep()
        while True:
            now = time.monotonic()
            slot.turn(wait=max(0.0, min(due - now, IDLE_SECONDS)), until=min(due, look))
            if time.monotonic() >= due:
                slot.commit()
                due = max(due + interval, time.monotonic() + interval / 2)
                if due > purge_due:
                    self._purge(slot.behind())
                    purge_due = due + self._chores.purge_seconds
                if due > room_due:
                    self._clean_up(Room(self._clock.now(), sleep_ms, self._order.state_budget_bytes))
                    room_due = due + self._chores.make_room_seconds
            if time.monotonic() < look:
                continue
            look = time.monotonic() + min(interval, LOOK_SECONDS)
            control.poll()
            if self._superseded_by(control.now):
                return
            if self._must_end(control.now):
                reach("slot.7")
                self._count(slot)
                slot.commit()
                self._warn_of_batches(slot)
                behind, committed = slot.behind(), slot.committed()
                slot.close()
                self._log.mirror(self._order.app_id, committed)
                self._purge(behind)
                return
            if self._beats():
                for task in slot.tasks:
                    task.state.environment.check_undamaged()
                self._tell_numbers(slot)
                self._log.mirror(self._order.app_id, slot.committed())
                yield

    def _purge(self, behind: Mapping[TopicPartition, Offset]) -> None:
        for problem in self._purger.run(behind):
            self._warn(problem)

    # --- the host's folders ---------------------------------------------------------------------------

    def _clean_up(self, room: Room | None = None) -> None:
        """What goes wrong with it is told, and stops nobody."""
        manifest, tasks = self._run.manifest, frozenset(task for _, task in self._run.tasks())
        needs = Needs(manifest.app, self._log.id, manifest.generation, tasks)
        cleanup = Cleanup(self._state_dir, needs)
        cleanup.run(room)
        for path, reason in cleanup.removed.items():
            logger.info("app %s, slot %d: removed %s: %s", manifest.app, self._order.slot, path, reason)
        for problem in cleanup.problems:
            self._warn(problem)

    def _longest_sleep(self) -> int:
        """After so many milliseconds every restore discards what slept here."""
        topics = {store.changelog for store in self._run.manifest.stores.values() if store.changelog}
        kept = (self._log.describe(topic).setting("delete.retention.ms") for topic in topics)
        return max(kept, default=DELETE_RETENTION_MS) // 2

    # --- who goes on ----------------------------------------------------------------------------------

    def _must_end(self, control: Control) -> bool:
        return self._superseded_by(control) or control.stopped(ROLE) >= self._order.epoch

    def _superseded_by(self, control: Control) -> bool:
        order, newest = self._order, control.attempt(ROLE, self._order.slot)
        newer = (newest.epoch, newest.attempt) > (order.epoch, order.attempt)
        return newer or control.epoch(ROLE) > order.epoch

    def _superseded(self) -> bool:
        with closing(ControlFollower(self._log, self._order.app_id)) as control:
            return self._superseded_by(control.now)

    # --- what is told ---------------------------------------------------------------------------------

    def _beats(self) -> bool:
        if time.monotonic() < self._beat:
            return False
        self._beat = time.monotonic() + self._chores.beat_seconds
        return True

    def _tell_numbers(self, slot: Slot) -> None:
        order = self._order
        fresh = slot.records - self._records
        self._count(slot)
        numbers = Numbers(
            order.epoch,
            order.slot,
            at=self._clock.now(),
            records=slot.records,
            per_second=fresh / self._chores.beat_seconds,
            lag=slot.lag(),
            skipped=self._skipped,
            running=len(slot.tasks),
            restoring=slot.restoring,
            restored=self._progress.done,
            to_restore=self._progress.wanted,
            rebuilt=self._progress.rebuilt,
            emptied=self._progress.emptied,
            gaps=self._progress.gaps,
            batches_taken_apart=sum(task.batches_taken_apart for task in slot.tasks),
            gates=gate_numbers(task.gates for task in slot.tasks),
            null_values=sum(task.null_values.count for task in slot.tasks),
            dead_letters=self._dead_letters,
        )
        tell(self._log, order.app_id, numbers, self._clock.now())
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
        """Each thing once: in the log of this process and in the status topic. Raises what the log raises;
        then it comes again."""
        order, told = self._order, (problem.code, problem.message)
        if told not in self._warned:
            logger.warning("app %s, slot %d: %s", order.app_id, order.slot, problem)
            warning = Warned(order.epoch, order.slot, order.attempt, *told, problem.hint)
            tell(self._log, order.app_id, warning, self._clock.now())
            self._warned.add(told)

    def _tell_failure(self, error: Exception) -> None:
        """As well as the log allows: the failure may be the log's."""
        order = self._order
        failure = failure_of(error, order.epoch, order.slot, order.attempt)
        with suppress(TidegateError):
            tell(self._log, order.app_id, failure, self._clock.now())


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
    """Step 5: the tasks of one start of a slot."""
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
