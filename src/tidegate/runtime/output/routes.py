"""The topics that the nodes of a task write to, with the headers that their records get."""

from __future__ import annotations

from typing import NamedTuple

from tidegate.errors import StateError
from tidegate.log.topic import TopicInfo
from tidegate.runtime.modes import Destination, destination_of
from tidegate.runtime.output.origin import OWNER
from tidegate.runtime.output.outputs import Target, TaskOutputs
from tidegate.runtime.run_context import RunContext
from tidegate.topology.graph import Subtopology
from tidegate.topology.node import INTERNAL, SINKS, Node, NodeKind


class Route(NamedTuple):
    """Where the records of a node go, and which headers follow their own."""

    target: Target
    owner: tuple[tuple[str, bytes], ...]
    """The header with the owner, one object for all records; empty where no upgrade compares rows."""
    origin: bool
    """Whether the origin follows: internal topics and staging are read in its order."""
    hands_on: bool = False
    """Whether values are written as they were read."""
    internal: bool = False
    """Whether the topic is one that tasks of the same app read."""


class Routes:
    """The targets of one task, each looked up once."""

    def __init__(self, context: RunContext, outputs: TaskOutputs, task: str) -> None:
        self._context = context
        self._task = task
        self._outputs = outputs
        self.known: dict[int, Route | None] = {}
        """Those that were looked up, by node."""

    def of(self, node: Node) -> Route | None:
        """Return where the node's records go; None if nowhere."""
        try:
            return self.known[node.id]
        except KeyError:
            found = self.known[node.id] = self._found(node)
            return found

    def open(self, subtopology: Subtopology) -> list[Route]:
        """Look up all topics that the subtopology writes to. Returns the internal ones that only this app
        reads: what a gate admits may have other readers."""
        own_nodes = set(subtopology.nodes)
        nodes = self._context.topology.nodes.values()
        written = [node for node in nodes if not own_nodes.isdisjoint(node.parents)]
        for node in written:
            if node.kind in SINKS:
                self.of(node)
        timed = [node for node in written if node.kind in INTERNAL and node.kind is not NodeKind.ADMITTED]
        return [route for node in timed if (route := self.of(node)) is not None]

    def _found(self, node: Node) -> Route | None:
        topic = self._context.topic_of(node)
        rows = node.topic is not None and node.topic.policy == "compact"
        destination = destination_of(self._context.mode, node.kind, rows=rows)
        if destination is Destination.NOWHERE:
            return None
        known = self._context.topics.get(topic)
        if destination is Destination.STAGING:
            target = self._outputs.target(self._staging(topic), staged=self._task.encode(), checked=known)
            return Route(target, (), origin=True)
        packs = self._task if self._context.packs(node) else None
        target = self._outputs.target(self._context.topics[topic], packs=packs)
        if node.kind in INTERNAL:
            hands_on = self._context.hands_on_values(node)
            return Route(target, (), origin=True, hands_on=hands_on, internal=True)
        owner = (OWNER, f"{self._context.topology.app}/{node.name or topic}".encode())
        return Route(target, (owner,) if rows else (), origin=self._context.origin_headers)

    def _staging(self, topic: str) -> TopicInfo:
        info = self._context.staging.get(topic)
        if info is None:
            raise StateError(
                "no-staging", f"a replay has no staging topic for {topic!r}", "this is a bug: report it"
            )
        return info
