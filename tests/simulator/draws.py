"""What is drawn from the seed besides the order of actions: the world, inputs, faults, plans."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.simulator.faults import IN_EVERY_TURN, MODES, PER_TASK, Fault, Mode, possible
from tests.simulator.options import Options
from tests.simulator.program import KINDS
from tests.simulator.sim_slot import EAGER, LAZY

from tidegate.state.manager import Limits

HOSTS = 2
SQLITE_EVERY = 16


def draw_options(seed: int, rng: Random) -> Options:
    """A small world: few tasks, few stores. Worlds that differ find more than one that has everything."""
    return Options(
        partitions=rng.choice((1, 2, 2, 3)),
        stores=tuple(rng.sample(KINDS, rng.choice((1, 2, 2, 3)))),
        log="sqlite" if seed % SQLITE_EVERY == 0 else "model",
        page=rng.choice((1, 2, 5, 1000)),
        markers=rng.random() < 0.5,
        gate=rng.random() < 0.4,
    )


def draw_fault(points: Sequence[str], tasks: int, rng: Random) -> Fault:
    point = rng.choice(points)
    modes: list[Mode] = [mode for mode in MODES if possible(point, mode)]
    if point in IN_EVERY_TURN:
        nth = rng.randint(1, 3 * tasks)
    else:
        nth = rng.randint(1, tasks) if point in PER_TASK else rng.choice((1, 1, 2))
    return Fault(point, rng.choice(modes), nth)


def draw_groups(count: int, rng: Random) -> list[tuple[list[int], int]]:
    """The numbers of tasks dealt out to slots, each slot on a host."""
    tasks = list(range(count))
    rng.shuffle(tasks)
    slots = rng.randint(1, min(2, count))
    return [(tasks[number::slots], rng.randrange(HOSTS)) for number in range(slots)]


def draw_limits(rng: Random) -> Limits:
    return rng.choice((LAZY, EAGER))
