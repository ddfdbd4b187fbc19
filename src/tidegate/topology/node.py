"""A node of the graph: one step of a topology."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from tidegate.errors import TopologyError
from tidegate.serde import Serde
from tidegate.state.builder import StoreBuilder
from tidegate.topics import TopicBase

OnError = Literal["stop", "skip", "dead-letter"]


class NodeKind(StrEnum):
    """What a node does. Nodes of tables pass on changes (old and new value), the others records."""

    SOURCE = "source"
    MAP = "map"
    MAP_RECORDS = "map_records"
    FLAT_MAP = "flat_map"
    FILTER = "filter"
    SELECT_KEY = "select_key"
    PEEK = "peek"
    MERGE = "merge"
    BRANCH = "branch"
    REPARTITION = "repartition"
    FRAME = "frame"
    GATE = "gate"
    GATE_STATUS = "gate status"
    GATE_TRIGGER = "gate trigger"
    ADMITTED = "admitted"
    AGGREGATE = "aggregate"
    JOIN = "join"
    PROCESS = "process"
    MODEL = "model"
    MODEL_REQUESTS = "model requests"
    MAP_BATCHES = "map_batches"
    SINK = "sink"
    TABLE = "table"
    TABLE_MAP = "table map"
    TABLE_FILTER = "table filter"
    TABLE_JOIN = "table join"
    TABLE_GROUP = "table group_by"
    TABLE_AGGREGATE = "table aggregate"
    TABLE_SINK = "table sink"


INTERNAL = (NodeKind.REPARTITION, NodeKind.TABLE_GROUP, NodeKind.FRAME, NodeKind.ADMITTED)
"""Kinds that write to an internal topic and read from it: a subtopology ends and another begins there."""
KEPT = "kept"
"""The option of an internal topic of a recalculation that the new version of the app goes on with."""
COMMANDS = (NodeKind.GATE_STATUS, NodeKind.GATE_TRIGGER)
"""Sources that are not merged by time: all their records are processed before the next other record."""
SINKS = (NodeKind.SINK, NodeKind.TABLE_SINK)
SOURCES = (NodeKind.SOURCE, NodeKind.TABLE, NodeKind.MODEL_REQUESTS, *COMMANDS)


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One step. `functions` are the user's, by role; `name` is the one that the user chose."""

    id: int
    kind: NodeKind
    parents: tuple[int, ...]
    location: str
    name: str = ""
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    stores: tuple[StoreBuilder[Any], ...] = ()
    topic: TopicBase[Any, Any] | None = None
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    on_error: OnError | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Its name in messages and pictures."""
        return labelled(self.kind.value, self.name or (self.topic.name if self.topic else ""))


def labelled(kind: str, name: str) -> str:
    """Return the name of a step in messages and pictures."""
    return f'{kind} "{name}"' if name else kind


def mistake(code: str, node: Node, message: str, hint: str) -> TopologyError:
    """Return the error for a node, with the user's line."""
    return TopologyError(code, message, hint, node=node.label, location=node.location)
