"""The end of a run: no more faults; everything must come right in a bounded number of tries (I12)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from random import Random

from tidegate.log.reads import fold
from tidegate.testing.simulator.checks import check_task
from tidegate.testing.simulator.draws import draw_groups, draw_limits
from tidegate.testing.simulator.program import BUILDERS, changelog
from tidegate.testing.simulator.slot import EAGER, Slot
from tidegate.testing.simulator.violation import demand
from tidegate.testing.simulator.world import World
from tidegate.types import Offset, TopicPartition

EVERYTHING = 1_000_000


def settle(world: World, rng: Random, tell: Callable[[str], None]) -> None:
    """Let zombies have their last word, restart what is dead, process all inputs, and look at everything.
    Then once more from what is on disk, under a new plan."""
    if world.opened is not None:
        world.opened.close()
    for zombie in list(world.zombies):
        tell(f"in the end {zombie} commits: {world.attempt(zombie, partial(_last_word, world, zombie))}")
    for zombie in world.zombies:
        zombie.close()
    world.zombies.clear()
    tell("all slots finish")
    _finish(world)
    for slot in world.slots.values():
        world.stop(slot)
    groups = draw_groups(world.options.partitions, rng)
    tell(f"all slots stopped; last plan {groups}")
    world.plan(groups, draw_limits(rng))
    _finish(world)
    tell("the log is read again")
    _check_log(world)


def _last_word(world: World, zombie: Slot) -> None:
    world.finish(zombie)
    for task in zombie.running():
        zombie.process(task.partition, EVERYTHING)
    world.commit(zombie, EAGER)


def _finish(world: World) -> None:
    """One try must do: nothing stands in the way any more."""
    for number in list(world.slots):
        slot = world.slots[number]
        if slot.dead:
            slot = world.restart(number)
        world.finish(slot)
        for task in slot.running():
            slot.process(task.partition, EVERYTHING)
        world.commit(slot, EAGER)
        for task in slot.running():
            check_task(world.truth, task, live=True)
    for number, known in enumerate(world.truth.tasks):
        behind = [offset for offset in known.inputs if offset >= known.committed(number)]
        demand(not behind, "I1", f"inputs {behind} of task {number} were never processed")


def _check_log(world: World) -> None:
    """I5, I6: what the log holds now is some of what it held, and folds to the same rows."""
    for store in world.options.stores:
        for number, task in enumerate(world.truth.tasks):
            at = TopicPartition(changelog(store), number)
            folded = fold(world.log, at)
            layout = BUILDERS[store].layout
            rows = {key: layout.restored(value, timestamp) for key, (value, timestamp) in folded.items()}
            demand(rows == task.fold(store, EVERYTHING), "I6", f"{at} folds to {rows}")
            known = {row.offset: row for row in task.changes[store]}
            with closing(world.log.truth({at: Offset(0)})) as follower:
                for row in follower.read().get(at, ()):
                    demand(known.get(row.offset) == row, "I5", f"{at} holds {row}, it was {known}")
