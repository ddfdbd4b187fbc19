"""Who may write: every order of events, in a model of the protocol (protocol_model.py lists what is in it).

The promises, looked at in every state that can be reached:

- I2  no unit of a task's input is committed twice;
- I4  the units of a task are committed in order;
- I8  an attempt of a slot that was fenced by a newer one, or by a driver's step 4, commits nothing any more
      (one whose transaction expired may go on: it opens its writer again);
- generations  when a later generation of the app is active, no job of an earlier one commits anything, and no
      driver of an earlier one makes its own active again;
- progress  if nobody has anything left to do, then all input is done, or the newest driver is gone.

First the protocol keeps them, in worlds that each allow other faults. Then each rule is taken away, and the
search tells how it ends: a rule that could go without anybody noticing would not be worth its place. Two
steps are like that, and a test below shows why they are there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import pytest
from tests.runtime.protocol_model import (
    ALL_OF_IT,
    NOBODY,
    WITH_GENERATIONS,
    Plan,
    Purse,
    Rules,
    State,
    Step,
    World,
    first_state,
    next_states,
)

pytestmark = pytest.mark.slow

A_CRASH = World(2, 1, (2,), Purse(driver_crashes=1))
A_RESTART = World(1, 1, (2,), Purse(job_crashes=1, restarts=1, expiries=1))
A_NEW_PLAN = World(1, 2, (1,), Purse(new_plans=1))
AN_END = World(2, 1, (1,), Purse(ends=1))

WORLDS = {
    "drivers and jobs crash": World(2, 1, (2,), Purse(driver_crashes=1, job_crashes=1)),
    "zombies of two drivers wake up": World(2, 1, (2,), Purse(restarts=1, expiries=1)),
    "a slot is started three times": World(1, 1, (3,), Purse(job_crashes=1, restarts=1, expiries=2)),
    "three drivers": World(3, 1, (1,), Purse(driver_crashes=1)),
    "two drivers of two slots": World(2, 2, (1,)),
    "two tasks in two slots": World(1, 2, (1, 1), Purse(job_crashes=1, restarts=1)),
    "tasks move between slots": A_NEW_PLAN,
    "a driver gives up": World(2, 1, (1,), Purse(new_plans=1, ends=1)),
}


class Found(NamedTuple):
    """The result of a search: how many states, and the shortest story of each broken promise."""

    states: int
    broken: dict[str, list[str]]


def search(world: World, rules: Rules, until: str | None = None) -> Found:
    """All reachable states, breadth first, or as many as it takes to see the promise `until` broken."""
    first = first_state(world, rules)
    came: dict[State, tuple[State, str] | None] = {first: None}
    broken: dict[str, list[str]] = {}
    queue = deque([first])
    while queue and until not in broken:
        state = queue.popleft()
        steps = list(next_states(state, world, rules))
        promises = list(_broken(state, world, steps))
        for promise in promises:
            if promise not in broken:
                broken[promise] = _story(state, came)
        if "I2" in promises or "I4" in promises:
            continue
        for story, after, _ in steps:
            if after not in came:
                came[after] = state, story
                queue.append(after)
    return Found(len(came), broken)


def _broken(state: State, world: World, steps: list[Step]) -> Iterator[str]:
    for units in state.committed:
        if len(set(units)) < len(units):
            yield "I2"
        if units != tuple(sorted(units)):
            yield "I4"
    if state.late:
        yield "I8"
    if state.replaced:
        yield "generations"
    newest = state.driver_holder
    alive = newest != NOBODY and not state.drivers[newest].over
    missing = any(len(set(units)) < total for units, total in zip(state.committed, world.units, strict=True))
    if missing and alive and not any(step.usual for step in steps):
        yield "progress"


def _story(state: State, came: dict[State, tuple[State, str] | None]) -> list[str]:
    reported = []
    while (before := came[state]) is not None:
        state, step = before
        reported.append(step)
    return reported[::-1]


def without(step: str) -> Rules:
    """The protocol, with a step of the driver left out."""
    steps = tuple(one for one in ALL_OF_IT if one != step)
    return Rules(driver=steps, new_plan=steps[1:])


def driver(*begin: str) -> Rules:
    """A driver that begins with these steps, and does the others as ever."""
    return Rules(driver=(*begin, *(step for step in ALL_OF_IT if step not in begin)))


def slot(*steps: str) -> Rules:
    """A slot that starts in this order."""
    return Rules(slot=steps, slot_after_a_fence=("look", *steps))


BUGS = {
    "the last plan is read before the driver's writer is opened": (
        driver("read the plan", "open"),
        A_CRASH,
        {"I2", "I4"},
    ),
    "the epoch is read before the driver's writer is opened": (
        driver("read the epoch", "open"),
        A_CRASH,
        {"I2", "I4", "I8"},
    ),
    "the writers of the last plan are not fenced": (without("fence"), A_CRASH, {"I2", "I4"}),
    "they are fenced before the epoch is written": (
        driver("open", "read the epoch", "read the plan", "fence"),
        A_CRASH,
        {"I2", "I4", "I8"},
    ),
    "they are fenced after the plan is written": (
        driver("open", "read the epoch", "read the plan", "claim", "read back", "start", "plan"),
        A_CRASH,
        {"I2", "I4"},
    ),
    "slots open tasks before the plan is written": (
        Rules(slots_wait_for_the_plan=False),
        A_CRASH,
        {"I2", "I4"},
    ),
    "a fenced slot opens its writer without a look at the control topic": (
        Rules(slot_after_a_fence=("open", "read positions")),
        A_CRASH,
        {"I2", "I4", "I8"},
    ),
    "a slot reads the control topic before it opens its writer": (
        slot("read control", "open", "read positions"),
        A_CRASH,
        {"I2", "I4", "I8"},
    ),
    "a slot reads the positions before it opens its writer": (
        slot("read positions", "open", "read control"),
        A_RESTART,
        {"I2", "I4"},
    ),
    "a restart does not write its attempt": (Rules(attempts_are_written=False), A_RESTART, {"I8"}),
    "the log does not check the fence when it commits": (
        Rules(the_log_checks_the_fence=False),
        A_RESTART,
        {"I2", "I4", "I8"},
    ),
    "a driver that ends stops the epoch in force": (
        Rules(stop_names_the_own_epoch=False),
        AN_END,
        {"progress"},
    ),
}

UPGRADES = {
    "an upgrade, and a start that was prepared before it": World(
        2, 1, (2,), Purse(driver_crashes=1, restarts=1), generations=(1, 2)
    ),
    "a start that slept through an upgrade": World(
        2, 1, (2,), Purse(restarts=1, expiries=1), generations=(2, 1)
    ),
    "an upgrade that crashes, and the next one": World(
        2, 1, (1,), Purse(driver_crashes=1), generations=(2, 2)
    ),
    "both versions, again and again": World(3, 1, (1,), generations=(1, 2, 1)),
}


def upgrading(*steps: str) -> Rules:
    return Rules(driver=steps, new_plan=steps[1:])


GENERATION_BUGS = {
    "the active generation is read before the driver's writer is opened": upgrading(
        "read active", "open", *WITH_GENERATIONS[2:]
    ),
    "the active generation is not read again": upgrading(
        *(step for step in WITH_GENERATIONS if step != "read active")
    ),
    "the new generation is active before the old slots are fenced": upgrading(
        "open",
        "read active",
        "read the epoch",
        "read the plan",
        "switch",
        "claim",
        "read back",
        "fence",
        "start",
        "plan",
    ),
}

HARMLESS = {
    "the epoch is not read back": without("read back"),
    "a fenced slot does not look before it opens": Rules(slot_after_a_fence=Rules().slot),
}


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_the_protocol_keeps_its_promises_in_every_order_of_events(world: World) -> None:
    found = search(world, Rules())
    assert found.broken == {}
    assert found.states > 1000


@pytest.mark.parametrize("world", UPGRADES.values(), ids=UPGRADES)
def test_a_later_generation_replaces_an_earlier_one_for_good(world: World) -> None:
    found = search(world, upgrading(*WITH_GENERATIONS))
    assert found.broken == {}
    assert found.states > 500


@pytest.mark.parametrize("rules", GENERATION_BUGS.values(), ids=GENERATION_BUGS)
def test_a_version_that_waited_takes_over_if_a_rule_is_taken_away(rules: Rules) -> None:
    worlds = UPGRADES.values()
    assert any("generations" in search(world, rules, until="generations").broken for world in worlds)


@pytest.mark.parametrize(("rules", "world", "promises"), BUGS.values(), ids=BUGS)
def test_a_rule_taken_away_breaks_a_promise(rules: Rules, world: World, promises: set[str]) -> None:
    """A restart without its attempt repeats nothing, since both starts open the same writer and read the
    positions behind it; but the older one takes the writer back, and the two go on fencing each other."""
    assert set(search(world, rules).broken) == promises


def test_a_new_plan_under_the_old_epoch_breaks_a_promise() -> None:
    """A slot that starts takes the old plan for the new one. This search has no end of its own: a slot that
    the old plan leaves out ends at once, and is started again and again while the driver waits."""
    rules = Rules(new_plan=tuple(step for step in Rules().new_plan if step != "claim"))
    assert "I2" in search(A_NEW_PLAN, rules, until="I2").broken


@pytest.mark.parametrize("world", [A_CRASH, A_RESTART, A_NEW_PLAN, AN_END])
@pytest.mark.parametrize("rules", HARMLESS.values(), ids=HARMLESS)
def test_two_steps_are_only_for_early_and_clear_errors(rules: Rules, world: World) -> None:
    """Step 3 finds nothing that the next commit of a fenced driver would not: it guards against a log that
    loses what it acknowledged, and there is none in the model. The look of a fenced slot spares the newer
    attempt a fence; the read behind the open is what decides."""
    assert search(world, rules).broken == {}


def test_the_story_of_a_broken_promise_can_be_played_again() -> None:
    """Each step of it follows from the one before, and it ends with the unit that is committed twice."""
    rules, world, _ = BUGS["the last plan is read before the driver's writer is opened"]
    story = search(world, rules, until="I2").broken["I2"]
    state = first_state(world, rules)
    for reported in story:
        state = next(step.state for step in next_states(state, world, rules) if step.story == reported)
    assert any(before == after for units in state.committed for before, after in pairwise(units))
    assert story.index("driver 1: read the plan") < story.index("driver 0: plan (0,)")


def test_alone_and_undisturbed_a_driver_does_all_the_input() -> None:
    """The model does on a calm day what the code does."""
    world, rules = World(1, 1, (2,)), Rules()
    state = first_state(world, rules)
    while steps := list(next_states(state, world, rules)):
        state = steps[0].state
    assert state.committed == ((0, 1),)
    assert state.control.plan == Plan(1, (0,), (0,))
    assert state.driver_holder != NOBODY
