"""Every fault point in every mode, one case each: the slot comes back, and all is as the oracle has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Literal

import pytest
from tests.simulator.faults import (
    CHECKPOINT_POINTS,
    COMMIT_POINTS,
    LOG_POINTS,
    MODES,
    PER_TASK,
    RESTORE_POINTS,
    Fault,
    Faults,
    Mode,
    possible,
)
from tests.simulator.options import Options
from tests.simulator.program import Op, keys_in
from tests.simulator.run import fast_folder
from tests.simulator.settle import settle
from tests.simulator.sim_slot import EAGER, LAZY, SimSlot
from tests.simulator.world import World

from tidegate.log import faultpoints

LogKind = Literal["model", "sqlite"]

STORES = ("plain", "windows", "few", "own")
TASKS = 3
ONLY_EMBEDDED = ("log.commit.2", "log.commit.3", "log.commit.5", "log.commit.6")
IN_A_COMMIT = COMMIT_POINTS + LOG_POINTS + CHECKPOINT_POINTS


def cases(points: tuple[str, ...]) -> list[tuple[LogKind, Fault]]:
    """At the embedded log each point once; at the model of a broker at each task's arrival."""
    found: list[tuple[LogKind, Fault]] = []
    for point in points:
        modes: list[Mode] = [mode for mode in MODES if possible(point, mode)]
        for mode in modes:
            found.append(("sqlite", Fault(point, mode)))
            if point not in ONLY_EMBEDDED:
                arrivals = TASKS if point in PER_TASK else 1
                found.extend(("model", Fault(point, mode, nth)) for nth in range(1, arrivals + 1))
    return found


def named(value: object) -> str:
    return str(value).replace(" ", "-")


@contextmanager
def world_on(log: LogKind, *, gate: bool = False) -> Iterator[World]:
    faults = Faults()
    with fast_folder() as root, faultpoints.installed(faults):
        world = World(Options(partitions=TASKS, stores=STORES, log=log, page=2, gate=gate), root, faults)
        try:
            yield world
        finally:
            world.close()


def inputs(turn: int, keys: Sequence[str]) -> list[tuple[Op, int]]:
    """Puts and deletes in each store; windows of the turn before are gone; an LRU key is evicted."""
    at = turn * 60
    ops = [
        Op("plain", keys[turn % 3], "put"),
        Op("plain", keys[(turn + 1) % 3], "delete"),
        Op("windows", keys[0], "put", at),
        Op("windows", keys[1], "fail", at),
        Op("few", keys[turn % 4], "put"),
        Op("few", keys[(turn + 2) % 4], "put"),
        Op("own", keys[turn % 2], "put"),
        Op("own", keys[(turn + 1) % 2], "delete"),
    ]
    return [(op, at) for op in ops]


def work(world: World, slot: SimSlot, turn: int) -> None:
    """Inputs for all tasks, which take them. At a gate the first key is paused in every other turn."""
    for partition in range(TASKS):
        keys = keys_in(partition, TASKS)
        if world.truth.gate is not None:
            world.ask(partition, keys[0], "ACTIVE" if turn % 2 else "PAUSED")
        world.produce(partition, inputs(turn, keys))
    slot.work_off()


def one_slot(world: World) -> SimSlot:
    """All tasks in one slot, with some rows on disk, and some in the log only."""
    world.plan([(range(len(world.tasks)), 0)])
    slot = world.slots[0]
    world.finish(slot)
    for turn, kept in enumerate((EAGER, LAZY)):
        work(world, slot, turn)
        world.commit(slot, kept)
    return slot


def check_the_rest(world: World, turn: int) -> None:
    """Whoever is alive goes on, zombies too; then everything is stopped, opened again and looked at."""
    slot = world.slots[0]
    if slot.dead:
        slot = world.restart(0)
    world.finish(slot)
    work(world, slot, turn)
    world.commit(slot, EAGER)
    settle(world, Random(0), lambda _: None)


@pytest.mark.slow
@pytest.mark.parametrize(("log", "fault"), cases(IN_A_COMMIT), ids=named)
def test_a_commit_that_is_interrupted_counts_wholly_or_not_at_all(log: LogKind, fault: Fault) -> None:
    with world_on(log) as world:
        slot = one_slot(world)
        work(world, slot, 2)
        world.attempt(slot, lambda: world.commit(slot, EAGER), fault)
        assert world.faults.fired == {(fault.point, fault.mode): 1}
        check_the_rest(world, 3)


@pytest.mark.slow
@pytest.mark.parametrize(("log", "fault"), cases(RESTORE_POINTS), ids=named)
def test_a_restore_that_is_interrupted_ends_right(log: LogKind, fault: Fault) -> None:
    with world_on(log) as world:
        one_slot(world).die()
        slot = world.restart(0, EAGER, fault.nth % 2)  # odd: on another host, so all comes from the log
        world.attempt(slot, lambda: world.finish(slot), fault)
        assert world.faults.fired == {(fault.point, fault.mode): 1}
        check_the_rest(world, 2)


@pytest.mark.parametrize("gate", [False, True], ids=["no gate", "gate"])
@pytest.mark.parametrize("log", ["model", "sqlite"])
@pytest.mark.parametrize("point", RESTORE_POINTS)
def test_a_restore_that_is_killed_again_and_again_ends_right(log: LogKind, point: str, gate: bool) -> None:
    with world_on(log, gate=gate) as world:
        one_slot(world).die()
        for attempt in range(1, 6):
            slot = world.restart(0, EAGER, 1)
            world.attempt(slot, partial(world.finish, slot), Fault(point, "kill", attempt))
        check_the_rest(world, 2)


@pytest.mark.parametrize("gate", [False, True], ids=["no gate", "gate"])
@pytest.mark.parametrize("log", ["model", "sqlite"])
def test_commits_with_an_unknown_result_again_and_again_neither_lose_nor_repeat(
    log: LogKind, gate: bool
) -> None:
    with world_on(log, gate=gate) as world:
        slot = one_slot(world)
        for turn, point in enumerate(["log.commit.8", "log.commit.7"] * 3, start=2):
            work(world, slot, turn)
            world.attempt(slot, partial(world.commit, slot, EAGER), Fault(point, "unknown"))
            slot = world.restart(0, EAGER)
            world.finish(slot)
        check_the_rest(world, 9)
