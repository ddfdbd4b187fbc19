"""One run: a seed, a number of steps, and in the end everything must have come right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.simulator import other_actions as other
from tests.simulator import slot_actions as slots
from tests.simulator import stories
from tests.simulator.draws import draw_groups, draw_options
from tests.simulator.faults import Faults, Mode
from tests.simulator.settle import settle
from tests.simulator.violation import Violation
from tests.simulator.world import World

from tidegate.log import faultpoints

STEPS = 20

Action = Callable[[World, Random], "str | None"]


def actions() -> dict[str, tuple[int, Action]]:
    """Every action, and how often it comes."""
    return {
        "produce": (3, other.produce),
        "ask the gate": (3, other.ask),
        "process": (2, slots.process),
        "commit": (8, slots.commit),
        "faulty commit": (8, slots.faulty_commit),
        "restore": (12, slots.restore),
        "faulty restore": (6, slots.faulty_restore),
        "restart": (12, slots.restart),
        "kill": (1, slots.kill),
        "stop": (1, slots.stop),
        "supplant": (2, slots.supplant),
        "plan": (2, slots.plan),
        "wake": (4, slots.wake),
        "compact": (2, other.compact),
        "faulty compact": (1, other.faulty_compact),
        "long sleep": (1, other.long_sleep),
        "clock": (2, other.ClockJumps()),
        "abort": (1, other.abort),
        "leave open": (1, other.leave_open),
        "lose folder": (1, other.lose_folder),
        "delete file": (1, other.delete_file),
        "put ahead": (1, other.put_ahead),
        "voyage": (1, stories.voyage),
        "slow restore": (1, stories.slow_restore),
        "again and again": (1, stories.again_and_again),
    }


@dataclass(slots=True)
class Trace:
    """What happened in a run, in words and in numbers."""

    seed: int
    steps: int
    actions: list[str] = field(default_factory=list)
    drawn: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    fired: Counter[tuple[str, Mode]] = field(default_factory=Counter)
    discards: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return "\n".join(self.actions)

    def add(self, other: Trace) -> None:
        """Count another run to this one."""
        self.drawn += other.drawn
        self.reached += other.reached
        self.fired += other.fired
        self.discards += other.discards


def simulate(seed: int, steps: int = STEPS) -> Trace:
    """Run a seed. Raises Violation, which names the seed and the last actions, if an invariant breaks."""
    trace, rng, faults = Trace(seed, steps), Random(seed), Faults()
    try:
        with fast_folder() as root, faultpoints.installed(faults):
            world = World(draw_options(seed, rng), root, faults)
            try:
                _run(world, rng, trace)
            finally:
                world.close()
    except Violation as violation:
        raise violation.seen(seed, steps, trace.actions) from violation.__cause__
    except Exception as error:
        raise Violation("error", repr(error)).seen(seed, steps, trace.actions) from error
    trace.reached, trace.fired, trace.discards = faults.reached, faults.fired, world.discards
    return trace


def simulate_all(seeds: Iterable[int], steps: int = STEPS) -> Trace:
    """Run many seeds; the numbers of all of them together, without their words."""
    total = Trace(-1, steps)
    for seed in seeds:
        total.add(simulate(seed, steps))
    return total


def _run(world: World, rng: Random, trace: Trace) -> None:
    possible = actions()
    names = list(possible)
    weights = [possible[name][0] for name in names]
    world.nap = lambda slot: slots.nap(world, slot, rng)
    trace.actions.append(f"world: {world.options}")
    groups = draw_groups(len(world.tasks), rng)
    world.plan(groups)
    trace.actions.append(f"first plan {groups}")
    for step in range(trace.steps):
        name, result = "", None
        while result is None:
            name = rng.choices(names, weights)[0]
            trace.actions.append(f"{step} {name} ...")
            result = possible[name][1](world, rng)
            trace.actions.pop()
        trace.drawn[name] += 1
        trace.actions.append(f"{step} {result}")
    settle(world, rng, trace.actions.append)


@contextmanager
def fast_folder() -> Iterator[Path]:
    """A folder for a run: in memory, if the machine offers it. What a disk keeps over a power cut is not what
    is simulated."""
    shared = Path("/dev/shm")  # noqa: S108 - a folder of our own inside
    with TemporaryDirectory(prefix="tidegate-sim-", dir=shared if shared.is_dir() else None) as name:
        yield Path(name)
