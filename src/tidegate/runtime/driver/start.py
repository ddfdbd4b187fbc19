"""Starting an app on a log: its topics, its manifest and its first positions. Who may write: `takeover`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tidegate.app import App
from tidegate.clock import Clock
from tidegate.errors import ConfigError, LogError, TidegateError, UpgradeError
from tidegate.log import names
from tidegate.log.ensure import check_event_times, ensure_topic, find_topic
from tidegate.log.positions import TaskId, check_positions, positions_topic, read_positions
from tidegate.log.protocol import Log, Writer
from tidegate.log.topic import TopicInfo, TopicSpec
from tidegate.runtime.driver.first_positions import append_first_positions
from tidegate.runtime.driver.first_start import check_first_start, check_partitions, settle_manifest
from tidegate.runtime.driver.takeover import Claim, take_over
from tidegate.runtime.slot.refused_records import Refusals
from tidegate.runtime.slot.slot import Slot
from tidegate.runtime.slot.stage import Stage
from tidegate.runtime.task.task import RunContext, StreamTask
from tidegate.runtime.topics.control import Plan, SlotPlan
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.runtime.topics.status import status_topic
from tidegate.state.changelog import changelog_spec
from tidegate.state.folders import task_home
from tidegate.state.manager import Limits, Owner, StateManager
from tidegate.state.protocol import RestoreListener
from tidegate.topics import TopicBase
from tidegate.topology.differences import changed_functions, check_unchanged
from tidegate.topology.graph import Subtopology, Topology
from tidegate.topology.growth import grown
from tidegate.topology.manifest import Manifest, partition_counts
from tidegate.topology.node import COMMANDS, SOURCES, NodeKind
from tidegate.types import TopicPartition

SMALL_BATCH = 100
"""Where a count costs the same either way: a whole batch takes about 1.5 ms however few records it has."""
ASKING_THREADS = 8
"""Each question takes the log some milliseconds, and there may be many topics."""
REPARTITION_CONFIG = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "message.timestamp.after.max.ms": str(2**63 - 1),
}


@dataclass(frozen=True, slots=True)
class Run:
    """An app that is ready to run: everything it needs is in the log."""

    setting: RunContext
    log: Log
    counts: Mapping[tuple[str, int], int]
    notices: tuple[TidegateError, ...] = field(default=(), kw_only=True)
    """What a person should know of this start, such as functions that changed since the last one."""

    @property
    def manifest(self) -> Manifest:
        return self.setting.manifest

    def tasks(self) -> list[tuple[Subtopology, TaskId]]:
        """All stream tasks of the app."""
        stages = [sub for sub, _ in self.setting.topology.stages()]
        return [
            (sub, TaskId(sub.component, self.manifest.generation, sub.number, partition))
            for sub in self.setting.topology.subtopologies()
            if sub not in stages
            for partition in range(self.counts[sub.component, sub.number])
        ]

    def stages(self) -> list[Stage]:
        """All DataFrame stages of the app."""
        manifest, nodes = self.manifest, self.setting.topology.nodes
        return [
            Stage(
                node.name,
                TaskId(sub.component, manifest.generation, sub.number, 0),
                nodes[node.parents[0]],
                node,
                manifest.internal[nodes[node.parents[0]].name],
                manifest.internal[node.name],
                self.counts[sub.component, sub.number],
            )
            for sub, node in self.setting.topology.stages()
        ]

    def slots(
        self,
        state_dir: Path,
        count: int,
        limits: Limits | None = None,
        listener: RestoreListener | None = None,
    ) -> list[Slot]:
        """Take over from whoever ran before, and open new slots over all tasks, in this process."""
        app, clock = self.manifest.app, self.setting.clock
        tasks = [task for _, task in self.tasks()]
        with closing(take_over(self.log, app, self.manifest.generation, clock)) as claim:
            given = {number: tasks[number::count] for number in range(count)}
            plan = self.plan(claim, given, dict.fromkeys(given, ""))
        return [self.slot(slot, plan.epoch, state_dir, limits, listener) for slot in plan.slots]

    def plan(self, claim: Claim, given: Mapping[int, Sequence[TaskId]], hosts: Mapping[int, str]) -> Plan:
        """Step 5 of a takeover: the plan, and with it first positions where there are none."""
        topics = self._uids(self._checked_topics())
        self._check_uids(claim.before, topics)
        append_first_positions(self, claim.writer, claim.before)
        return claim.write_plan(given, hosts, self.stages(), topics, self.setting.clock.now())

    def check_topics(self, plan: Plan) -> None:
        """Raise LogError `topic-recreated` for a source that is another one than the plan was made for."""
        self._check_uids(plan, self._uids(self.manifest.sources))

    def _checked_topics(self) -> list[str]:
        """Those that positions speak of: they mean nothing in another topic of the same name."""
        manifest = self.manifest
        changelogs = [store.changelog for store in manifest.stores.values() if store.changelog]
        return [*manifest.sources, *manifest.internal.values(), *changelogs]

    def _uids(self, topics: Iterable[str]) -> dict[str, str]:
        with ThreadPoolExecutor(ASKING_THREADS) as pool:
            return {info.name: info.uid for info in pool.map(self.log.describe, topics)}

    def _check_uids(self, plan: Plan, uids: Mapping[str, str]) -> None:
        for topic, uid in plan.topics.items():
            if uids.get(topic, uid) != uid:
                raise LogError(
                    "topic-recreated",
                    f"topic {topic!r} was deleted and created again: positions speak of the old one",
                    f"bring the old topic back, or start over with: tidegate reset {self.manifest.app}",
                )

    def slot(
        self,
        plan: SlotPlan,
        epoch: int,
        state_dir: Path,
        limits: Limits | None = None,
        listener: RestoreListener | None = None,
        *,
        attempt: int = 0,
        writer: Writer | None = None,
        pinned: Mapping[TopicPartition, int] | None = None,
        refusals: Refusals | None = None,
    ) -> Slot:
        """A slot with its tasks as planned, from the committed positions; the writer is opened first."""
        app, clock = self.manifest.app, self.setting.clock
        opened = self.log.writer(plan.writer) if writer is None else writer
        read_at = clock.now()
        positions = read_positions(self.log, app)
        check_positions(app, positions, plan.tasks)
        subs = {task: sub for sub, task in self.tasks()}
        tasks = [
            self.task(
                subs[task], task, state_dir, epoch, limits, self._pins(subs[task], task, pinned), attempt
            )
            for task in plan.tasks
        ]
        if refusals is not None:
            for task in tasks:
                task.refused = refusals.known
        return Slot(
            app, self.log, opened, tasks, positions, clock, listener, read_at=read_at, refusals=refusals
        )

    def partitions_now(self) -> dict[str, int]:
        """How many partitions the topics of the user have now."""
        topics = {**self.manifest.sources, **self.manifest.sinks}
        return {topic: self.log.describe(topic).partitions for topic in topics}

    def grown(self, partitions: Mapping[str, int]) -> Run:
        """The app with these partitions of its sources. Raises ConfigError `partitions-changed` where they
        cannot be taken in."""
        setting = self.setting
        manifest = grown(setting.topology, self.manifest, partitions)
        infos = {**setting.topics, **{topic: self.log.describe(topic) for topic in manifest.sources}}
        counts = partition_counts(
            setting.topology, {**manifest.sources, **manifest.sinks}, manifest.internal_partitions
        )
        return Run(replace(setting, manifest=manifest, topics=infos), self.log, counts)

    def sources(self) -> list[TopicPartition]:
        """All partitions that the app reads from outside."""
        return [
            TopicPartition(topic, partition)
            for topic, count in self.manifest.sources.items()
            for partition in range(count)
        ]

    def _pins(
        self, sub: Subtopology, task: TaskId, pinned: Mapping[TopicPartition, int] | None
    ) -> dict[TopicPartition, int] | None:
        """The pinned ends of a task that reads nothing but source topics: it merges strictly up to them."""
        nodes = [self.setting.topology.nodes[number] for number in sub.inputs]
        if pinned is None or any(node.topic is None for node in nodes):
            return None
        mine = (TopicPartition(node.topic.name, task.partition) for node in nodes if node.topic is not None)
        return {partition: pinned[partition] for partition in mine}

    def task(
        self,
        sub: Subtopology,
        task: TaskId,
        state_dir: Path,
        epoch: int,
        limits: Limits | None = None,
        pinned: Mapping[TopicPartition, int] | None = None,
        attempt: int = 0,
    ) -> StreamTask:
        """One stream task with its stores registered; with `pinned` ends it merges strictly, up to them."""
        owner = Owner(self.manifest.app, task, self.log.id, epoch, attempt)
        home = task_home(state_dir, self.manifest.app, task)
        state = self.state(owner, home, limits)
        registered: set[str] = set()
        for node in sub.nodes:
            for builder in self.setting.topology.nodes[node].stores:
                if builder.name not in registered:
                    registered.add(builder.name)
                    state.register(builder, self.manifest.stores[builder.name].changelog)
        ends = partial(self.log.ends, committed=False)
        return StreamTask(self.setting, sub, task, state, pinned, ends)

    def state(self, owner: Owner, home: Path, limits: Limits | None) -> StateManager:
        """The state of a task: here, so that the simulator can look at it."""
        return StateManager(owner, home, self.setting.clock, limits)


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
    known = check_first_start(log, topology)
    notices: list[UpgradeError] = []
    if known is not None:
        check_unchanged(topology, known)
        check_partitions(topology, log, known)
        notices = changed_functions(topology, known)
    if not create_sources:
        check_sources(log, topology)
    infos = _declared_topics(topology, log, partitions)
    for node in topology.nodes.values():
        if node.topic is not None and node.kind in SOURCES:
            check_event_times(infos[node.topic.name])
    counts_of_topics = {name: info.partitions for name, info in infos.items()}
    manifest = settle_manifest(topology, log, counts_of_topics, clock, known)
    counts = partition_counts(topology, counts_of_topics, manifest.internal_partitions)
    largest = max(info.setting("max.message.bytes") for info in infos.values())
    for name, topic in manifest.internal.items():
        config = {**REPARTITION_CONFIG, "max.message.bytes": str(largest + (64 << 10))}
        count = manifest.internal_partitions[name]
        if topic in manifest.purged():
            infos[topic] = log.create(TopicSpec(topic, count, config))
        else:
            infos[topic] = ensure_topic(
                log, topic, table=False, partitions=count, default=count, config=config
            )
        check_event_times(infos[topic])
    _create_changelogs(topology, manifest, log, counts, largest)
    log.create(positions_topic(topology.app))
    log.create(status_topic(topology.app))
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
    setting = RunContext(topology, manifest, infos, letters, clock, on_error=on_error, batches=batches)
    return Run(setting, log, counts, notices=tuple(notices))


def attach(
    app: App, log: Log, clock: Clock, *, on_error: str = "stop", small_batch: int = SMALL_BATCH
) -> Run:
    """The app as somebody else prepared it: nothing is created, nothing is written."""
    topology = app.build()
    manifest = find_manifest(log, topology.app)
    if manifest is None:
        raise ConfigError(
            "never-started", f"app {topology.app!r} never ran on this log", "start it: tidegate run"
        )
    letters = names.dead_letters(topology.app)
    topics = [*manifest.sources, *manifest.sinks, *manifest.internal.values(), letters]
    infos = {topic: log.describe(topic) for topic in topics}
    counts = partition_counts(topology, {**manifest.sources, **manifest.sinks}, manifest.internal_partitions)
    setting = RunContext(
        topology, manifest, infos, letters, clock, on_error=on_error, small_batch=small_batch
    )
    return Run(setting, log, counts)


def check_sources(log: Log, topology: Topology) -> None:
    """Raise for a source topic that is not there."""
    for node in topology.nodes.values():
        reads = node.kind in (NodeKind.SOURCE, NodeKind.TABLE)
        if reads and node.topic is not None and find_topic(log, node.topic.name) is None:
            raise ConfigError(
                "no-such-topic",
                f"the source topic {node.topic.name!r} is not there",
                f"tidegate topics create {node.topic.name}",
            )


def _declared_topics(topology: Topology, log: Log, partitions: int) -> dict[str, TopicInfo]:
    """All that the app names. Those of a gate have as many partitions as its events, so they come last."""
    nodes = [(node, node.topic) for node in topology.nodes.values() if node.topic is not None]
    of_gates = {node.id: node for node, _ in nodes if node.kind in COMMANDS or "gate" in node.options}
    infos = {
        topic.name: _declared(log, topic, partitions) for node, topic in nodes if node.id not in of_gates
    }
    counts = partition_counts(topology, {name: info.partitions for name, info in infos.items()})
    home = {node: sub for sub in topology.subtopologies() for node in sub.nodes}
    for node, topic in nodes:
        if node.id in of_gates:
            count = counts[home[node.id].component, home[node.id].number]
            infos[topic.name] = _declared(log, topic, count)
    return infos


def _declared(log: Log, topic: TopicBase[object, object], partitions: int) -> TopicInfo:
    return ensure_topic(
        log,
        topic.name,
        table=topic.policy == "compact",
        partitions=topic.partitions,
        default=partitions,
        config=topic.config,
    )


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
