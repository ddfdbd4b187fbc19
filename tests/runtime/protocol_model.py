"""A model of "who may write" (takeover.py, slot_job.py, coordinator.py), small enough to try every order.

A state is a tuple; `next_states` gives all that can follow, one small atomic step of one actor at a time. The
test walks over everything that can be reached from `first_state`.

Actors are drivers and the jobs of slots. Nobody has a clock and nobody must ever take the next step: an actor
that others overtake is one that sleeps, and it may wake up at any time. What it read in one step may be
outdated in its next. The log is four facts: the newest control records, who holds the driver's writer, who
holds the writer of each slot, and what is committed of each task. A transaction (position and output of one
unit of input) is committed in one step that fails if the writer was fenced.

The rules are the order of the steps, as data: a bug is another order. Faults (crashes, restarts of jobs that
still run, expired transactions, new plans, a driver that gives up) come from a purse, so that searches end.

Not modelled: the content of stores and restores, open transactions that hide what is behind them
(`read_to_end` waits for those), commits whose answer is lost (for a job that is a commit and a crash), first
positions, what an upgrade recalculates, DataFrame stages, and time: patience may end at any moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

NOBODY = -1
ALL_OF_IT = ("open", "read the epoch", "read the plan", "claim", "read back", "fence", "start", "plan")
WITH_GENERATIONS = (
    "open",
    "read active",
    "read the epoch",
    "read the plan",
    "claim",
    "read back",
    "fence",
    "switch",
    "start",
    "plan",
)
"""The steps where versions of an app meet: a driver of a later generation makes it the active one."""


class Rules(NamedTuple):
    """Who does what in which order. The defaults are the protocol."""

    driver: tuple[str, ...] = ALL_OF_IT
    new_plan: tuple[str, ...] = ALL_OF_IT[1:]
    slot: tuple[str, ...] = ("open", "read control", "read positions")
    slot_after_a_fence: tuple[str, ...] = ("look", "open", "read control", "read positions")
    slots_wait_for_the_plan: bool = True
    attempts_are_written: bool = True
    stop_names_the_own_epoch: bool = True
    the_log_checks_the_fence: bool = True


class Purse(NamedTuple):
    """How much of what may happen besides the protocol."""

    driver_crashes: int = 0
    job_crashes: int = 0
    restarts: int = 0
    """Of jobs that still run: the driver thinks that they do not."""
    expiries: int = 0
    new_plans: int = 0
    ends: int = 0
    """Drivers that give up for a reason of their own, and ask their slots to stop."""


class World(NamedTuple):
    """What is searched."""

    drivers: int = 2
    slots: int = 1
    units: tuple[int, ...] = (2,)
    """Of input, by task."""
    purse: Purse = Purse()
    generations: tuple[int, ...] = ()
    """Of the code of each driver. One of generation 2 was prepared when generation 1 was active."""


class Plan(NamedTuple):
    """Which slots run in an epoch, and the slot of each task."""

    epoch: int = 0
    slots: tuple[int, ...] = ()
    slot_of: tuple[int, ...] = ()


class Control(NamedTuple):
    """The newest record of each key of the control topic; attempts by slot, as (epoch, attempt)."""

    epoch: int
    plan: Plan
    attempts: tuple[tuple[int, int], ...]
    stop: int = 0
    active: int = 1


class Driver(NamedTuple):
    """What one driver still has to do, and what it remembers."""

    todo: tuple[str, ...]
    started: bool = False
    over: bool = False
    epoch: int = 0
    found: int = 0
    to_fence: Plan = Plan()
    attempts: tuple[int, ...] = ()
    landed: tuple[int, ...] = ()
    generation: int = 1


class Job(NamedTuple):
    """One start of a slot. With nothing to do before, it works: `at` is the next unit of each task."""

    epoch: int
    slot: int
    attempt: int
    todo: tuple[str, ...]
    landed: bool = False
    tasks: tuple[int, ...] = ()
    at: tuple[int, ...] = ()
    generation: int = 1


class Held(NamedTuple):
    """The writer of a slot of an epoch."""

    epoch: int
    slot: int
    holder: int
    void: int
    """Attempts up to this one were fenced by one that came after them, or by a driver."""


class State(NamedTuple):
    control: Control
    drivers: tuple[Driver, ...]
    driver_holder: int
    jobs: tuple[Job, ...]
    writers: tuple[Held, ...]
    committed: tuple[tuple[int, ...], ...]
    """Units, by task, in the order of the log."""
    late: bool
    """Whether an attempt committed after it was void."""
    purse: Purse
    replaced: bool = False
    """Whether a job of a generation committed after a later one became active."""


class Step(NamedTuple):
    """`usual` steps are what the protocol does of its own accord; the others happen to it."""

    story: str
    state: State
    usual: bool = True


def first_state(world: World, rules: Rules) -> State:
    control = Control(0, Plan(), ((0, 0),) * world.slots)
    generations = world.generations or (1,) * world.drivers
    drivers = tuple(Driver(_with_slots(rules.driver, world), generation=one) for one in generations)
    return State(control, drivers, NOBODY, (), (), ((),) * len(world.units), False, world.purse)


def next_states(state: State, world: World, rules: Rules) -> Iterator[Step]:
    """Every step that any actor can take now, and every fault that can happen. Drivers are all alike, so they
    may as well begin in the order of their numbers."""
    for number, driver in enumerate(state.drivers):
        if not driver.over and (number == 0 or state.drivers[number - 1].started):
            yield from _driver_steps(state, world, rules, number, driver)
            yield from _driver_faults(state, world, rules, number, driver)
    for job in state.jobs:
        yield from _job_steps(state, world, rules, job)
        yield from _job_faults(state, job)


# --- drivers ------------------------------------------------------------------------------------------


def _driver_steps(state: State, world: World, rules: Rules, number: int, driver: Driver) -> Iterator[Step]:
    if driver.todo:
        do, on = driver.todo[0], driver._replace(todo=driver.todo[1:], started=True)
        reported = f"driver {number}: {do}"
        if do in {"claim", "switch", "plan"} and state.driver_holder != number:
            yield Step(f"{reported}: fenced", _put(state, number, _over()))
        elif do == "plan":
            yield from _plan(state, world, number, on, reported)
        else:
            yield Step(reported, _simple_step(state, world, rules, number, on, do), usual=driver.started)
    if driver.todo in {(), ("plan",)} and state.control.stop < driver.epoch:
        for slot in range(world.slots) if driver.todo else state.control.plan.slots:
            if not any(job[:3] == (driver.epoch, slot, driver.attempts[slot]) for job in state.jobs):
                reported = f"driver {number}: starts slot {slot} again"
                yield Step(reported, _start(state, rules, number, driver, slot))


def _simple_step(state: State, world: World, rules: Rules, number: int, on: Driver, do: str) -> State:
    control = state.control
    if do == "open":
        state = state._replace(driver_holder=number)
    elif do == "read active":
        on = on if control.active in (on.generation, on.generation - 1) else _over()
    elif do == "switch":
        replaced = state.replaced or on.generation < control.active
        state = state._replace(control=control._replace(active=on.generation), replaced=replaced)
    elif do == "read the epoch":
        on = on._replace(found=control.epoch)
    elif do == "read the plan":
        on = on._replace(to_fence=control.plan)
    elif do == "claim":
        on = on._replace(epoch=on.found + 1, attempts=(0,) * world.slots, landed=())
        state = state._replace(control=control._replace(epoch=on.epoch))
    elif do == "read back":
        on = _over() if control.epoch > on.epoch else on
    elif do == "fence":
        return _fence_one(state, number, on)
    else:
        return _start(state, rules, number, on, int(do.removeprefix("start ")))
    return _put(state, number, on)


def _plan(state: State, world: World, number: int, on: Driver, reported: str) -> Iterator[Step]:
    """Over the slots that landed, if any; patience may end before all have. Any slot may get any task."""
    for slot_of in product(on.landed, repeat=len(world.units)):
        control = state.control._replace(plan=Plan(on.epoch, on.landed, slot_of))
        yield Step(
            f"{reported} {slot_of}", _put(state._replace(control=control), number, on._replace(landed=()))
        )


def _driver_faults(state: State, world: World, rules: Rules, number: int, driver: Driver) -> Iterator[Step]:
    purse, name = state.purse, f"driver {number}"
    if purse.driver_crashes and driver.started:
        spent = state._replace(purse=purse._replace(driver_crashes=purse.driver_crashes - 1))
        yield Step(f"{name} crashes", _put(spent, number, _over()), usual=False)
    if purse.ends and driver.todo in {(), ("plan",)}:
        epoch = driver.epoch if rules.stop_names_the_own_epoch else state.control.epoch
        control = state.control._replace(stop=epoch)
        spent = state._replace(control=control, purse=purse._replace(ends=purse.ends - 1))
        yield Step(f"{name} gives up, stop {epoch}", _put(spent, number, _over()), usual=False)
    if driver.todo:
        return
    if purse.new_plans:
        spent = state._replace(purse=purse._replace(new_plans=purse.new_plans - 1))
        again = driver._replace(todo=_with_slots(rules.new_plan, world))
        yield Step(f"{name} makes a new plan", _put(spent, number, again), usual=False)
    if purse.restarts:
        spent = state._replace(purse=purse._replace(restarts=purse.restarts - 1))
        for job in state.jobs:
            if job[:3] == (driver.epoch, job.slot, driver.attempts[job.slot]):
                reported = f"{name}: starts slot {job.slot} again, which runs"
                yield Step(reported, _start(spent, rules, number, driver, job.slot), usual=False)


def _fence_one(state: State, number: int, on: Driver) -> State:
    """One writer after the other; the step is done when none is left."""
    epoch, slots, _ = on.to_fence
    if slots:
        newest = state.control.attempts[slots[0]]
        held = _held(state, epoch, slots[0])
        void = max(held.void, newest[1] if newest[0] == epoch else 0)
        state = _hold(state, held._replace(holder=NOBODY, void=void))
    left = Plan(epoch, slots[1:]) if slots[1:] else Plan()
    return _put(
        state, number, on._replace(to_fence=left, todo=("fence", *on.todo) if left.slots else on.todo)
    )


def _start(state: State, rules: Rules, number: int, driver: Driver, slot: int) -> State:
    """Write the attempt and start the job. One that begins late is one that sleeps before its first step."""
    if state.driver_holder != number:
        return _put(state, number, _over())
    attempt = driver.attempts[slot] + 1
    attempts = (*driver.attempts[:slot], attempt, *driver.attempts[slot + 1 :])
    control = state.control
    if rules.attempts_are_written or attempt == 1:
        newest = (*control.attempts[:slot], (driver.epoch, attempt), *control.attempts[slot + 1 :])
        control = control._replace(attempts=newest)
    started = Job(driver.epoch, slot, attempt, rules.slot, generation=driver.generation)
    jobs = tuple(sorted((*state.jobs, started)))
    return _put(state._replace(control=control, jobs=jobs), number, driver._replace(attempts=attempts))


def _over() -> Driver:
    return Driver((), started=True, over=True)


def _put(state: State, number: int, driver: Driver) -> State:
    drivers = (*state.drivers[:number], driver, *state.drivers[number + 1 :])
    return state._replace(drivers=drivers)


def _with_slots(steps: tuple[str, ...], world: World) -> tuple[str, ...]:
    """With a start for each slot."""
    starts = tuple(f"start {slot}" for slot in range(world.slots))
    at = steps.index("start")
    return (*steps[:at], *starts, *steps[at + 1 :])


# --- jobs of slots ------------------------------------------------------------------------------------


def _job_steps(state: State, world: World, rules: Rules, job: Job) -> Iterator[Step]:
    control, name = state.control, f"job {job.epoch}.{job.slot} attempt {job.attempt}"
    if not job.todo:
        yield from _work(state, world, rules, job, name)
        return
    do, rest = job.todo[0], job.todo[1:]
    reported, on = f"{name}: {do}", job._replace(todo=rest)
    if do == "open":
        held = _held(state, job.epoch, job.slot)
        opened = held._replace(holder=job.attempt, void=max(held.void, job.attempt - 1))
        yield Step(reported, _turn(_hold(state, opened), job, on))
    elif do == "read positions":
        yield Step(reported, _turn(state, job, on._replace(at=tuple(map(len, state.committed)))))
    elif _superseded(control, job) or (do == "read control" and control.stop >= job.epoch):
        yield Step(f"{reported}: ends", _turn(state, job, None))
    elif do == "look":
        yield Step(reported, _turn(state, job, on))
    elif control.plan.epoch == job.epoch:
        mine = tuple(task for task, slot in enumerate(control.plan.slot_of) if slot == job.slot)
        there = job.slot in control.plan.slots
        yield Step(
            f"{reported}: {mine}", _turn(_land(state, job), job, on._replace(tasks=mine) if there else None)
        )
    elif not rules.slots_wait_for_the_plan:
        mine = tuple(range(job.slot, len(world.units), world.slots))
        yield Step(f"{reported}: {mine}", _turn(_land(state, job), job, on._replace(tasks=mine)))
    elif not job.landed:
        yield Step(f"{reported}: lands", _turn(_land(state, job), job, job._replace(landed=True)))


def _work(state: State, world: World, rules: Rules, job: Job, name: str) -> Iterator[Step]:
    """A transaction for the next unit of each task that has one; and the control topic is followed."""
    held = _held(state, job.epoch, job.slot)
    for task in job.tasks:
        unit = job.at[task]
        if unit == world.units[task]:
            continue
        if held.holder != job.attempt and rules.the_log_checks_the_fence:
            fenced = job._replace(todo=rules.slot_after_a_fence, landed=False, tasks=(), at=())
            if "read control" not in rules.slot_after_a_fence:
                fenced = fenced._replace(tasks=job.tasks)
            yield Step(f"{name}: fenced", _turn(state, job, fenced))
            break
        at = (*job.at[:task], unit + 1, *job.at[task + 1 :])
        units = (*state.committed[task], unit)
        committed = (*state.committed[:task], units, *state.committed[task + 1 :])
        after = state._replace(
            committed=committed,
            late=state.late or job.attempt <= held.void,
            replaced=state.replaced or job.generation < state.control.active,
        )
        yield Step(f"{name}: commits unit {unit} of task {task}", _turn(after, job, job._replace(at=at)))
    if _superseded(state.control, job) or state.control.stop >= job.epoch:
        yield Step(f"{name}: ends", _turn(state, job, None))


def _job_faults(state: State, job: Job) -> Iterator[Step]:
    purse, name = state.purse, f"job {job.epoch}.{job.slot} attempt {job.attempt}"
    if purse.job_crashes:
        spent = state._replace(purse=purse._replace(job_crashes=purse.job_crashes - 1))
        yield Step(f"{name} crashes", _turn(spent, job, None), usual=False)
    held = _held(state, job.epoch, job.slot)
    if purse.expiries and held.holder == job.attempt and not job.todo:
        spent = state._replace(purse=purse._replace(expiries=purse.expiries - 1))
        yield Step(f"{name}: expires", _hold(spent, held._replace(holder=NOBODY)), usual=False)


def _superseded(control: Control, job: Job) -> bool:
    return control.attempts[job.slot] > (job.epoch, job.attempt) or control.epoch > job.epoch


def _land(state: State, job: Job) -> State:
    """Tell the driver, if it waits for the landings of this epoch."""
    for number, driver in enumerate(state.drivers):
        if driver.epoch == job.epoch and "plan" in driver.todo and job.slot not in driver.landed:
            landed = tuple(sorted((*driver.landed, job.slot)))
            state = _put(state, number, driver._replace(landed=landed))
    return state


def _turn(state: State, job: Job, after: Job | None) -> State:
    """The job as it is after its step; None if it ended."""
    jobs = (one for one in state.jobs if one is not job)
    return state._replace(jobs=tuple(jobs) if after is None else tuple(sorted((*jobs, after))))


def _held(state: State, epoch: int, slot: int) -> Held:
    found = (held for held in state.writers if held.epoch == epoch and held.slot == slot)
    return next(found, Held(epoch, slot, NOBODY, 0))


def _hold(state: State, held: Held) -> State:
    others = (one for one in state.writers if one[:2] != held[:2])
    return state._replace(writers=tuple(sorted((*others, held))))
