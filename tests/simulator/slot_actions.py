"""Actions on slots: work, commit, restore, faults in them, ends and new beginnings, zombies."""

from __future__ import annotations

from functools import partial
from random import Random

from tests.simulator.checks import check_pending
from tests.simulator.draws import HOSTS, draw_fault, draw_groups, draw_limits
from tests.simulator.faults import CHECKPOINT_POINTS, COMMIT_POINTS, LOG_POINTS, RESTORE_POINTS
from tests.simulator.other_actions import produce_in
from tests.simulator.sim_slot import EAGER, SimSlot
from tests.simulator.world import World

IN_A_COMMIT = COMMIT_POINTS + LOG_POINTS + CHECKPOINT_POINTS


def living(world: World, rng: Random) -> SimSlot | None:
    alive = [slot for slot in world.slots.values() if not slot.dead]
    return rng.choice(alive) if alive else None


def take_some(slot: SimSlot, most: int, rng: Random) -> str:
    turns, each = rng.randint(0, most), rng.choice((1, 1, 2, 5))
    return f"takes {slot.work(turns, each)} in {turns} turns"


def work(world: World, slot: SimSlot, rng: Random) -> str:
    """Perhaps some inputs come; the slot takes some."""
    reported = ""
    if rng.random() < 0.7:
        reported = produce_in(world, rng.choice(slot.running()).id.partition, rng) + "; "
    return reported + take_some(slot, 8, rng)


def process(world: World, rng: Random) -> str | None:
    slot = living(world, rng)
    if slot is None or not slot.running():
        return None
    text = take_some(slot, 4, rng)
    for task in slot.running():
        check_pending(world.truth, task, slot.tag)
    return f"{slot} {text}"


def commit(world: World, rng: Random) -> str | None:
    slot = living(world, rng)
    if slot is None or not slot.running():
        return None
    limits = draw_limits(rng)
    text = work(world, slot, rng)
    return f"{slot} {text}, commits: " + world.attempt(slot, lambda: world.commit(slot, limits))


def faulty_commit(world: World, rng: Random) -> str | None:
    slot = living(world, rng)
    if slot is None or not slot.running():
        return None
    fault = draw_fault(IN_A_COMMIT, len(slot.running()), rng)
    limits = EAGER if fault.point in CHECKPOINT_POINTS else draw_limits(rng)
    text = work(world, slot, rng)
    return f"{slot} {text}, commits: " + world.attempt(slot, lambda: world.commit(slot, limits), fault)


def restore(world: World, rng: Random) -> str | None:
    slot = living(world, rng)
    if slot is None or not slot.restoring():
        return None
    if rng.random() < 0.7:
        return f"{slot} restores: " + world.attempt(slot, lambda: world.finish(slot))
    turns = rng.randint(1, 4)
    return f"{slot} has {turns} turns: " + world.attempt(slot, lambda: slot.work(turns))


def faulty_restore(world: World, rng: Random) -> str | None:
    slot = living(world, rng)
    if slot is None or not slot.restoring():
        return None
    fault = draw_fault(RESTORE_POINTS, slot.restoring(), rng)
    if rng.random() < 0.7:
        for state in slot.states:
            state.limits = EAGER
    return f"{slot} restores: " + world.attempt(slot, lambda: world.finish(slot), fault)


def kill(world: World, rng: Random) -> str | None:
    slot = living(world, rng)
    if slot is None:
        return None
    slot.die()
    return f"{slot} is killed"


def stop(world: World, rng: Random) -> str | None:
    slot = living(world, rng)
    if slot is None:
        return None
    return f"{slot} stops: " + world.attempt(slot, lambda: world.stop(slot))


def restart(world: World, rng: Random) -> str | None:
    dead = [slot for slot in world.slots.values() if slot.dead]
    if not dead:
        return None
    host = rng.randrange(HOSTS) if rng.random() < 0.3 else None
    fresh = world.restart(rng.choice(dead).place.number, draw_limits(rng), host)
    return f"{fresh} starts" + _maybe_restored(world, fresh, rng)


def _maybe_restored(world: World, slot: SimSlot, rng: Random) -> str:
    if rng.random() < 0.5:
        return ""
    return ", restores: " + world.attempt(slot, lambda: world.finish(slot))


def supplant(world: World, rng: Random) -> str | None:
    slot = living(world, rng)
    if slot is None:
        return None
    fresh = world.restart(slot.place.number, draw_limits(rng))
    return f"{fresh} takes the place of #{slot.tag}, which lives on" + _maybe_restored(world, fresh, rng)


def plan(world: World, rng: Random) -> str:
    """A new plan; the slots of the old one stop, are killed, or know nothing of it."""
    ends = []
    for slot in world.slots.values():
        end = rng.choice(("stops", "is killed", "lives on"))
        if end == "stops" and not slot.dead:
            end += " " + world.attempt(slot, partial(world.stop, slot))
        elif end == "is killed":
            slot.die()
        ends.append(f"#{slot.tag} {end}")
    groups = draw_groups(len(world.tasks), rng)
    world.plan(groups, draw_limits(rng))
    restored = [_maybe_restored(world, slot, rng) for slot in world.slots.values()]
    return f"{', '.join(ends)}; new plan {groups}{''.join(restored)}"


def wake(world: World, rng: Random) -> str | None:
    """A zombie goes on as if nothing had happened."""
    if not world.zombies:
        return None
    slot = rng.choice(world.zombies)
    name, deed = str(slot), rng.choice(("commits", "commits", "restores", "persists", "closes", "dies"))
    result = ""
    if deed == "commits":
        reported: list[str] = []

        def go_on() -> None:
            reported.append(take_some(slot, 3, rng))
            world.commit(slot, draw_limits(rng))

        result = world.attempt(slot, go_on)
        return f"{name} {''.join(reported)}, commits: {result}"
    if deed == "restores":
        result = world.attempt(slot, lambda: world.finish(slot))
    elif deed == "persists":
        slot.persist()
    elif deed == "closes":
        result = world.attempt(slot, slot.close)
    else:
        slot.die()
        world.zombies.remove(slot)
    return f"{name} {deed} {result}"


def nap(world: World, slot: SimSlot, rng: Random) -> None:
    """While a slot sleeps, others take over its tasks and go on."""
    if rng.random() < 0.5:
        world.restart(slot.place.number, draw_limits(rng))
    else:
        world.plan(draw_groups(len(world.tasks), rng), draw_limits(rng))
    for fresh in world.slots.values():
        if not fresh.dead and rng.random() < 0.9:
            world.finish(fresh)
            work(world, fresh, rng)
            world.commit(fresh, draw_limits(rng))
