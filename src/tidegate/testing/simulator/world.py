"""Everything that a run is made of: a log, a clock, hosts with folders, slots, and those left behind.

The world offers single moves; actions draw them at random, and tests call them in an order of their own.
After every move what is committed is read and checked, and so is every task that restored or committed.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import msgspec

from tidegate import names
from tidegate.clock import ManualClock
from tidegate.errors import FencedError, TidegateError
from tidegate.log.positions import Position, position_row, positions_topic
from tidegate.log.protocol import Writer
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.state.changelog import changelog_spec
from tidegate.state.manager import Limits, StateManager, Status
from tidegate.state.protocol import QuietListener
from tidegate.testing.simulator.checks import check_not_ahead, check_task
from tidegate.testing.simulator.faults import Fault, Faults, Injected, Killed
from tidegate.testing.simulator.inputs import EventTimes
from tidegate.testing.simulator.logs import PacedLog, SimLog
from tidegate.testing.simulator.model_log import ModelLog
from tidegate.testing.simulator.options import Options
from tidegate.testing.simulator.program import APP, BUILDERS, INPUT, OUTPUT, TAG, Op, changelog
from tidegate.testing.simulator.slot import EAGER, LAZY, Place, Site, Slot, task_id
from tidegate.testing.simulator.truth import Truth
from tidegate.testing.simulator.violation import Violation, demand
from tidegate.types import TopicPartition

PATIENCE = 3
MOST_TURNS = 1000


class World:
    """One run's world. `close` it in the end."""

    def __init__(self, options: Options, root: Path, faults: Faults) -> None:
        self.options = options
        self.root = root
        self.faults = faults
        self.clock = ManualClock()
        self.times = EventTimes(options.partitions)
        self.slots: dict[int, Slot] = {}
        self.zombies: list[Slot] = []
        self.discards: Counter[str] = Counter()
        self.tampered: set[Path] = set()
        self.opened: Writer | None = None
        self.nap: Callable[[Slot], None] = self._take_over
        self._epoch = 0
        self._positions_from = 0
        self._tags = count(1)
        self.log = _log(options, self.clock)
        self._site = Site(self.log, self.clock, root, options.stores, self._watch, self._listener)
        self._create()
        self.truth = Truth(self.log, options.stores, options.partitions)
        self.truth.sync()

    def close(self) -> None:
        for slot in [*self.slots.values(), *self.zombies]:
            slot.die()
        self.truth.close()
        self.log.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def _create(self) -> None:
        partitions = self.options.partitions
        self.log.create(positions_topic(APP))
        self.log.create(TopicSpec(INPUT, partitions))
        self.log.create(TopicSpec(OUTPUT, partitions))
        for store in self.options.stores:
            self.log.create(changelog_spec(changelog(store), partitions, BUILDERS[store].config))
        writer = self.log.writer(names.driver_id(APP, "active"))
        rows = [position_row(task_id(number), self._first(number), 0) for number in range(partitions)]
        writer.append(TopicPartition(names.positions(APP), 0), to_batch(rows))
        writer.commit()
        writer.close()

    def _first(self, number: int) -> Position:
        return Position(
            sources={INPUT: {number: 0}},
            stream_times={INPUT: {number: -1}},
            changelogs=dict.fromkeys(self.options.stores, 0),
            progress={TAG: "0"},
        )

    # --- slots ----------------------------------------------------------------------------------------

    def plan(self, groups: Sequence[tuple[Sequence[int], int]], limits: Limits = LAZY) -> None:
        """A new epoch: tasks and a host for each slot. Whoever lives still is a zombie from now on."""
        self._leave(list(self.slots.values()))
        older = list(self.slots.values())
        self._epoch += 1
        self.slots = {
            number: Slot(self._site, Place(number, self._epoch, 0, host, tuple(partitions)), next(self._tags))
            for number, (partitions, host) in enumerate(groups)
        }
        for slot in self.slots.values():
            slot.open_writer()
        self.open_older_writers(older)
        for slot in older:
            self.truth.fence(slot.tag)
        self._positions_from = self.truth.positions_from()
        for slot in self.slots.values():
            slot.read_positions(self._positions_from, limits)

    def open_older_writers(self, older: Sequence[Slot]) -> None:
        """Fence the writers of older epochs: their holders can commit nothing any more."""
        for slot in older:
            self.log.writer(slot.place.writer_id).close()

    def restart(self, number: int, limits: Limits = LAZY, host: int | None = None) -> Slot:
        """The next attempt of a slot, with the same tasks. If the last one lives still, it is a zombie."""
        old = self.slots[number]
        self._leave([old])
        place = replace(
            old.place, attempt=old.place.attempt + 1, host=old.place.host if host is None else host
        )
        slot = self.slots[number] = Slot(self._site, place, next(self._tags))
        slot.open_writer()
        self.truth.fence(old.tag)
        slot.read_positions(self._positions_from, limits)
        return slot

    def _leave(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            if not slot.dead:
                slot.zombie = True
                self.zombies.append(slot)

    def turn(self, slot: Slot, partition: int) -> bool:
        """One turn of a task's restore. Whether it runs now."""
        done = slot.tasks[partition].turn()
        if done:
            check_task(self.truth, slot.tasks[partition], live=not slot.zombie)
        return done

    def finish(self, slot: Slot) -> None:
        """Restore all tasks of a slot, in turns."""
        for _ in range(MOST_TURNS):
            waiting = slot.restoring()
            if not waiting:
                return
            for task in waiting:
                self.turn(slot, task.partition)
        raise Violation("I12", f"the restore of {slot} does not end")

    def commit(self, slot: Slot, limits: Limits = LAZY) -> None:
        """Commit a slot; nothing is caught. A zombie that has something to commit must fail."""
        must_fail = slot.zombie and slot.has_changes()
        slot.commit(limits)
        demand(not must_fail, "I8", f"{slot} was fenced, and committed")
        self.truth.sync()
        for task in slot.running():
            check_task(self.truth, task, live=not slot.zombie)

    def stop(self, slot: Slot) -> None:
        """A clean stop: commit, close."""
        self.commit(slot)
        slot.close()

    def attempt(self, slot: Slot, act: Callable[[], object], fault: Fault | None = None) -> str:
        """Do something with a slot, perhaps with a fault on the way; bury it if it fails. What came of it."""
        if fault is not None:
            self.faults.arm(fault, lambda: self._look(slot, fault.point), lambda: self._sleep(slot))
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

    def _expect(self, slot: Slot, error: Exception, fault: Fault | None) -> None:
        """A live slot fails only by a fault; a zombie is fenced, or refused by a store that guards itself."""
        if slot.zombie:
            refused = isinstance(error, FencedError) or getattr(error, "code", "") == "stale-token"
            demand(refused, "I8", f"{slot} was not fenced, but failed: {error!r}")
        elif fault is None or str(fault) not in str(error):
            raise Violation("I12", f"{slot} failed by itself: {error!r}") from error

    def _look(self, slot: Slot, point: str) -> None:
        """When a fault comes: nothing of what is not committed may have reached a store."""
        if point not in ("log.commit.4", "log.commit.5", "log.commit.6", "log.commit.7"):
            self.truth.sync()
        for task in slot.tasks.values():
            if task.state.status is not Status.CLOSED:
                check_not_ahead(self.truth, task.state)

    def _sleep(self, slot: Slot) -> None:
        if not slot.zombie:
            self.nap(slot)

    def _take_over(self, slot: Slot) -> None:
        """What happens while a slot sleeps: another one takes its place and goes on."""
        fresh = self.restart(slot.place.number, EAGER)
        self.finish(fresh)
        for partition in fresh.place.partitions:
            fresh.process(partition, 2)
        self.commit(fresh, EAGER)

    # --- the rest of the world ------------------------------------------------------------------------

    def produce(self, partition: int, ops: Sequence[tuple[Op, int]]) -> None:
        rows = [Row(op.key.encode(), msgspec.json.encode(op), timestamp) for op, timestamp in ops]
        self.log.append(TopicPartition(INPUT, partition), to_batch(rows))
        self.truth.sync()

    def compact(self, topic: str) -> None:
        self.truth.sync()
        self.truth.compactions += 1
        self.log.compact(topic)

    def is_held(self, home: Path) -> bool:
        """Whether somebody has a task's folder open."""
        slots = [*self.slots.values(), *self.zombies]
        states = [task.state for slot in slots for task in slot.tasks.values()]
        return any(
            state.home == home and state.status in (Status.RESTORING, Status.RUNNING) for state in states
        )

    def lose(self, home: Path) -> None:
        """A folder that nobody holds is gone."""
        shutil.rmtree(home)
        self.tampered.discard(home)

    def _watch(self, state: StateManager) -> None:
        self.truth.sync()
        check_not_ahead(self.truth, state)

    def _listener(self, slot: Slot, partition: int) -> QuietListener:
        return _Listener(self, slot, partition)


def _log(options: Options, clock: ManualClock) -> SimLog:
    if options.log == "sqlite":
        return PacedLog(clock, options.page)
    return ModelLog(clock, page=options.page, patience=PATIENCE, markers=options.markers, checks=False)


class _Listener(QuietListener):
    """I7: nothing on disk is ahead, unless somebody put it there or the reader itself is behind."""

    def __init__(self, world: World, slot: Slot, partition: int) -> None:
        self._world = world
        self._slot = slot
        self._partition = partition

    def on_discard(self, store: str, partition: int, reason: str) -> None:
        self._world.discards[reason.partition("(")[0].strip()] += 1
        if "ahead" in reason:
            excused = self._slot.zombie or self._slot.home(self._partition) in self._world.tampered
            demand(excused, "I7", f"{store} of task {partition}, {self._slot}: {reason}")
