"""What an app declares, node by node, until it is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidegate.dsl.location import here
from tidegate.dsl.types_of import UNKNOWN
from tidegate.errors import ConfigError, TopologyError
from tidegate.names import check_name
from tidegate.serde import Serde, serde_for
from tidegate.state.builder import StoreBuilder
from tidegate.topics import TopicBase
from tidegate.topology.node import Kind, Node, OnError, mistake


class Plan:
    """The nodes so far. Streams and tables add to it; each step only refers to earlier ones."""

    def __init__(self, app: str) -> None:
        self.app = check_name("app", app)
        self.nodes: dict[int, Node] = {}
        self._names: dict[str, Node] = {}

    def add(
        self,
        kind: Kind,
        parents: Sequence[int] = (),
        *,
        name: str = "",
        functions: Mapping[str, Callable[..., Any]] | None = None,
        stores: Sequence[StoreBuilder[Any]] = (),
        topic: TopicBase[Any, Any] | None = None,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        on_error: OnError | None = None,
        **options: Any,
    ) -> Node:
        """A new node at the user's line."""
        node = Node(
            len(self.nodes),
            kind,
            tuple(parents),
            here(),
            name,
            dict(functions or {}),
            tuple(stores),
            topic,
            key,
            value,
            on_error,
            options,
        )
        for role, function in node.functions.items():
            if not callable(function):
                raise mistake(
                    "not-callable", node, f"{role} is a {type(function).__name__}", "pass a function"
                )
        if on_error not in (None, "stop", "skip", "dead-letter"):
            raise mistake(
                "bad-on-error", node, f"on_error={on_error!r}", 'use "stop", "skip" or "dead-letter"'
            )
        if name:
            self._claim(node)
        self.nodes[node.id] = node
        return node

    def refused(self, code: str, node: Node, message: str, hint: str) -> TopologyError:
        """The error of the node that was added last. It is taken out again: who writes the line anew, in a
        notebook, finds the app as it was."""
        self.nodes.pop(node.id)
        self._names.pop(node.name, None)
        return mistake(code, node, message, hint)

    def serde(self, node_kind: Kind, name: str, what: str, declared: Any, hint: str) -> Serde[Any]:
        """The serde of a type that must be written, or an error at the user's line."""
        probe = Node(-1, node_kind, (), here(), name)
        if declared is UNKNOWN:
            raise mistake("missing-serde", probe, f"{what}, but its type is unknown", hint)
        try:
            return serde_for(declared)
        except ConfigError as cause:
            raise mistake(cause.code, probe, f"{what}, but {cause.message}", hint or cause.hint) from cause

    def _claim(self, node: Node) -> None:
        try:
            check_name(node.kind.value, node.name)
        except ConfigError as cause:
            raise mistake(cause.code, node, cause.message, cause.hint) from cause
        first = self._names.setdefault(node.name, node)
        if first is not node:
            raise mistake(
                "duplicate-name",
                node,
                f"the name {node.name!r} is taken by the {first.label} at {first.location}",
                "names own topics and stores: give each its own",
            )
