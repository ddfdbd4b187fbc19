"""How apps declared the keys and values of topics and stores, by their manifests, so that records and rows
are shown as what they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tidegate.text.declared_format import DeclaredFormat
from tidegate.topology.entries import NodeEntry, StoreEntry
from tidegate.topology.manifest import Manifest

_PLAIN_STORES = "key-value"
"""The kind of store whose changelog has keys and values as declared."""


class TopicFormat(NamedTuple):
    """The formats of a topic or a store."""

    key: DeclaredFormat
    value: DeclaredFormat


def topic_formats(manifests: Iterable[Manifest]) -> dict[str, TopicFormat]:
    """Return the formats of all topics that apps declared. Of several apps the first one counts."""
    found: dict[str, TopicFormat] = {}
    for manifest in manifests:
        for node in manifest.nodes:
            topic = node.topic or manifest.internal.get(node.name, "")
            if topic and topic not in found:
                found[topic] = declared_formats(node)
        for store in manifest.stores.values():
            if store.changelog is not None and store.kind == _PLAIN_STORES:
                found.setdefault(store.changelog, declared_formats(store))
    return found


def declared_formats(entry: NodeEntry | StoreEntry) -> TopicFormat:
    """Return the formats of the keys and values of a step or a store."""
    return TopicFormat(_format(entry.key), _format(entry.value))


def _format(schema: Mapping[str, Any]) -> DeclaredFormat:
    name = str(schema.get("format", ""))
    return DeclaredFormat("" if name == "bytes" else name, str(schema.get("schema", "")))
