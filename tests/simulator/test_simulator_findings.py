"""What the simulator found, each as the shortest story that shows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.simulator.faults import Faults
from tests.simulator.options import Options
from tests.simulator.program import APP, DELETE_RETENTION_MS, Op
from tests.simulator.run import fast_folder
from tests.simulator.sim_slot import EAGER, SimSlot
from tests.simulator.world import World

from tidegate.errors import StateError
from tidegate.log import names

CHANGELOG = names.changelog(APP, "plain")
SLEPT = "it was idle for longer than tombstones are guaranteed to be kept"


@pytest.fixture
def world() -> Iterator[World]:
    with fast_folder() as root:
        world = World(Options(partitions=1, stores=("plain", "few")), root, Faults())
        world.plan([([0], 0)])
        yield world
        world.close()


def put(key: str, store: str = "plain") -> Op:
    return Op(store, key, "put")


def run(world: World, slot: SimSlot, *ops: Op) -> None:
    world.finish(slot)
    world.produce(0, [(op, 0) for op in ops])
    slot.work_off()
    world.commit(slot, EAGER)


def test_a_slot_that_slept_before_its_restore_does_not_make_its_folder_look_young(world: World) -> None:
    """It read the position, slept, and opened its folder late: the store is as old as the position was read.
    Taken for as young as the restore, it kept a key whose tombstone had gone in the meantime."""
    first = world.slots[0]
    run(world, first, put("k0"))
    first.die()
    sleeper = world.restart(0)
    other = world.restart(0, host=1)
    run(world, other, Op("plain", "k0", "delete"))
    world.compact(CHANGELOG)
    world.clock.advance(DELETE_RETENTION_MS * 7 // 10)
    world.finish(sleeper)
    sleeper.persist()
    sleeper.die()
    world.clock.advance(DELETE_RETENTION_MS * 4 // 10)
    world.compact(CHANGELOG)
    other.die()
    world.finish(world.restart(0, host=0))
    assert world.discards[SLEPT] == 1


def test_an_lru_store_evicts_by_the_last_write_also_after_a_restore(world: World) -> None:
    """A key that is written twice between two commits stands where its last write was."""
    slot = world.slots[0]
    run(world, slot, put("k1", "few"), put("k3", "few"), put("k1", "few"))
    slot.die()
    run(world, world.restart(0), put("k0", "few"))


def test_an_lru_store_forgets_the_recency_of_a_record_that_failed(world: World) -> None:
    """What a record did that failed never was: the key stands where it stood."""
    slot = world.slots[0]
    run(world, slot, put("k1", "few"), put("k2", "few"), Op("few", "k1", "fail"), put("k0", "few"))


def test_a_slot_that_was_superseded_before_its_restore_may_miss_held_events_and_commits_nothing() -> None:
    """Its successor lets the events go, and the log is compacted: the index below the target of the older one
    counts events that are gone. It left no damage: the next slot on its host has the right rows."""
    with fast_folder() as root, closing(World(Options(1, ("plain",), gate=True), root, Faults())) as world:
        world.plan([([0, 1], 0)])
        first = world.slots[0]
        world.finish(first)
        world.ask(0, "k0", "PAUSED")
        first.work_off()
        run(world, first, put("k0"), put("k0"), put("k0"))
        first.die()
        sleeper = world.restart(0, host=1)
        world.ask(0, "k0", "ACTIVE")
        successor = world.restart(0, host=2)
        world.finish(successor)
        successor.work_off()
        world.commit(successor, EAGER)
        world.compact(names.changelog(APP, "door-held"))
        with pytest.raises(StateError, match="lacks event"):
            world.finish(sleeper)
        sleeper.fail()
        world.truth.sync()
        world.finish(world.restart(0, host=1))
