"""Collect the nodes that an app declares, until it is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidegate.dsl.checks import check_functions, check_stores
from tidegate.dsl.keys import UndeclaredKey
from tidegate.dsl.location import here, module_here
from tidegate.dsl.types_of import UNKNOWN
from tidegate.errors import ConfigError, TopologyError
from tidegate.log.names import check_name
from tidegate.serde import Serde, serde_for
from tidegate.serde.declared import type_name
from tidegate.state.builder import StoreBuilder
from tidegate.stores import of_table
from tidegate.topics import TopicBase
from tidegate.topology.node import Node, NodeKind, OnError, mistake

MAKE_IT_KNOWN = "annotate the function that makes it, in a step before: def name(...) -> Order"
OR_VALUE = "pass a class or an annotated function, or value=Totals"
_CONTINUE_A_STREAM = (NodeKind.REPARTITION, NodeKind.FRAME, NodeKind.ADMITTED)
"""Internal topics whose records are those of a stream. A record of a grouped table may undo an older one, so
skipping one would leave a wrong total: it stops the app."""


class Draft:
    """The nodes declared so far. Streams and tables add to it; each step only refers to earlier ones."""

    def __init__(self, app: str) -> None:
        self.app = check_name("app", app)
        self.module = module_here()
        self.nodes: dict[int, Node] = {}
        self._names: dict[str, Node] = {}

    def add(
        self,
        kind: NodeKind,
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
        """Add a node with the user's line."""
        check_stores(Node(-1, kind, tuple(parents), here(), name), stores)
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
            self._policy_above(parents[0]) if kind in _CONTINUE_A_STREAM else on_error,
            options,
        )
        check_functions(node)
        if on_error not in (None, "stop", "skip", "dead-letter"):
            raise mistake(
                "bad-on-error", node, f"on_error={on_error!r}", 'use "stop", "skip" or "dead-letter"'
            )
        if name:
            self._claim(node)
        self.nodes[node.id] = node
        return node

    def refused(self, code: str, node: Node, message: str, hint: str) -> TopologyError:
        """Return the error for the node that was added last, and remove the node: in a notebook the corrected
        line can then be run again."""
        self.nodes.pop(node.id, None)
        self._names.pop(node.name, None)
        return mistake(code, node, message, hint)

    def misplaced(self, node: Node, so: str) -> TopologyError:
        """Return the error for a step with state after a changed key, and remove its node."""
        return self.refused(
            "not-where-its-key-belongs",
            node,
            f"the key was changed before it, so {so}",
            "use group_by(name, function) in place of select_key, or repartition(name) before it",
        )

    def serde(self, node_kind: NodeKind, name: str, what: str, declared: Any, hint: str) -> Serde[Any]:
        """Return the serde of a type that must be written, or raise at the user's line. `hint` is for a type
        that is unknown."""
        probe = Node(-1, node_kind, (), here(), name)
        if declared is UNKNOWN:
            raise mistake("missing-serde", probe, f"{what}, but its type is unknown", hint)
        if isinstance(declared, UndeclaredKey):
            found = type_name(declared.kind)
            message = f"the function returns {found}, and keys are written as str unless a type is named"
            raise mistake("wrong-key-type", probe, message, f"pass key={found}, or return a str")
        try:
            return serde_for(declared)
        except ConfigError as cause:
            raise mistake(cause.code, probe, f"{what}, but {cause.message}", cause.hint or hint) from cause

    def store_of(
        self, node_kind: NodeKind, store: str | StoreBuilder[Any], key: Any, value: Any, hint: str
    ) -> StoreBuilder[Any]:
        """Return the store of an aggregate: the builder that was passed, or a new one of this name."""
        if isinstance(store, StoreBuilder):
            return store
        try:
            check_name("store", store)
        except ConfigError as cause:
            raise mistake(cause.code, Node(-1, node_kind, (), here()), cause.message, cause.hint) from cause
        keys = self.serde(node_kind, store, "the store must write its key", key, MAKE_IT_KNOWN)
        return of_table(
            store, self.serde(node_kind, store, "the store must write its value", value, hint), keys
        )

    def _policy_above(self, number: int) -> OnError | None:
        """Return the error policy for records that fail after an internal topic: that of their source. For
        merged streams it is the first one's."""
        node = self.nodes[number]
        while node.parents and node.kind not in _CONTINUE_A_STREAM:
            node = self.nodes[node.parents[0]]
        return node.on_error

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
