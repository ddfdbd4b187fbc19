"""Starting an app on a log: its topics, its manifest, its first positions, and who may write.

Steps, as far as one process needs them: 1 open the driver's writer, fencing another driver; 2 only then read
the control topic to its end; 3 write the next epoch with its plan, and first positions where there are none,
in one transaction; 4 fence every writer that the last plan names; 5 open the slots' writers and tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tidegate import names
from tidegate.app import App
from tidegate.clock import Clock
from tidegate.errors import ConfigError, UpgradeError
from tidegate.log.ensure import ensure_topic, find_topic
from tidegate.log.positions import Position, TaskId, position_row, positions_topic, read_positions
from tidegate.log.protocol import Log, Writer
from tidegate.log.records import to_batch
from tidegate.log.topic import TopicInfo, TopicSpec
from tidegate.runtime.control import Plan, control_topic, read_control, read_plan, write_control
from tidegate.runtime.slot import Slot
from tidegate.runtime.task import Setting, StreamTask
from tidegate.state.changelog import changelog_spec
from tidegate.state.folders import task_home
from tidegate.state.manager import Limits, Owner, StateManager
from tidegate.state.protocol import RestoreListener
from tidegate.topics import TopicBase
from tidegate.topology.graph import Subtopology, Topology
from tidegate.topology.manifest import Manifest, make_manifest, partition_counts
from tidegate.topology.node import Kind
from tidegate.types import TopicPartition

ROLE = "active"
SOURCES = (Kind.SOURCE, Kind.TABLE)
REPARTITION_CONFIG = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "message.timestamp.after.max.ms": str(2**63 - 1),
}


@dataclass(frozen=True, slots=True)
class Run:
    """An app that is ready to run: everything it needs is in the log."""

    setting: Setting
    log: Log
    counts: Mapping[tuple[str, int], int]

    @property
    def manifest(self) -> Manifest:
        return self.setting.manifest

    def tasks(self) -> list[tuple[Subtopology, TaskId]]:
        """All stream tasks of the app."""
        return [
            (sub, TaskId(sub.component, self.manifest.generation, sub.number, partition))
            for sub in self.setting.topology.subtopologies()
            for partition in range(self.counts[sub.component, sub.number])
        ]

    def slots(
        self,
        state_dir: Path,
        count: int,
        limits: Limits | None = None,
        listener: RestoreListener | None = None,
    ) -> list[Slot]:
        """Take over from whoever ran before, and open new slots over all tasks."""
        app, clock = self.manifest.app, self.setting.clock
        with closing(self.log.writer(names.driver_id(app, ROLE))) as driver:
            last = read_plan(read_control(self.log, app), ROLE)
            epoch = last.epoch + 1
            writers = [names.writer_id(app, self.manifest.generation, epoch, slot) for slot in range(count)]
            plan = msgspec.json.encode(Plan(epoch, writers))
            for writer in last.writers:
                self.log.writer(writer).close()
            self._write_first_positions(driver)
            write_control(driver, app, {f"plan/{ROLE}": plan}, clock.now())
            driver.commit()
        opened = [self.log.writer(writer) for writer in writers]
        read_at = clock.now()
        positions = read_positions(self.log, app)
        slots = []
        for number, slot_writer in enumerate(opened):
            mine = self.tasks()[number::count]
            tasks = [self.task(sub, task, state_dir, epoch, limits) for sub, task in mine]
            slots.append(Slot(app, self.log, slot_writer, tasks, positions, clock, listener, read_at=read_at))
        return slots

    def task(
        self,
        sub: Subtopology,
        task: TaskId,
        state_dir: Path,
        epoch: int,
        limits: Limits | None = None,
        pinned: Mapping[TopicPartition, int] | None = None,
    ) -> StreamTask:
        """One stream task with its stores registered; with `pinned` ends it merges strictly, up to them."""
        owner = Owner(self.manifest.app, task, self.log.id, epoch)
        home = task_home(state_dir, self.manifest.app, task)
        state = StateManager(owner, home, self.setting.clock, limits)
        registered: set[str] = set()
        for node in sub.nodes:
            for builder in self.setting.topology.nodes[node].stores:
                if builder.name not in registered:
                    registered.add(builder.name)
                    state.register(builder, self.manifest.stores[builder.name].changelog)
        return StreamTask(self.setting, sub, task, state, pinned)

    def _write_first_positions(self, driver: Writer) -> None:
        """Start offsets for tasks that have no position yet. From then on a missing one is an error."""
        app = self.manifest.app
        known = read_positions(self.log, app)
        rows = []
        for sub, task in self.tasks():
            if task not in known:
                rows.append(position_row(task, self._first_position(sub, task), self.setting.clock.now()))
        if rows:
            driver.append(TopicPartition(names.positions(app), 0), to_batch(rows))

    def _first_position(self, sub: Subtopology, task: TaskId) -> Position:
        nodes = self.setting.topology.nodes
        sources: dict[str, dict[int, int]] = {}
        for node in (nodes[number] for number in sub.inputs):
            topic = node.topic.name if node.topic else self.manifest.internal[node.name]
            sources[topic] = {task.partition: self.log.describe(topic).starts[task.partition]}
        changelogs = {}
        for node in (nodes[number] for number in sub.nodes):
            for builder in node.stores:
                topic_name = self.manifest.stores[builder.name].changelog
                if topic_name is not None:
                    partition = TopicPartition(topic_name, task.partition)
                    changelogs[builder.name] = int(self.log.ends([partition])[partition])
        return Position(sources=sources, changelogs=changelogs)


def prepare(
    app: App,
    log: Log,
    clock: Clock,
    *,
    partitions: int = 4,
    create_sources: bool = True,
    on_error: str = "stop",
    batches: bool = True,
) -> Run:
    """Build the app, and create or check everything that it needs in the log."""
    topology = app.build()
    declared = {node.topic.name: node for node in topology.nodes.values() if node.topic is not None}
    infos = {
        name: _declared(log, node.topic, partitions, create=create_sources or node.kind not in SOURCES)
        for name, node in declared.items()
        if node.topic is not None
    }
    counts_of_topics = {name: info.partitions for name, info in infos.items()}
    manifest = _manifest(topology, log, counts_of_topics, clock)
    counts = partition_counts(topology, counts_of_topics)
    largest = max(info.setting("max.message.bytes") for info in infos.values())
    for name, topic in manifest.internal.items():
        config = {**REPARTITION_CONFIG, "max.message.bytes": str(largest + (64 << 10))}
        infos[topic] = log.create(TopicSpec(topic, manifest.internal_partitions[name], config))
    _create_changelogs(topology, manifest, log, counts, largest)
    log.create(positions_topic(topology.app))
    letters = names.dead_letters(topology.app)
    infos[letters] = ensure_topic(
        log,
        letters,
        table=False,
        partitions=None,
        default=1,
        config={
            "max.message.bytes": str(largest + (64 << 10)),
            "message.timestamp.after.max.ms": str(2**63 - 1),
        },
    )
    setting = Setting(topology, manifest, infos, letters, clock, on_error=on_error, batches=batches)
    return Run(setting, log, counts)


def _declared(log: Log, topic: TopicBase[object, object], partitions: int, *, create: bool) -> TopicInfo:
    if not create and find_topic(log, topic.name) is None:
        raise ConfigError(
            "no-such-topic",
            f"the source topic {topic.name!r} is not there",
            f"tidegate topics create {topic.name}",
        )
    return ensure_topic(
        log,
        topic.name,
        table=topic.policy == "compact",
        partitions=topic.partitions,
        default=partitions,
        config=topic.config,
    )


def _manifest(topology: Topology, log: Log, partitions: Mapping[str, int], clock: Clock) -> Manifest:
    """The manifest of generation 1: written at the first start, compared at every later one."""
    app = topology.app
    log.create(control_topic(app))
    made = make_manifest(topology, partitions)
    with closing(log.writer(names.driver_id(app, ROLE))) as driver:
        raw = read_control(log, app).get("manifest/1")
        if raw is None:
            write_control(driver, app, {"manifest/1": msgspec.json.encode(made)}, clock.now())
            driver.commit()
            return made
    found = msgspec.json.decode(raw, type=Manifest)
    made = msgspec.json.decode(msgspec.json.encode(made), type=Manifest)
    for name, count in {**found.sources, **found.sinks}.items():
        if name in partitions and partitions[name] != count:
            raise ConfigError(
                "partitions-changed",
                f"topic {name!r} has {partitions[name]} partitions, and had {count} when the app first ran",
                "keys have moved; give the topic its partitions back, or use a new app id",
            )
    if found != made:
        raise UpgradeError(
            "changed-app",
            f"app {app!r} is not the one that ran here before: {', '.join(_differences(found, made))}",
            "upgrades come with a later version; until then use a new app id",
        )
    return found


def _differences(old: Manifest, new: Manifest) -> list[str]:
    before, after = msgspec.structs.asdict(old), msgspec.structs.asdict(new)
    return [name for name in before if before[name] != after[name]]


def _create_changelogs(
    topology: Topology, manifest: Manifest, log: Log, counts: Mapping[tuple[str, int], int], largest: int
) -> None:
    for sub in topology.subtopologies():
        for node in (topology.nodes[number] for number in sub.nodes):
            for builder in node.stores:
                topic = manifest.stores[builder.name].changelog
                if topic is not None:
                    count = counts[sub.component, sub.number]
                    log.create(changelog_spec(topic, count, builder.config, largest))
