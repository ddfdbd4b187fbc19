"""Longer stories, which single actions drawn at random would seldom make."""

from __future__ import annotations

from functools import partial
from random import Random

from tests.simulator.draws import HOSTS, draw_groups, draw_limits
from tests.simulator.faults import IN_EVERY_TURN, Fault
from tests.simulator.other_actions import all_homes, long_sleep, produce_in
from tests.simulator.sim_slot import EAGER
from tests.simulator.slot_actions import living, take_some
from tests.simulator.world import World


def voyage(world: World, rng: Random) -> str:
    """All tasks move to another host, work there until the tombstones of that time are gone, and come back to
    what they left on disk."""
    home = [(world.numbers(slot), slot.place.host) for slot in world.slots.values()]
    for slot in world.slots.values():
        if not slot.dead:
            world.finish(slot)
            take_some(slot, 10, rng)
            world.commit(slot, EAGER)
            slot.die()
    world.plan([(tasks, (host + 1) % HOSTS) for tasks, host in home], draw_limits(rng))
    reported = []
    for slot in world.slots.values():
        world.finish(slot)
        reported += [produce_in(world, task.id.partition, rng) for task in slot.running()]
        take_some(slot, 10, rng)
        world.commit(slot, draw_limits(rng))
        slot.die()
    if rng.random() < 0.8:
        reported.append(long_sleep(world, rng))
    world.plan(home, draw_limits(rng))
    return f"a voyage: {'; '.join(reported)}; back on {home}"


def slow_restore(world: World, rng: Random) -> str | None:
    """In the middle of a restore so much time goes by that tombstones go in front of it."""
    slot = living(world, rng)
    if slot is None:
        return None
    slot.die()
    for number in world.numbers(slot):
        home = world.homes(slot.place.host)[number]
        if rng.random() < 0.7 and home.exists() and not world.is_held(home):
            world.lose(home)
    fresh = world.restart(slot.place.number, draw_limits(rng))
    turns = rng.randint(2, 4)
    fresh.work(turns)
    long_sleep(world, rng)
    return f"{fresh} starts, has {turns} turns, tombstones go, it goes on: " + world.attempt(
        fresh, lambda: world.finish(fresh)
    )


def again_and_again(world: World, rng: Random) -> str:
    """What lies on disk is lost, and the restore from the log is killed again and again on its way."""
    for slot in world.slots.values():
        slot.die()
    for home in all_homes(world):
        if not world.is_held(home):
            world.lose(home)
    groups = draw_groups(len(world.tasks), rng)
    world.plan(groups, EAGER)
    reported = []
    for number in world.slots:
        for _ in range(rng.randint(1, 4)):
            slot = world.restart(number, EAGER) if world.slots[number].dead else world.slots[number]
            if slot.restoring():
                fault = Fault(rng.choice(IN_EVERY_TURN), "kill", rng.randint(1, 4))
                reported.append(world.attempt(slot, partial(world.finish, slot), fault))
    return f"all is lost, new plan {groups}: {', '.join(reported)}"
