"""What each topic is for, by the manifests of the apps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tidegate.log import names
from tidegate.topology.manifest import Manifest
from tidegate.topology.node import SOURCES


class TopicRole(msgspec.Struct, frozen=True):
    """What a topic is for one app."""

    app: str
    role: str
    name: str = ""
    """The store, gate, model or repartition that it belongs to."""


def topic_roles(manifests: Iterable[Manifest]) -> dict[str, list[TopicRole]]:
    """Return the roles of all topics that the apps have. A topic may be the sink of one app and the source of
    another."""
    found: dict[str, list[TopicRole]] = {}
    for manifest in manifests:
        own = dict(_own_topics(manifest))
        for topic, role in own.items():
            found.setdefault(topic, []).append(role)
        for node in manifest.nodes:
            shared = TopicRole(manifest.app, "source" if node.kind in SOURCES else "sink")
            if node.topic and node.topic not in own and shared not in found.get(node.topic, []):
                found.setdefault(node.topic, []).append(shared)
    return found


def _own_topics(manifest: Manifest) -> Iterator[tuple[str, TopicRole]]:
    """Yield the topics that belong to an app. Of a topic that comes twice, the last role counts."""
    app = manifest.app
    for name, topic in manifest.internal.items():
        yield topic, TopicRole(app, "repartition", name)
    for name, gate in manifest.gates.items():
        yield gate.status, TopicRole(app, "gate-status", name)
        yield gate.trigger, TopicRole(app, "gate-trigger", name)
        yield gate.admitted, TopicRole(app, "admitted", name)
        yield gate.audit, TopicRole(app, "audit", name)
    for name, model in manifest.models.items():
        yield model.requests, TopicRole(app, "model-requests", name)
        yield model.events, TopicRole(app, "model-events", name)
    for name, store in manifest.stores.items():
        if store.changelog is not None:
            yield store.changelog, TopicRole(app, "changelog", name)
    yield names.positions(app), TopicRole(app, "positions")
    yield names.control(app), TopicRole(app, "control")
    yield names.status(app), TopicRole(app, "status")
    yield names.dead_letters(app), TopicRole(app, "dead-letters")
    yield names.redrives(app), TopicRole(app, "redrives")
