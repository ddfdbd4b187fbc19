"""All other actions: producers, the clock, compaction, foreign writers, deleted folders."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, get_args

import msgspec
from tests.simulator.draws import HOSTS
from tests.simulator.faults import COMPACT_POINTS, Fault, Injected
from tests.simulator.inputs import draw_op
from tests.simulator.program import APP, DELETE_RETENTION_MS, INPUT, OUTPUT, keys_in
from tests.simulator.world import World

from tidegate.gate.formats import GateState
from tidegate.log import names
from tidegate.log.positions import Position, TaskId
from tidegate.log.protocol import Writer
from tidegate.log.records import Row, to_batch
from tidegate.state.builder import StoreBuilder
from tidegate.state.environment import Environment
from tidegate.state.lmdb_store import LmdbStore
from tidegate.types import TopicPartition

FAR_AHEAD = 1_000_000
STATES: tuple[GateState, ...] = get_args(GateState)


def produce(world: World, rng: Random) -> str:
    return produce_in(world, rng.randrange(world.options.partitions), rng)


def produce_in(world: World, partition: int, rng: Random) -> str:
    """Some inputs, now and then behind a transaction that is aborted."""
    ops = []
    keys = keys_in(partition, world.options.partitions)
    for _ in range(rng.choice((1, 2, 4, 8))):
        timestamp = world.times.draw(partition, rng)
        ops.append((draw_op(world.options.stores, keys, timestamp, rng), timestamp))
    if rng.random() < 0.2:
        writer = world.log.writer("producer")
        writer.append(TopicPartition(INPUT, partition), to_batch([Row(b"k", b"aborted", 0)]))
        writer.abort()
        writer.close()
    world.produce(partition, ops)
    return f"inputs in {partition}: " + " ".join(
        f"{op.store}.{op.key}{'/' + str(op.start) if op.start else ''}:{op.action}@{timestamp}"
        for op, timestamp in ops
    )


def ask(world: World, rng: Random) -> str | None:
    """Somebody pauses and resumes keys; events may follow at once."""
    if world.truth.gate is None:
        return None
    partition = rng.randrange(world.options.partitions)
    reported = []
    for _ in range(rng.choice((1, 2, 4))):
        key, state = rng.choice(keys_in(partition, world.options.partitions)), rng.choice(STATES)
        world.ask(partition, key, state)
        reported.append(f"{key} shall be {state}")
    if rng.random() < 0.5:
        reported.append(produce_in(world, partition, rng))
    return "; ".join(reported)


def changelogs(world: World) -> list[str]:
    """The changelog topics of all stores."""
    return sorted({at.topic for task in world.truth.tasks.values() for at in task.changelogs.values()})


def compact(world: World, rng: Random) -> str:
    topic = rng.choice([*changelogs(world), names.positions(APP)])
    world.compact(topic)
    return f"{topic} is compacted"


def faulty_compact(world: World, rng: Random) -> str:
    topic, point = rng.choice(changelogs(world)), rng.choice(COMPACT_POINTS)
    world.faults.arm(Fault(point, "exception"), lambda: None, lambda: None)
    try:
        world.compact(topic)
    except Injected:
        pass
    finally:
        world.faults.disarm()
    return f"{topic} is compacted, exception at {point}"


def long_sleep(world: World, rng: Random) -> str:
    """So long that tombstones go: they get their horizon, it passes, and they are dropped."""
    for _ in range(2):
        for topic in changelogs(world):
            world.compact(topic)
        world.clock.advance(DELETE_RETENTION_MS + rng.randint(1, 100))
    for topic in changelogs(world):
        world.compact(topic)
    return "tombstones go"


class ClockJumps:
    """Moves the clock. All its steps back together stay below half of the tombstones' life: a store's age is
    measured by the clock, and a clock that is wrong by more can hide that tombstones went."""

    def __init__(self) -> None:
        self._back = DELETE_RETENTION_MS // 2 - 1

    def __call__(self, world: World, rng: Random) -> str:
        step = rng.choice(("small", "half", "beyond", "back"))
        if step == "back":
            millis = -rng.randint(0, self._back)
            self._back += millis
        else:
            least = {"small": 1, "half": DELETE_RETENTION_MS // 2, "beyond": DELETE_RETENTION_MS}[step]
            millis = least + rng.randint(0, 300)
        world.clock.advance(millis)
        return f"the clock moves by {millis} ({step})"


def abort(world: World, rng: Random) -> str:
    writer = world.log.writer("foreign")
    where = _write_lies(world, writer, rng)
    writer.abort()
    writer.close()
    return f"a transaction in {where} is aborted"


def leave_open(world: World, rng: Random) -> str:
    if world.opened is not None:
        world.opened.close()
        world.opened = None
        return "the open transaction is aborted"
    world.opened = world.log.writer("sleeper")
    return f"a transaction in {_write_lies(world, world.opened, rng)} stays open"


def _write_lies(world: World, writer: Writer, rng: Random) -> str:
    """Records that would show at once if anybody read them."""
    known = world.truth.tasks[rng.choice(world.tasks)]
    topic, number = known.source
    lie = Position(
        sources={topic: {number: FAR_AHEAD}},
        stream_times={topic: {number: FAR_AHEAD}},
        changelogs=dict.fromkeys(known.changelogs, FAR_AHEAD),
    )
    row = Row(msgspec.json.encode(known.task), msgspec.json.encode(lie), 0)
    places = {
        TopicPartition(names.positions(APP), 0): row,
        TopicPartition(OUTPUT, number): Row(b"k", b"-1.0", 0),
        **{at: Row(_key(known.builders[store]), b"-1.0", 0) for store, at in known.changelogs.items()},
    }
    chosen = rng.sample(list(places), rng.randint(1, len(places)))
    for place in chosen:
        writer.append(place, to_batch([places[place]]))
    return ", ".join(map(str, chosen))


def _key(builder: StoreBuilder[Any]) -> bytes:
    return b"k0" + bytes(builder.layout.suffix)


def lose_folder(world: World, rng: Random) -> str | None:
    home = _idle_home(world, rng)
    if home is None:
        return None
    world.lose(home)
    return f"{_named(world, home)} is lost"


def delete_file(world: World, rng: Random) -> str | None:
    home = _idle_home(world, rng)
    if home is None:
        return None
    name = rng.choice(("data.mdb", "lock.mdb", "checkpoint"))
    (_newest(home) / name).unlink(missing_ok=True)
    return f"{name} of {_named(world, home)} is deleted"


def put_ahead(world: World, rng: Random) -> str | None:
    """A log that lost its last commits: a store on disk that is ahead of it, with a row that is not there."""
    home = _idle_home(world, rng)
    if home is None or not (_newest(home) / "data.mdb").exists():
        return None
    known = next(known for task, known in world.truth.tasks.items() if home in _homes_of(world, task))
    stores = [store for store, builder in known.builders.items() if builder.persistent]
    if not stores:
        return None
    databases = [name for builder in known.builders.values() for name in builder.databases]
    environment = Environment(_newest(home), databases, sync=False)
    try:
        metadata = environment.metadata()
        store = rng.choice(stores)
        if metadata is None or store not in metadata.offsets:
            return None
        metadata.offsets[store] = FAR_AHEAD
        builder = known.builders[store]
        LmdbStore(environment, store, builder.layout.suffix).apply([(_key(builder), bytes(8) + b"ahead")])
        environment.commit(metadata)
    finally:
        environment.close()
    world.tampered.add(home)
    return f"{store} of {_named(world, home)} is ahead of the log"


def _homes_of(world: World, task: TaskId) -> list[Path]:
    return [world.homes(host)[world.tasks.index(task)] for host in range(HOSTS)]


def _idle_home(world: World, rng: Random) -> Path | None:
    homes = [home for home in all_homes(world) if not world.is_held(home)]
    homes = [home for home in homes if any(path.is_dir() for path in home.iterdir())]
    return rng.choice(homes) if homes else None


def all_homes(world: World) -> list[Path]:
    """Those that are there."""
    return [home for host in range(HOSTS) for home in world.homes(host) if home.exists()]


def _newest(home: Path) -> Path:
    return max((path for path in home.iterdir() if path.is_dir()), key=lambda path: int(path.name))


def _named(world: World, home: Path) -> str:
    return home.relative_to(world.root).as_posix()
