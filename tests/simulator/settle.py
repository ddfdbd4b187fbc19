"""The end of a run: no more faults; everything must come right in a bounded number of tries (I12)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from random import Random

from tests.simulator.draws import draw_groups, draw_limits
from tests.simulator.program import keys_in
from tests.simulator.sim_slot import EAGER, MOST_TURNS, SimSlot
from tests.simulator.violation import Violation, demand
from tests.simulator.world import World

from tidegate.log.reads import fold
from tidegate.types import Offset

EVERYTHING = 1_000_000


def settle(world: World, rng: Random, note: Callable[[str], None]) -> None:
    """Let zombies have their last word, restart what is dead, process all inputs, and look at everything.
    Then once more from what is on disk, under a new plan."""
    if world.opened is not None:
        world.opened.close()
    for zombie in list(world.zombies):
        note(f"in the end {zombie} commits: {world.attempt(zombie, partial(_last_word, world, zombie))}")
    for zombie in list(world.zombies):
        world.attempt(zombie, zombie.close)
    if world.truth.gate is not None:
        for number in range(world.options.partitions):
            for key in keys_in(number, world.options.partitions):
                if key in world.truth.gate.paused:
                    world.ask(number, key, "ACTIVE")
    note("all slots finish")
    _finish(world)
    for slot in world.slots.values():
        world.stop(slot)
    groups = draw_groups(len(world.tasks), rng)
    note(f"all slots stopped; last plan {groups}")
    world.plan(groups, draw_limits(rng))
    _finish(world)
    note("the log is read again")
    _check_log(world)


def _last_word(world: World, zombie: SimSlot) -> None:
    world.finish(zombie)
    zombie.work_off()
    world.commit(zombie, EAGER)


def _finish(world: World) -> None:
    """One try must do: nothing stands in the way any more."""
    for number in list(world.slots):
        if world.slots[number].dead:
            world.restart(number)
        world.finish(world.slots[number])
    _work_off(world)
    for task, known in world.truth.tasks.items():
        behind = [offset for offset in known.inputs if offset >= known.until(known.newest)]
        demand(not behind, "I1", f"inputs {behind} of {task} were never processed")
    if world.truth.gate is not None:
        world.truth.gate.check_all_passed()


def _work_off(world: World) -> None:
    """What one slot commits may be another's input."""
    for _ in range(MOST_TURNS):
        worked = False
        for slot in world.slots.values():
            worked |= slot.work_off()
            world.commit(slot, EAGER)
        if not worked and all(slot.real.drained() for slot in world.slots.values()):
            return
    raise Violation("I12", "there is always something left to do")


def _check_log(world: World) -> None:
    """I5, I6: what the log holds now is some of what it held, and folds to the same rows."""
    for task in world.truth.tasks.values():
        for store, at in task.changelogs.items():
            folded = fold(world.log, at)
            layout = task.builders[store].layout
            rows = {key: layout.restored(value, timestamp) for key, (value, timestamp) in folded.items()}
            demand(rows == task.fold(store, EVERYTHING), "I6", f"{at} folds to {rows}")
            known = {row.offset: row for row in task.changes[store]}
            with closing(world.log.truth({at: Offset(0)})) as follower:
                for row in follower.read().get(at, ()):
                    demand(known.get(row.offset) == row, "I5", f"{at} holds {row}, it was {known}")
