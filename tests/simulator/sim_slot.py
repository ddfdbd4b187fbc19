"""One incarnation of a real slot, and what becomes of it: it lives, is a zombie, or is dead."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.simulator.program import APP
from tests.simulator.watched import TaggedWriter, WatchedState

from tidegate.errors import TidegateError
from tidegate.log.location import LogLocation
from tidegate.runtime.slot.job import open_slot
from tidegate.runtime.slot.slot import Slot
from tidegate.runtime.task.task import StreamTask
from tidegate.runtime.topics.control import SlotPlan
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.state.manager import Limits
from tidegate.state.protocol import RestoreListener

if TYPE_CHECKING:
    from tests.simulator.world import World

FOREVER = 1e9
LAZY = Limits(
    commit_seconds=FOREVER, idle_seconds=FOREVER, replay_buffer_bytes=1, memtable_bytes=4_000, sync=False
)
EAGER = replace(LAZY, commit_seconds=0.0, idle_seconds=0.0, commit_bytes=1, expire_per_commit=1)
MOST_TURNS = 2000
IDLE_TURNS = 5
"""After so many turns with nothing to do there is nothing: an open transaction is timed out by then."""


_OF_A_JOB: dict[str, Any] = {
    "app": "",
    "settings": {},
    "fingerprint": "",
    "log": LogLocation("sqlite://"),
    "folder": "",
    "state_dir": "",
    "commit_interval_ms": 100,
}
"""The other fields of an order, for a job in a process of its own."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which slot it is: attempt k of slot n in an epoch, on a host, with its part of the plan."""

    plan: SlotPlan
    epoch: int
    attempt: int
    host: int

    @property
    def number(self) -> int:
        return self.plan.slot


class SimSlot:
    """A slot as its job opens it: 1 the writer, which fences whoever held the id; 5 the tasks, from the
    positions. What it does happens inside of `acting`: the world knows who is at work."""

    def __init__(self, world: World, place: Place, tag: int) -> None:
        self.place = place
        self.tag = tag
        self.zombie = False
        self.restores_too_late = False
        """It became a zombie before its restore had ended."""
        self.dead = False
        self.states: list[WatchedState] = []
        self._world = world
        self._writer = TaggedWriter(world.log.writer(place.plan.writer), tag)
        self._slot: Slot | None = None

    def __str__(self) -> str:
        return f"{'zombie' if self.zombie else 'slot'} {self.place.epoch}.{self.place.number}#{self.tag}"

    def open_tasks(self, listener: RestoreListener, limits: Limits) -> None:
        place, world = self.place, self._world
        order = SlotOrder(
            app_id=APP,
            epoch=place.epoch,
            slot=place.number,
            attempt=place.attempt,
            writer=place.plan.writer,
            **_OF_A_JOB,
        )
        with world.acting(self):
            state_dir = world.state_dir(place.host)
            self._slot = open_slot(
                world.run, order, place.plan, state_dir, self._writer, listener, limits=limits
            )

    @property
    def real(self) -> Slot:
        assert self._slot is not None
        return self._slot

    # --- work -----------------------------------------------------------------------------------------

    def running(self) -> list[StreamTask]:
        return self.real.tasks

    def restoring(self) -> int:
        return self.real.restoring

    def step(self, most: int = 1) -> bool:
        """One turn, in which each task takes at most so many records. Whether anything came of it."""
        with self._world.acting(self):
            self.real.records_per_step = most
            return self.real.step()

    def work(self, turns: int, most: int = 3) -> int:
        """Some turns. How many records were taken."""
        before = self.real.processed
        for _ in range(turns):
            self.step(most)
        return self.real.processed - before

    def work_off(self) -> bool:
        """Turns until there is nothing to do. Whether there was anything."""
        idle, worked = 0, False
        for _ in range(MOST_TURNS):
            idle = 0 if self.step(100) else idle + 1
            worked |= not idle
            if idle == IDLE_TURNS:
                break
        return worked

    def commit(self, limits: Limits) -> None:
        """Commit what the running tasks did."""
        for task in self.running():
            task.state.limits = limits
        with self._world.acting(self):
            self.real.commit()

    def has_changes(self) -> bool:
        """Whether a commit would have something to write."""
        return any(task.moved() or task.state.changed() for task in self.running())

    def persist(self) -> None:
        """Write to disk what is committed."""
        for task in self.running():
            task.state.persist_now()

    # --- the end --------------------------------------------------------------------------------------

    def lose_writer(self) -> None:
        """The process is dead from here on: its transaction stays open."""
        self._writer.killed = True

    def die(self) -> None:
        """The process is killed: what is not on disk or in the log is gone; its transaction stays open."""
        self.lose_writer()
        self.fail()

    def fail(self) -> None:
        """Something went wrong: every task is dropped, and the writer is closed."""
        self.dead = True
        if self._slot is not None:
            self._slot.drop()
        for state in self.states:
            state.drop()
        with suppress(TidegateError):
            self._writer.close()

    def close(self) -> None:
        """A clean stop: commit, then what the log has becomes durable."""
        with self._world.acting(self):
            self.real.close()
        self.dead = True
