"""An app that is ready to run on a log: its tasks, its stages, and the slots that run them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tidegate.errors import LogError, StateError, TidegateError
from tidegate.log.positions import TaskId, check_positions, read_positions
from tidegate.log.protocol import Log, Writer
from tidegate.runtime.driver.first_positions import append_first_positions
from tidegate.runtime.driver.takeover import Claim, take_over
from tidegate.runtime.output.on_error import RecordPosition
from tidegate.runtime.slot.pace import REPLAY_OPEN_SECONDS
from tidegate.runtime.slot.refused_records import Refusals
from tidegate.runtime.slot.slot import Slot
from tidegate.runtime.slot.stage import Stage, StageReplay
from tidegate.runtime.task.task import RunContext, StreamTask
from tidegate.runtime.topics.control import Plan, SlotPlan
from tidegate.state.folders import task_home
from tidegate.state.manager import Limits, Owner, StateManager
from tidegate.state.protocol import RestoreListener
from tidegate.topology.graph import Subtopology
from tidegate.topology.growth import grown
from tidegate.topology.manifest import Manifest, partition_counts
from tidegate.topology.node import Node
from tidegate.types import TopicPartition

DESCRIBE_THREADS = 8
"""`describe` takes the log some milliseconds, and there may be many topics."""


@dataclass(frozen=True, slots=True)
class Run:
    """An app that is ready to run: everything it needs is in the log."""

    context: RunContext
    log: Log
    counts: Mapping[tuple[str, int], int]
    step: tuple[str, int] | None = field(default=None, kw_only=True)
    """For one step of a replay: the component and the number of the only subtopology that runs."""
    pinned: Mapping[TopicPartition, int] = field(default_factory=dict, kw_only=True)
    """For one step of a replay: the ends of what it reads."""
    notices: tuple[TidegateError, ...] = field(default=(), kw_only=True)
    """What the user should know about this start, such as functions that changed since the last one."""

    @property
    def manifest(self) -> Manifest:
        return self.context.manifest

    def tasks(self) -> list[tuple[Subtopology, TaskId]]:
        """Return all stream tasks of the app."""
        stages = [sub for sub, _ in self.context.topology.stages()]
        return [
            (sub, TaskId(sub.component, self.manifest.generation_of(sub.component), sub.number, partition))
            for sub in self.context.topology.subtopologies()
            if sub not in stages and self.step in (None, (sub.component, sub.number))
            for partition in range(self.counts[sub.component, sub.number])
        ]

    def stages(self) -> list[Stage]:
        """Return all DataFrame stages of the app."""
        return [
            self._stage(sub, node)
            for sub, node in self.context.topology.stages()
            if self.step in (None, (sub.component, sub.number))
        ]

    def _stage(self, sub: Subtopology, node: Node) -> Stage:
        manifest, replay = self.manifest, self.context.replay
        source = self.context.topology.nodes[node.parents[0]]
        reads, count = manifest.internal[source.name], self.counts[sub.component, sub.number]
        ends = {at.partition: end for at, end in self.pinned.items() if at.topic == reads}
        return Stage(
            node.name,
            TaskId(sub.component, manifest.generation_of(sub.component), sub.number, 0),
            source,
            node,
            reads,
            manifest.internal[node.name],
            count,
            None if replay is None else StageReplay(replay.round, ends),
        )

    def positioned(self) -> list[tuple[TaskId, list[TopicPartition]]]:
        """Return what has a position: each stream task and each stage, with the partitions that it reads."""
        tasks = [(task, self.context.inputs(sub, task.partition)) for sub, task in self.tasks()]
        stages = [
            (stage.task, [TopicPartition(stage.reads, number) for number in range(stage.partitions)])
            for stage in self.stages()
        ]
        return tasks + stages

    def slots(
        self,
        state_dir: Path,
        count: int,
        limits: Limits | None = None,
        listener: RestoreListener | None = None,
        pinned: Mapping[TopicPartition, int] | None = None,
    ) -> list[Slot]:
        """Take over the app, and open new slots for all its tasks in this process."""
        app, clock = self.manifest.app, self.context.clock
        tasks = [task for _, task in self.tasks()]
        with closing(take_over(self.log, app, self.manifest.generation, clock)) as claim:
            assignment = {number: tasks[number::count] for number in range(count)}
            plan = self.plan(claim, assignment, dict.fromkeys(assignment, ""))
        return [
            self.slot(slot, plan.epoch, state_dir, limits, listener, pinned=pinned) for slot in plan.slots
        ]

    def plan(
        self, claim: Claim, assignment: Mapping[int, Sequence[TaskId]], hosts: Mapping[int, str]
    ) -> Plan:
        """Write the plan, and first positions where there are none: step 5 of a takeover."""
        topics = self._uids(self._checked_topics())
        self._check_uids(claim.before, topics)
        append_first_positions(self, claim.writer, claim.before)
        return claim.write_plan(assignment, hosts, self.stages(), topics, self.context.clock.now())

    def check_topics(self, plan: Plan) -> None:
        """Raise LogError `topic-recreated` for a source that was recreated since the plan was written."""
        self._check_uids(plan, self._uids(self.manifest.sources))

    def _checked_topics(self) -> list[str]:
        """Return the topics that positions refer to: offsets are meaningless in another topic of the same
        name."""
        manifest = self.manifest
        changelogs = [store.changelog for store in manifest.stores.values() if store.changelog]
        return [*manifest.sources, *manifest.internal.values(), *changelogs]

    def _uids(self, topics: Iterable[str]) -> dict[str, str]:
        with ThreadPoolExecutor(DESCRIBE_THREADS) as pool:
            return {info.name: info.uid for info in pool.map(self.log.describe, topics)}

    def _check_uids(self, plan: Plan, uids: Mapping[str, str]) -> None:
        for topic, uid in plan.topics.items():
            if uids.get(topic, uid) != uid:
                raise LogError(
                    "topic-recreated",
                    f"topic {topic!r} was deleted and created again: positions refer to the old one",
                    f"restore the old topic, or start over with: tidegate reset {self.manifest.app}",
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
        """Return a slot with its planned tasks, which start from the committed positions. Opens the writer
        first."""
        app, clock = self.manifest.app, self.context.clock
        open_seconds = None if pinned is None else REPLAY_OPEN_SECONDS
        opened = self.log.writer(plan.writer, open_seconds=open_seconds) if writer is None else writer
        read_at = clock.now()
        positions = read_positions(self.log, app)
        check_positions(app, positions, plan.tasks)
        subs = {task: sub for sub, task in self.tasks()}
        shared = (limits or (Limits.of_replay() if self.context.mode == "replay" else Limits())).shared()
        tasks = [
            self.task(
                subs[task],
                task,
                state_dir,
                epoch,
                shared,
                self._pins(subs[task], task, pinned),
                attempt,
                None if refusals is None else refusals.known,
            )
            for task in plan.tasks
        ]
        return Slot(
            app, self.log, opened, tasks, positions, clock, listener, read_at=read_at, refusals=refusals
        )

    def partitions_now(self) -> dict[str, int]:
        """Return how many partitions the user's topics have now."""
        topics = {**self.manifest.sources, **self.manifest.sinks}
        return {topic: self.log.describe(topic).partitions for topic in topics}

    def grown(self, partitions: Mapping[str, int]) -> Run:
        """Return a run with these partition counts of its sources. Raises ConfigError `partitions-changed` if
        the app cannot adopt them."""
        context = self.context
        manifest = grown(context.topology, self.manifest, partitions)
        infos = {**context.topics, **{topic: self.log.describe(topic) for topic in manifest.sources}}
        counts = partition_counts(
            context.topology, {**manifest.sources, **manifest.sinks}, manifest.internal_partitions
        )
        return Run(replace(context, manifest=manifest, topics=infos), self.log, counts)

    def sources(self) -> list[TopicPartition]:
        """Return all source partitions of the app."""
        return [
            TopicPartition(topic, partition)
            for topic, count in self.manifest.sources.items()
            for partition in range(count)
        ]

    def _pins(
        self, sub: Subtopology, task: TaskId, pinned: Mapping[TopicPartition, int] | None
    ) -> dict[TopicPartition, int] | None:
        """Return the pinned ends of a task: it merges strictly up to them. None for a live task that reads an
        internal topic, whose end is not known beforehand. In a replay everything is pinned."""
        if pinned is None:
            return None
        partitions = self.context.inputs(sub, task.partition)
        unpinned = [partition for partition in partitions if partition not in pinned]
        if unpinned and self.context.mode == "replay":
            raise StateError("no-pin", f"a replay has no end for {unpinned[0]}", "this is a bug: report it")
        return None if unpinned else {partition: pinned[partition] for partition in partitions}

    def task(
        self,
        sub: Subtopology,
        task: TaskId,
        state_dir: Path,
        epoch: int,
        limits: Limits | None = None,
        pinned: Mapping[TopicPartition, int] | None = None,
        attempt: int = 0,
        refused: Mapping[RecordPosition, LogError] | None = None,
    ) -> StreamTask:
        """Return a stream task with its stores registered. With `pinned` ends it merges strictly, up to
        them."""
        owner = Owner(self.manifest.app, task, self.log.id, epoch, attempt)
        home = task_home(state_dir, self.manifest.app, task)
        state = self.state(owner, home, limits)
        registered: set[str] = set()
        for node in sub.nodes:
            for builder in self.context.topology.nodes[node].stores:
                if builder.name not in registered:
                    registered.add(builder.name)
                    state.register(builder, self.manifest.stores[builder.name].changelog)
        ends = partial(self.log.ends, committed=False)
        return StreamTask(self.context, sub, task, state, pinned, ends, refused)

    def state(self, owner: Owner, home: Path, limits: Limits | None) -> StateManager:
        """Return the state of a task. A method of its own, so that the simulator can replace it."""
        return StateManager(owner, home, self.context.clock, limits)
