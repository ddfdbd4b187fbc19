"""What all tasks of a run share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tidegate.clock import Clock
from tidegate.errors import StateError
from tidegate.log.topic import TopicInfo
from tidegate.runtime.decided_requests import DecidedRequests
from tidegate.runtime.modes import Mode, on_stream_time
from tidegate.runtime.replay import Replay
from tidegate.topology.graph import Subtopology, Topology
from tidegate.topology.manifest import Manifest
from tidegate.topology.node import INTERNAL, KEPT, Node, NodeKind
from tidegate.topology.unchanged_values import holds_unchanged_values
from tidegate.types import TopicPartition


@dataclass(frozen=True, slots=True)
class RunContext:
    """What all tasks of a run share."""

    topology: Topology
    manifest: Manifest
    topics: Mapping[str, TopicInfo]
    """All topics that the app writes to, as the log describes them."""
    dead_letters: str
    clock: Clock
    mode: Mode = "live"
    on_error: str = "stop"
    batches: bool = True
    """Whether chains that allow it run over whole batches; the results are the same."""
    small_batch: int = 0
    """Batches with fewer records than this run record by record, which is faster."""
    origin_headers: bool = False
    """Whether the records of sinks carry their origin, too."""
    staging: Mapping[str, TopicInfo] = field(default_factory=dict)
    """For a replay: the staging topic for the rows of each table topic, by the name of the table topic."""
    replay: Replay | None = None
    """For a replay: its bounds."""
    decided: DecidedRequests | None = None
    """For a replay: what live runs decided on the requests of models."""

    def now(self, stream_time: int) -> int:
        """Return the time that nodes see: the clock's, in a replay the stream's."""
        return max(stream_time, 0) if on_stream_time(self.mode) else self.clock.now()

    def topic_of(self, node: Node) -> str:
        """Return the name of the topic that a node reads or writes."""
        if node.kind in INTERNAL:
            return self.manifest.internal[node.name]
        if node.topic is None:
            raise StateError("no-topic", f"{node.label} has no topic", "this is a bug: report it")
        return node.topic.name

    def hands_on_values(self, node: Node) -> bool:
        """Return whether the values of an internal topic are those of a source, to the byte: only in a
        replay, whose internal topics nobody else writes or reads."""
        return self.mode == "replay" and holds_unchanged_values(self.topology, node)

    def packs(self, node: Node) -> bool:
        """Return whether records of an internal topic are written in blocks: in a replay, if nobody reads the
        topic later, and no DataFrame stage does."""
        return (
            self.mode == "replay"
            and self.replay is not None
            and node.kind in INTERNAL
            and not node.options.get(KEPT)
            and self.topic_of(node) in self.manifest.purged()
            and not any(node.id in stage.inputs for stage, _ in self.topology.stages())
        )

    def inputs(
        self, subtopology: Subtopology, partition: int, kinds: Collection[NodeKind] | None = None
    ) -> list[TopicPartition]:
        """Return the source partitions that a task of the subtopology reads, by default through nodes of all
        kinds."""
        nodes = (self.topology.nodes[node] for node in subtopology.inputs)
        return [
            TopicPartition(self.topic_of(node), partition)
            for node in nodes
            if kinds is None or node.kind in kinds
        ]
