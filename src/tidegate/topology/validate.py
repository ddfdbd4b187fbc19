"""The checks that need the whole topology. Mistakes in one step are reported when it is declared."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.topology.graph import Topology, build_graph
from tidegate.topology.node import INTERNAL, SINKS, SOURCES, Node, NodeKind, mistake

STATEFUL = (
    NodeKind.AGGREGATE,
    NodeKind.TABLE_AGGREGATE,
    NodeKind.PROCESS,
    NodeKind.TABLE,
    NodeKind.GATE,
    NodeKind.MODEL,
)
EFFECTS = (*SINKS, *INTERNAL, *STATEFUL, NodeKind.PEEK)


def validated(
    app: str, nodes: Mapping[int, Node], settings: Mapping[str, object], module: str = ""
) -> Topology:
    """Check the nodes and return the topology; raise TopologyError."""
    if not nodes:
        raise mistake(
            "empty-topology",
            Node(0, NodeKind.SOURCE, (), ""),
            f"app {app!r} declares nothing",
            "add a stream",
        )
    _check_stores(nodes)
    _check_aggregates(nodes)
    _check_topics(nodes)
    _check_ends(nodes)
    _check_timers(nodes)
    return build_graph(app, nodes, settings, module)


def _check_stores(nodes: Mapping[int, Node]) -> None:
    """Check that each store has its own name; several steps may share one builder."""
    users: dict[str, Node] = {}
    for node in nodes.values():
        for store in node.stores:
            first = users.setdefault(store.name, node)
            same = any(other is store for other in first.stores)
            if first is not node and not same:
                raise mistake(
                    "duplicate-store",
                    node,
                    f"the store {store.name!r} is already declared at {first.location}",
                    "pass the same builder to both steps, or rename one store",
                )


def _check_aggregates(nodes: Mapping[int, Node]) -> None:
    """Check that aggregates use stores with one row per key."""
    for node in nodes.values():
        if node.kind not in (NodeKind.AGGREGATE, NodeKind.TABLE_AGGREGATE):
            continue
        for store in node.stores:
            if store.kind in ("window", "session"):
                raise mistake(
                    "wrong-store",
                    node,
                    f"the store {store.name!r} is a {store.kind} store, and an aggregate has one row per key",
                    "pass a name, or stores.key_value, timestamped, in_memory or lru; use windows in process",
                )


def _check_topics(nodes: Mapping[int, Node]) -> None:
    """Check that each topic is declared once, and that the app does not read what it writes: a replay would
    never end."""
    sources = {node.topic.name: node for node in nodes.values() if node.topic and node.kind in SOURCES}
    declared: dict[str, Node] = {}
    for node in nodes.values():
        if node.topic is None:
            continue
        first = declared.setdefault(node.topic.name, node)
        if first.topic is not node.topic:
            raise mistake(
                "topic-declared-twice",
                node,
                f"topic {node.topic.name!r} is declared a second time; the first is used at {first.location}",
                "declare a topic once, as a module constant",
            )
        if node.kind in SINKS and node.topic.name in sources:
            raise mistake(
                "loop",
                node,
                f"topic {node.topic.name!r} is read at {sources[node.topic.name].location} and written here",
                "write to another topic",
            )


def _check_ends(nodes: Mapping[int, Node]) -> None:
    """Check that every step leads to a topic, store or effect. For a branch one used way is enough."""
    parents = {parent for node in nodes.values() for parent in node.parents}
    used = {node.parents[0] for node in nodes.values() if "pick" in node.options and node.id in parents}
    for node in nodes.values():
        left = "pick" in node.options and node.parents[0] in used
        if node.id not in parents and node.kind not in EFFECTS and not left:
            raise mistake("dangling", node, "its result is not used", "add .to(topic), or remove the step")


def _check_timers(nodes: Mapping[int, Node]) -> None:
    """Check that key timers belong to one step, which has an on_timer."""
    owners: dict[str, Node] = {}
    for node in nodes.values():
        timers = [store.name for store in node.stores if store.clock is not None]
        if not timers:
            continue
        step = node.functions.get("step")
        if not isinstance(step, type) or not callable(getattr(step, "on_timer", None)):
            raise mistake(
                "no-on-timer",
                node,
                f"it declares the timers {timers[0]!r}, but has no on_timer for them to call",
                "use process with a class that defines on_timer(self, key, at, ctx)",
            )
        if len(timers) > 1:
            raise mistake(
                "two-timers",
                node,
                f"it declares two timers, {timers[0]!r} and {timers[1]!r}, which on_timer cannot distinguish",
                "use one store with a key such as (what, key), or two steps",
            )
        first = owners.setdefault(timers[0], node)
        if first is not node:
            raise mistake(
                "shared-timers",
                node,
                f"the timers {timers[0]!r} already call the step at {first.location}",
                "declare separate timers for each step",
            )
