"""The steps of a topology as entries of its manifest: options and schemas as plain values, and fingerprints
of the user's functions and types."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import msgspec

from tidegate.serde import Serde
from tidegate.serde.structured import Structured
from tidegate.state.builder import StoreBuilder
from tidegate.topics import TopicBase
from tidegate.topology.code import Code
from tidegate.topology.entries import NodeEntry
from tidegate.topology.graph import Topology
from tidegate.topology.node import SINKS, Node

NOT_PLAIN = ("state_type", "diff_type")
"""Options that are types: they have a fingerprint, and their schemas are in the manifest."""


def node_entries(topology: Topology, numbers: Mapping[int, int], code: Code | None) -> list[NodeEntry]:
    """Return the steps in the order of their declaration; `numbers` are their places in it."""
    return [_entry(node, numbers, code) for node in topology.nodes.values()]


def store_options(store: StoreBuilder[Any]) -> dict[str, Any]:
    """Return what else decides which rows a store holds."""
    found = {
        "capacity": store.capacity,
        "clock": store.clock,
        "in_memory": store.in_memory or None,
        "on_gap": store.on_gap if not store.changelog else None,
        "own": store.factory is not None or None,
        "retention": store.retention,
        "window_size": store.window_size or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _entry(node: Node, numbers: Mapping[int, int], code: Code | None) -> NodeEntry:
    key, value = _serdes(node)
    return NodeEntry(
        kind=node.kind.value,
        name=node.name,
        topic=node.topic.name if node.topic else "",
        location=node.location,
        parents=[numbers[parent] for parent in node.parents],
        stores=[store.name for store in node.stores],
        on_error=node.on_error or "",
        options={
            name: _plain(option)
            for name, option in node.options.items()
            if name not in NOT_PLAIN and option is not None
        },
        key={} if key is None else key.schema(),
        value={} if value is None else value.schema(),
        code={} if code is None else {role: code.of(root).digest for role, root in _roots(node).items()},
        rows=node.kind in SINKS and node.topic is not None and node.topic.policy == "compact",
    )


def _serdes(node: Node) -> tuple[Serde[Any] | None, Serde[Any] | None]:
    return (node.topic.key_serde, node.topic.value_serde) if node.topic else (node.key, node.value)


def _plain(option: Any) -> Any:
    if isinstance(option, Serde):
        return option.schema()
    if isinstance(option, TopicBase):
        return option.name
    if callable(option):
        return getattr(option, "__qualname__", type(option).__qualname__)
    try:
        return msgspec.to_builtins(option)
    except TypeError:
        return type(option).__qualname__


def _roots(node: Node) -> dict[str, Any]:
    """Return what the user wrote for a step: its functions and types, by role."""
    found: dict[str, Any] = dict(node.functions)
    found |= {name: option for name, option in node.options.items() if callable(option)}
    found |= {name: node.options[name] for name in NOT_PLAIN if name in node.options}
    if node.topic is not None and node.topic.timestamp is not None:
        found["timestamp"] = node.topic.timestamp
    for what, serde in zip(("key", "value"), _serdes(node), strict=True):
        found |= _types(what, serde)
    for store in node.stores:
        found |= _types(f"key of store {store.name}", store.key)
        found |= _types(f"value of store {store.name}", store.value)
        if store.factory is not None:
            found[f"store {store.name}"] = store.factory
    return {role: root for role, root in map(_unwrapped, found.items()) if not _is_ours(root)}


def _unwrapped(item: tuple[str, Any]) -> tuple[str, Any]:
    """Return a function of the user without a wrapper of tidegate, such as a check in tests."""
    role, root = item
    if isinstance(root, FunctionType) and _is_ours(root):
        root = inspect.unwrap(root, stop=lambda one: not _is_ours(one))
    return role, root


def _types(what: str, serde: Serde[Any] | None) -> dict[str, Any]:
    """Return the type that a serde writes, or a serde of the user itself."""
    if serde is None:
        return {}
    if not _is_ours(type(serde)):
        return {what: serde}
    return {what: serde.declared_type} if isinstance(serde, Structured) else {}


def _is_ours(root: Any) -> bool:
    """Whether it is part of tidegate or of Python: their versions cover it."""
    if not isinstance(root, type | FunctionType):
        return False
    module = root.__module__ or ""
    if isinstance(root, FunctionType):  # functools.wraps copies the module of what it wraps
        module = root.__globals__.get("__name__") or ""
    return module.partition(".")[0] in ("tidegate", "builtins")
