"""Add the nodes of `stream.gate(name)` to a draft."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tidegate.dsl.draft import Draft
from tidegate.dsl.location import here
from tidegate.errors import ConfigError
from tidegate.gate.buffer import stores_of
from tidegate.log import names
from tidegate.log.names import check_name
from tidegate.topics import TableTopic, Topic, TopicBase
from tidegate.topology.node import Node, NodeKind, mistake

OnFull = Literal["hold", "dead-letter"]

_LENIENT = {"message.timestamp.after.max.ms": str(2**63 - 1), "max.message.bytes": str(2 << 20)}
"""Twice the usual record size, because a key may be as long as an event."""
_FOR_GOOD = {"retention.ms": "-1", **_LENIENT}
_AS_READ = (
    NodeKind.SOURCE,
    NodeKind.MERGE,
    NodeKind.FILTER,
    NodeKind.PEEK,
    NodeKind.BRANCH,
    NodeKind.REPARTITION,
    NodeKind.ADMITTED,
)
"""Steps that pass a record on as it was read."""


class GateOptions:
    """The options of a gate."""

    def __init__(
        self, max_held: int | None, on_full: OnFull, drain_chunk: int, topics: Mapping[str, str | None]
    ) -> None:
        self.max_held = max_held
        self.on_full = on_full
        self.drain_chunk = drain_chunk
        self.topics = topics

    def check(self, node: Node) -> None:
        """Raise TopologyError, with the user's line, for an invalid option."""
        if self.max_held is not None and (type(self.max_held) is not int or self.max_held < 1):
            raise mistake(
                "bad-option", node, f"max_held={self.max_held!r}", "use a number of events, or None"
            )
        if self.on_full not in ("hold", "dead-letter"):
            raise mistake("bad-option", node, f"on_full={self.on_full!r}", 'use "hold" or "dead-letter"')
        if type(self.drain_chunk) is not int or self.drain_chunk < 1:
            raise mistake("bad-option", node, f"drain_chunk={self.drain_chunk!r}", "use a number of events")
        try:
            check_name("gate", node.name)
        except ConfigError as cause:
            raise mistake(cause.code, node, cause.message, cause.hint) from cause
        named = [topic for topic in self.topics.values() if topic is not None]
        if len(set(named)) < len(named):
            raise mistake("bad-option", node, "two topics of a gate have the same name", "rename one")
        for topic in named:
            try:
                check_name("topic", topic)
            except ConfigError as cause:
                raise mistake(cause.code, node, cause.message, cause.hint) from cause


def add_gate(plan: Draft, parent: int, name: str, key: Any, value: Any, options: GateOptions) -> Node:
    """Add the gate, its topics, and the node after it, where a new subtopology begins; return that node."""
    options.check(Node(-1, NodeKind.GATE, (parent,), here(), name))
    topics = {what: named or names.gate(plan.app, name, what) for what, named in options.topics.items()}
    status: TableTopic[bytes, bytes] = TableTopic(topics["status"], bytes, key=bytes, config=_LENIENT)
    trigger: Topic[bytes, bytes] = Topic(topics["trigger"], bytes, key=bytes, config=_LENIENT)
    audit: Topic[bytes, bytes] = Topic(topics["audit"], bytes, key=bytes, config=_FOR_GOOD)
    commands = [
        plan.add(NodeKind.GATE_STATUS, topic=status, gate=name),
        plan.add(NodeKind.GATE_TRIGGER, topic=trigger, gate=name),
    ]
    gate = plan.add(
        NodeKind.GATE,
        [parent, *(node.id for node in commands)],
        name=name,
        stores=stores_of(name),
        key=key,
        value=value,
        topics=topics,
        unchanged=_is_as_read(plan, parent),
        max_held=options.max_held,
        on_full=options.on_full,
        drain_chunk=options.drain_chunk,
    )
    plan.add(NodeKind.SINK, [gate.id], topic=audit, gate=name)
    timed = _timed_by(plan, parent) if gate.options["unchanged"] else None
    return plan.add(
        NodeKind.ADMITTED,
        [gate.id],
        name=f"{name}-admitted",
        key=key,
        value=value,
        admitted=topics["admitted"],
        event_time_of=timed,
    )


def _above(plan: Draft, number: int) -> list[Node]:
    """Return the node and its ancestors, as far as records are passed on as they were read."""
    node = plan.nodes[number]
    if node.kind not in _AS_READ:
        return [node]
    if node.kind in (NodeKind.SOURCE, NodeKind.REPARTITION, NodeKind.ADMITTED):
        return [node]
    return [node, *(one for parent in node.parents for one in _above(plan, parent))]


def _is_as_read(plan: Draft, number: int) -> bool:
    above = _above(plan, number)
    timed = {_event_time(node) for node in above}
    return all(node.kind in _AS_READ for node in above) and len(timed - {None}) <= 1


def _event_time(node: Node) -> TopicBase[Any, Any] | None:
    topic: TopicBase[Any, Any] | None = node.options.get("event_time_of", node.topic)
    return topic if topic is not None and topic.timestamp is not None else None


def _timed_by(plan: Draft, number: int) -> TopicBase[Any, Any] | None:
    return next((topic for node in _above(plan, number) if (topic := _event_time(node)) is not None), None)
