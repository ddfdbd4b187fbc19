"""Check, before an app starts, that a schema registry is configured if the app needs one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate.serde import Serde
from tidegate.serde.current_registry import current_registry
from tidegate.serde.framed import Framed
from tidegate.topology.graph import Topology


def check_registry(topology: Topology) -> None:
    """Raise `RegistryError` if topics or stores have schemas and no usable registry is configured. Sends no
    request to the registry: it may be unreachable for a while."""
    if any(isinstance(serde, Framed) for serde in _serdes(topology)):
        current_registry()


def _serdes(topology: Topology) -> Iterator[Serde[Any] | None]:
    for node in topology.nodes.values():
        yield from (node.key, node.value)
        if node.topic is not None:
            yield from (node.topic.key_serde, node.topic.value_serde)
        for store in node.stores:
            yield from (store.key, store.value)
