"""The first positions of an app's tasks. The driver writes them in one transaction with the plan that assigns
the tasks for the first time. From then on a missing position is an error, never offset 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.log import names
from tidegate.log.positions import Position, TaskId, check_positions, position_row, read_positions
from tidegate.log.protocol import Writer
from tidegate.log.records import to_batch
from tidegate.runtime.driver.first_start import check_no_state, control_missing
from tidegate.runtime.topics.control import Plan
from tidegate.topology.belongings import of_manifest
from tidegate.topology.graph import Subtopology
from tidegate.types import TopicPartition

if TYPE_CHECKING:
    from tidegate.runtime.driver.run import Run


def append_first_positions(run: Run, driver: Writer, before: Plan) -> None:
    """Append first positions for all tasks that no plan has assigned yet; `before` is the last plan. Raises
    LogError `positions-missing` for an assigned task without a position, and, without any plan,
    `control-missing` or `state-without-positions`."""
    app, now = run.manifest.app, run.context.clock.now()
    known = read_positions(run.log, app)
    belongings = of_manifest(run.manifest)
    if not before.epoch:
        if known:
            raise control_missing(app)
        check_no_state(run.log, belongings)
    stages = {stage.name for stage in before.stages}
    assigned = {task for slot in before.slots for task in slot.tasks}
    assigned |= {stage.task for stage in run.stages() if stage.name in stages}
    check_positions(app, known, assigned)
    first = {
        task: _first_position(run, sub, task, belongings.named)
        for sub, task in run.tasks()
        if task not in known
    }
    for stage in run.stages():
        if stage.task not in known:
            starts = dict(enumerate(run.log.describe(stage.reads).starts))
            first[stage.task] = Position(sources={stage.reads: starts})
    if first:
        rows = [position_row(task, position, now) for task, position in first.items()]
        driver.append(TopicPartition(names.positions(app), 0), to_batch(rows))


def _first_position(run: Run, sub: Subtopology, task: TaskId, named: frozenset[str]) -> Position:
    """Return a position at the start of each source. A topic that the user named for admitted events is read
    from its end: what it holds was read before or belongs to another app, and the gate admits its events
    again. A replay has no gate, and reads it from its start."""
    log, manifest, nodes = run.log, run.manifest, run.context.topology.nodes
    sources: dict[str, dict[int, int]] = {}
    for node in (nodes[number] for number in sub.inputs):
        topic = node.topic.name if node.topic else manifest.internal[node.name]
        partition = TopicPartition(topic, task.partition)
        if topic in named and run.context.mode != "replay":
            sources[topic] = {task.partition: int(log.ends([partition])[partition])}
        else:
            sources[topic] = {task.partition: log.describe(topic).starts[task.partition]}
    changelogs = {}
    for node in (nodes[number] for number in sub.nodes):
        for builder in node.stores:
            changelog = manifest.stores[builder.name].changelog
            if changelog is not None:
                partition = TopicPartition(changelog, task.partition)
                changelogs[builder.name] = int(log.ends([partition])[partition])
    return Position(sources=sources, changelogs=changelogs)
