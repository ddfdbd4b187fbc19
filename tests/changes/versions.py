"""Two versions of an app, and what differs between them."""

from __future__ import annotations

from tidegate import App
from tidegate.changes.changes import Change, Changes
from tidegate.changes.compare import compare
from tidegate.topology.code import CodeEntry
from tidegate.topology.generations import continued
from tidegate.topology.graph import Topology
from tidegate.topology.identity import identified
from tidegate.topology.manifest import Manifest, make_manifest


def first(app: App) -> Manifest:
    """The manifest of the first generation, without fingerprints."""
    topology = app.build()
    return make_manifest(topology, counts(topology))


def counts(topology: Topology) -> dict[str, int]:
    """Two partitions for each topic."""
    return {node.topic.name: 2 for node in topology.nodes.values() if node.topic is not None}


def second(app: App, known: Manifest) -> Manifest:
    """The manifest of a changed app, with what it keeps of the first generation."""
    topology = identified(app.build(), known)
    made = make_manifest(topology, counts(topology), known.generation + 1, known.internal_partitions)
    return continued(made, known)


def between(before: App, after: App) -> Changes:
    """What differs, apart from code."""
    known = first(before)
    return compare(known, second(after, known), CodeEntry(), CodeEntry())


def differing(changes: Changes) -> dict[str, Change]:
    """What is not kept, by label."""
    return {
        change.label: change
        for component in changes.components
        for change in component.changes
        if change.verdict != "kept"
    }


def verdicts(changes: Changes) -> dict[str, str]:
    """The verdict of each component."""
    return {component.id: component.verdict for component in changes.components}
