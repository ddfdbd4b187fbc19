"""Everything that a run is made of: a log, a clock, hosts with folders, slots, and those left behind.

The world offers single moves; actions draw them at random, and tests call them in an order of their own.
After every move what is committed is read and checked, and so is every task that restored or committed.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import msgspec
from tests.simulator.checks import check_not_ahead, check_task
from tests.simulator.faults import Fault, Faults, Injected, Killed
from tests.simulator.inputs import EventTimes
from tests.simulator.logs import PacedLog, SimLog
from tests.simulator.model_log import ModelLog
from tests.simulator.options import Options
from tests.simulator.program import APP, INPUT, STATUS, Op, make_app
from tests.simulator.sim_slot import EAGER, LAZY, MOST_TURNS, Place, SimSlot
from tests.simulator.truth import Truth
from tests.simulator.violation import Violation, demand
from tests.simulator.watched import TAGS, WatchedRun, WatchedState

from tidegate.clock import ManualClock
from tidegate.errors import FencedError, TidegateError
from tidegate.gate.formats import GateState, RequestedStatus
from tidegate.log.protocol import Writer
from tidegate.log.records import Row, to_batch
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.takeover import take_over
from tidegate.state.folders import task_home
from tidegate.state.manager import Limits, StateStatus
from tidegate.state.protocol import QuietListener
from tidegate.types import TopicPartition

PATIENCE = 3
REFUSED = {"stale-token"}
REFUSED_IN_A_RESTORE = {"corrupt-state", "restore-too-slow"}


class World:
    """One run's world. `close` it in the end."""

    def __init__(self, options: Options, root: Path, faults: Faults) -> None:
        self.options = options
        self.root = root
        self.faults = faults
        self.clock = ManualClock()
        self.times = EventTimes(options.partitions)
        self.slots: dict[int, SimSlot] = {}
        self.zombies: list[SimSlot] = []
        self.discards: Counter[str] = Counter()
        self.tampered: set[Path] = set()
        self.opened: Writer | None = None
        self.nap: Callable[[SimSlot], None] = self._take_over
        self._acting: SimSlot | None = None
        self._tags = count(1)
        self._numbers = count()
        self.log = _log(options, self.clock)
        self.log.create(TAGS)
        app = make_app(options.stores, options.partitions, self._tag, gate=options.gate)
        self.run = WatchedRun.of(
            prepare(app.build(), self.log, self.clock, partitions=options.partitions), self
        )
        self.tasks = [task for _, task in self.run.tasks()]
        self.truth = Truth(self.log, self.run, options.partitions, gate=options.gate)
        self.truth.sync()

    def close(self) -> None:
        for slot in [*self.slots.values(), *self.zombies]:
            slot.die()
        self.truth.close()
        self.log.close()
        shutil.rmtree(self.root, ignore_errors=True)

    @contextmanager
    def acting(self, slot: SimSlot) -> Iterator[None]:
        """Who is at work. While one sleeps, others are."""
        before, self._acting = self._acting, slot
        try:
            yield
        finally:
            self._acting = before

    def _tag(self) -> int:
        assert self._acting is not None
        return self._acting.tag

    # --- folders --------------------------------------------------------------------------------------

    def state_dir(self, host: int) -> Path:
        return self.root / f"host{host}"

    def homes(self, host: int) -> list[Path]:
        """Where a host keeps the state of each task."""
        return [task_home(self.state_dir(host), APP, task) for task in self.tasks]

    def is_held(self, home: Path) -> bool:
        """Whether a slot has a task's folder open."""
        states = [state for slot in [*self.slots.values(), *self.zombies] for state in slot.states]
        return any(
            state.home == home and state.status in (StateStatus.RESTORING, StateStatus.RUNNING)
            for state in states
        )

    def lose(self, home: Path) -> None:
        """A folder that no slot holds is gone."""
        shutil.rmtree(home)
        self.tampered.discard(home)

    # --- slots ----------------------------------------------------------------------------------------

    def plan(self, groups: Sequence[tuple[Sequence[int], int]], limits: Limits = LAZY) -> None:
        """A driver takes over, with a new epoch: tasks, by their numbers, and a host for each slot. Whoever
        lives still is a zombie from now on."""
        older = list(self.slots.values())
        self._leave(older)
        claim = take_over(self.log, APP, 1, self.clock)
        for slot in older:
            self.truth.fence(slot.tag)
        given = {number: [self.tasks[one] for one in group] for number, (group, _) in enumerate(groups)}
        plan = self.run.plan(claim, given, dict.fromkeys(given, ""))
        claim.close()
        self.truth.sync()
        self.slots = {
            one.slot: SimSlot(self, Place(one, plan.epoch, 0, groups[one.slot][1]), next(self._tags))
            for one in plan.slots
        }
        for slot in self.slots.values():
            slot.open_tasks(_Listener(self, slot), limits)

    def restart(self, number: int, limits: Limits = LAZY, host: int | None = None) -> SimSlot:
        """The next attempt of a slot, with the same tasks. If the last one lives still, it is a zombie."""
        old = self.slots[number]
        self._leave([old])
        place = replace(
            old.place, attempt=old.place.attempt + 1, host=old.place.host if host is None else host
        )
        slot = self.slots[number] = SimSlot(self, place, next(self._tags))
        self.truth.fence(old.tag)
        slot.open_tasks(_Listener(self, slot), limits)
        return slot

    def numbers(self, slot: SimSlot) -> list[int]:
        """The tasks of a slot, by their numbers."""
        return [self.tasks.index(task) for task in slot.place.plan.tasks]

    def _leave(self, slots: Sequence[SimSlot]) -> None:
        for slot in slots:
            if not slot.dead:
                slot.zombie = True
                slot.restores_too_late = slot.restoring() > 0
                self.zombies.append(slot)

    def finish(self, slot: SimSlot) -> None:
        """Restore all tasks of a slot, in turns; those that are ready go to work."""
        for _ in range(MOST_TURNS):
            if not slot.restoring():
                self.truth.sync()
                self._check(slot)
                return
            slot.step()
        raise Violation("I12", f"the restore of {slot} does not end")

    def commit(self, slot: SimSlot, limits: Limits = LAZY) -> None:
        """Commit a slot; nothing is caught. A zombie that has something to commit must fail."""
        must_fail = slot.zombie and slot.has_changes()
        slot.commit(limits)
        demand(not must_fail, "I8", f"{slot} was fenced, and committed")
        self.truth.sync()
        self._check(slot)

    def _check(self, slot: SimSlot) -> None:
        for task in slot.running():
            check_task(self.truth, task.state, live=not slot.zombie, moved=task.moved())

    def stop(self, slot: SimSlot) -> None:
        """A clean stop: commit, close."""
        self.commit(slot)
        slot.close()

    def attempt(self, slot: SimSlot, act: Callable[[], object], fault: Fault | None = None) -> str:
        """Do something with a slot, perhaps with a fault on the way; bury it if it fails. What came of it."""
        if fault is not None:
            self.faults.arm(fault, lambda: self._look(slot, fault), lambda: self._sleep(slot))
        came = False
        try:
            act()
            result = "done"
        except Killed:
            slot.die()
            result = "killed"
        except (Injected, TidegateError) as error:
            self._expect(slot, error, fault)
            slot.fail()
            result = type(error).__name__ if isinstance(error, FencedError | Injected) else str(error)[:60]
        finally:
            came = fault is not None and self.faults.disarm()
        self.truth.sync()
        if slot.dead and slot in self.zombies:
            self.zombies.remove(slot)
        return f"{result}{', ' + str(fault) if came else ''}"

    def _expect(self, slot: SimSlot, error: Exception, fault: Fault | None) -> None:
        """A live slot fails only by a fault; a zombie is fenced, or refused by a store that guards itself.

        One that became a zombie during its restore may also take too long for it, or miss events: others have
        committed, and what its target includes is compacted."""
        if slot.zombie:
            allowed = REFUSED | REFUSED_IN_A_RESTORE if slot.restores_too_late else REFUSED
            refused = isinstance(error, FencedError) or getattr(error, "code", "") in allowed
            demand(refused, "I8", f"{slot} was not fenced, but failed: {error!r}")
        elif fault is None or str(fault) not in str(error):
            raise Violation("I12", f"{slot} failed by itself: {error!r}") from error

    def _look(self, slot: SimSlot, fault: Fault) -> None:
        """When a fault comes: nothing of what is not committed may have reached a store."""
        if fault.mode == "kill":
            slot.lose_writer()
        if fault.point not in ("log.commit.4", "log.commit.5", "log.commit.6", "log.commit.7"):
            self.truth.sync()
        for state in slot.states:
            if state.status is not StateStatus.CLOSED:
                check_not_ahead(self.truth, state)

    def _sleep(self, slot: SimSlot) -> None:
        if not slot.zombie:
            self.nap(slot)

    def _take_over(self, slot: SimSlot) -> None:
        """What happens while a slot sleeps: another one takes its place and goes on."""
        fresh = self.restart(slot.place.number, EAGER)
        self.finish(fresh)
        fresh.work(2)
        self.commit(fresh, EAGER)

    # --- what the state of tasks shows (Watch) --------------------------------------------------------

    def made(self, state: WatchedState) -> None:
        assert self._acting is not None
        self._acting.states.append(state)

    def restored(self, state: WatchedState) -> None:
        assert self._acting is not None
        owner, place = state.owner, self._acting.place
        right = (owner.epoch, owner.attempt) == (place.epoch, place.attempt)
        demand(right, "I8", f"{self._acting} is {place}, and {owner} guards its stores")
        self.truth.sync()
        check_task(self.truth, state, live=not self._acting.zombie, moved=True)

    def persists(self, state: WatchedState) -> None:
        self.truth.sync()
        check_not_ahead(self.truth, state)

    # --- the rest of the world ------------------------------------------------------------------------

    def produce(self, partition: int, ops: Sequence[tuple[Op, int]]) -> None:
        numbered = [(msgspec.structs.replace(op, number=next(self._numbers)), at) for op, at in ops]
        rows = [Row(op.key.encode(), msgspec.json.encode(op), timestamp) for op, timestamp in numbered]
        self.log.append(TopicPartition(INPUT, partition), to_batch(rows))
        self.truth.sync()

    def ask(self, partition: int, key: str, state: GateState) -> None:
        """Pause or resume a key at the gate."""
        assert self.truth.gate is not None
        (self.truth.gate.pause if state == "PAUSED" else self.truth.gate.resume)(key)
        row = Row(key.encode(), msgspec.json.encode(RequestedStatus(state)), self.clock.now())
        self.log.append(TopicPartition(STATUS, partition), to_batch([row]))

    def compact(self, topic: str) -> None:
        self.truth.sync()
        self.truth.compactions += 1
        self.log.compact(topic)


def _log(options: Options, clock: ManualClock) -> SimLog:
    if options.log == "sqlite":
        return PacedLog(clock, options.page)
    return ModelLog(clock, page=options.page, patience=PATIENCE, markers=options.markers, checks=False)


class _Listener(QuietListener):
    """I7: nothing on disk is ahead, unless an action put it there or the reader itself is behind."""

    def __init__(self, world: World, slot: SimSlot) -> None:
        self._world = world
        self._slot = slot

    def on_discard(self, store: str, partition: int, reason: str) -> None:
        self._world.discards[reason.partition("(")[0].strip()] += 1
        if "ahead" in reason:
            homes = {state.home for state in self._slot.states if state.owner.task.partition == partition}
            excused = self._slot.zombie or homes & self._world.tampered
            demand(bool(excused), "I7", f"{store} of partition {partition}, {self._slot}: {reason}")
