"""From the tasks of the old generation to those of the new one: where the old ones stopped, and where the new
ones start.

The recalculation of a subtopology ends exactly where its old tasks stopped, so that an event sink gets each
event once: those below from the old version, those above from the new one. A source that the old version did
not read is recalculated up to its end, unless it leads to a gate that is carried over: its records never came
to that gate, so the new tasks read them from the start.

A new task starts with the position of its recalculation. Gates were not recalculated: commands and carried
stores continue where the old task was. Its input from an internal topic, which was written again, starts at
the end of it: what it holds has passed the gate before.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.log.ensure import find_topic
from tidegate.log.names import positions as positions_name
from tidegate.log.positions import Position, TaskId, fold_position, read_positions
from tidegate.log.protocol import Log
from tidegate.log.reads import read_to_end
from tidegate.runtime.driver.run import Run
from tidegate.runtime.replay import REPLAYED, SENT, Cut, Ends
from tidegate.topology.graph import Subtopology, Topology
from tidegate.topology.manifest import Manifest, partition_counts
from tidegate.topology.node import COMMANDS, Node, NodeKind
from tidegate.types import Offset, TopicPartition
from tidegate.upgrade.cut import by_topic
from tidegate.upgrade.recalculation import GENERATION

Positions = Mapping[TaskId, Position]


def old_positions(log: Log, known: Manifest) -> tuple[dict[TaskId, Position], int]:
    """Return the positions of the tasks of the active generation, and the wall time of the last one in ms."""
    partition = TopicPartition(positions_name(known.app), 0)
    info = find_topic(log, partition.topic)
    found: dict[TaskId, Position] = {}
    last = 0
    if info is None:
        return found, last
    for fetched in read_to_end(log, {partition: Offset(info.starts[0])}):
        columns = (fetched.batch.column(index).to_pylist() for index in (1, 2, 3))
        for timestamp, key, value in zip(*columns, strict=True):
            one: dict[TaskId, Position] = {}
            fold_position(one, key, value)
            for task, position in one.items():
                entry = known.components.get(task.component)
                if entry is not None and task.generation == entry.generation:
                    found[task], last = position, max(last, timestamp)
    return found, last


def stopped_cut(run: Run, known: Manifest, old: Positions, wall: int, whole: Topology) -> Cut:
    """Return where the recalculation of each subtopology of `run` ends. The old version has stopped, and its
    timers were called up to `wall`. `whole` is the topology of the new generation, with its gates."""
    topology, manifest = run.context.topology, run.manifest
    gated = _sources_of_gates(whole, manifest)
    admitted = {gate.admitted for gate in manifest.gates.values()}
    furthest = _furthest(old)
    ends: Ends = {}
    own: dict[str, dict[str, dict[int, int]]] = {}
    for sub in topology.subtopologies():
        topics = [run.context.topic_of(topology.nodes[number]) for number in sub.inputs]
        read = [
            TopicPartition(topic, number)
            for topic in topics
            if topic in manifest.sources or topic in admitted
            for number in range(run.counts[sub.component, sub.number])
        ]
        new = [partition for partition in read if partition not in furthest]
        at_end = run.log.ends([partition for partition in new if partition.topic not in gated])
        begins = {one: _start(run.log, one) for one in new if one.topic in gated}
        found = {one: furthest.get(one, int(at_end.get(one, begins.get(one, 0)))) for one in read}
        for number in range(run.counts[sub.component, sub.number]):
            former = old.get(_old_task(known, sub, number))
            if former is not None:
                stopped = offsets_of(former)
                found |= {partition: stopped[partition] for partition in found if partition in stopped}
        own[f"{sub.component}/{sub.number}"] = by_topic(found)
        for partition, offset in found.items():
            ends[partition] = max(offset, ends.get(partition, 0))
    return Cut(by_topic(ends), wall, own)


def new_positions(
    run: Run, topology: Topology, made: Manifest, known: Manifest, old: Positions
) -> dict[TaskId, Position]:
    """Return the first positions of the tasks of all components that were recalculated by `run`. `topology`
    and `made` are those of the new generation."""
    replayed = read_positions(run.log, run.manifest.app)
    counts = partition_counts(topology, {**made.sources, **made.sinks}, made.internal_partitions)
    recalculated = {component.id for component in run.context.topology.components}
    fresh = {id for id, one in made.components.items() if one.generation == made.generation}
    carrying = {id for id in fresh if id in known.components}
    furthest = _furthest(old)
    stages = [sub for sub, _ in topology.stages()]
    return {
        TaskId(sub.component, made.generation, sub.number, numbers[0]): _position(
            run.log,
            [topology.nodes[node] for node in sub.inputs],
            [topology.nodes[node] for node in sub.nodes],
            made,
            numbers,
            replayed.get(TaskId(sub.component, GENERATION, sub.number, numbers[0])),
            old.get(_old_task(known, sub, numbers[0])),
            furthest,
        )
        for sub in topology.subtopologies()
        if sub.component in recalculated | carrying
        for numbers in _partitions_of_tasks(counts[sub.component, sub.number], one_task=sub in stages)
    }


def _partitions_of_tasks(count: int, *, one_task: bool) -> list[range]:
    """Return the partitions of each task: one, or those of a DataFrame stage, which reads all."""
    return [range(count)] if one_task else [range(number, number + 1) for number in range(count)]


def _position(
    log: Log,
    inputs: list[Node],
    nodes: list[Node],
    made: Manifest,
    numbers: range,
    replayed: Position | None,
    old: Position | None,
    furthest: Ends,
) -> Position:
    at, before = replayed or Position(), old or Position()
    sources: dict[str, dict[int, int]] = {}
    times: dict[str, dict[int, int]] = {}
    for node, number in ((node, number) for node in inputs for number in numbers):
        topic = node.topic.name if node.topic is not None else made.internal[node.name]
        order = (before, at) if node.kind in COMMANDS else (at, before)
        known = next((one for one in order if number in one.sources.get(topic, {})), None)
        own = sources.setdefault(topic, {})
        if known is not None:
            own[number] = known.sources[topic][number]
            times.setdefault(topic, {})[number] = known.stream_times.get(topic, {}).get(number, -1)
        else:
            partition = TopicPartition(topic, number)
            offset = furthest.get(partition)
            own[number] = _first_offset(log, node, partition) if offset is None else offset
    changelogs = {}
    for store in (store for node in nodes for store in node.stores):
        changelog = made.stores[store.name].changelog
        if changelog is None:
            continue
        carried = made.stores[store.name].role == "carried" or store.name in made.models
        found = (before if carried else at).changelogs.get(store.name)
        changelogs[store.name] = _end(log, TopicPartition(changelog, numbers[0])) if found is None else found
    return Position(
        sources=sources, stream_times=times, changelogs=changelogs, progress=_progress(replayed, before)
    )


def _first_offset(log: Log, node: Node, partition: TopicPartition) -> int:
    """Return where a task starts that neither the recalculation nor the old version knows: commands of a new
    gate and sources from their start, an internal topic that feeds a gate from its end."""
    return _start(log, partition) if node.topic is not None else _end(log, partition)


def _sources_of_gates(topology: Topology, manifest: Manifest) -> set[str]:
    """Return the topics whose records come to a gate of the manifest, as events."""
    waiting = [
        node.id
        for node in topology.nodes.values()
        if node.kind is NodeKind.GATE and node.name in manifest.gates
    ]
    found: dict[int, Node] = {}
    while waiting:
        node = topology.nodes[waiting.pop()]
        if node.id not in found:
            found[node.id] = node
            waiting += node.parents
    return {node.topic.name for node in found.values() if node.topic and node.kind is NodeKind.SOURCE}


def _progress(replayed: Position | None, before: Position) -> dict[str, str]:
    """Return the progress of the recalculation. Sequence numbers never go back: what a gate admits before and
    after the switch is ordered by them."""
    at = replayed or before
    found = {
        name: value for name, value in at.progress.items() if name != REPLAYED and not name.startswith(SENT)
    }
    numbers = [int(one.progress.get("sequence", "0")) for one in (at, before)]
    return {**found, "sequence": str(max(numbers))}


def _furthest(positions: Positions) -> Ends:
    found: Ends = {}
    for position in positions.values():
        for partition, offset in offsets_of(position).items():
            found[partition] = max(offset, found.get(partition, 0))
    return found


def offsets_of(position: Position) -> Ends:
    """Return the source offsets of a position."""
    return {
        TopicPartition(topic, number): offset
        for topic, offsets in position.sources.items()
        for number, offset in offsets.items()
    }


def _old_task(known: Manifest, sub: Subtopology, number: int) -> TaskId:
    entry = known.components.get(sub.component)
    return TaskId(sub.component, 0 if entry is None else entry.generation, sub.number, number)


def _start(log: Log, partition: TopicPartition) -> int:
    return log.describe(partition.topic).starts[partition.partition]


def _end(log: Log, partition: TopicPartition) -> int:
    return int(log.ends([partition], committed=False)[partition])


def same_stop(before: Cut, now: Cut, old: Positions) -> bool:
    """Return whether the old version is where it was when a recalculation began. Sources that it does not
    read do not count: the recalculation goes on to where they were cut."""
    read = {partition for position in old.values() for partition in offsets_of(position)}

    def stops(cut: Cut) -> dict[tuple[str, str, int], int]:
        return {
            (sub, topic, number): offset
            for sub, topics in cut.own.items()
            for topic, offsets in topics.items()
            for number, offset in offsets.items()
            if TopicPartition(topic, number) in read
        }

    return stops(before) == stops(now)
