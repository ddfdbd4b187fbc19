"""The topics that an app writes: those that belong to it alone, and outputs, which others may write too.

Names consist of the app's id and a name within it, so two apps can have the same one: `shop` with the store
`eu-totals` and `shop-eu` with the store `totals` both have a changelog `shop-eu-totals-changelog`. Each would
restore and read the other's records. So before an app starts for the first time its names are compared with
those of all other apps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.log import names
from tidegate.topology.graph import Topology
from tidegate.topology.manifest import Manifest, internal_topic
from tidegate.topology.node import INTERNAL, SINKS, NodeKind

COMMANDS = ("status", "trigger")
"""Topics of a gate that other programs write to by design."""
OF_EACH = (names.positions, names.control, names.status, names.dead_letters, names.redrives)


@dataclass(frozen=True, slots=True)
class Belongings:
    """The topics of one app, by what others may do with them."""

    app: str
    state: tuple[str, ...]
    """Changelogs, internal topics and the events of models: useless without the positions."""
    named: frozenset[str]
    """Those of them that the user named, for admitted events of a gate: a reset does not delete them."""
    own: frozenset[str]
    """Topics that no other app may write: the state, and the topics that every app has."""
    commands: frozenset[str]
    """Topics of gates and models under names of the app: others may write to them, but not own them."""
    outputs: frozenset[str]

    def shared_with(self, other: Belongings) -> set[str]:
        """Return the topics that one of the two apps owns and the other one owns or writes."""
        own, theirs = self.own | self.commands, other.own | other.commands
        return set((own & theirs) | (self.own & other.outputs) | (self.outputs & other.own))


def of_manifest(manifest: Manifest) -> Belongings:
    """Return the topics of an app that has run."""
    gates = {
        name: {"status": one.status, "trigger": one.trigger, "admitted": one.admitted, "audit": one.audit}
        for name, one in manifest.gates.items()
    }
    changelogs = [store.changelog for store in manifest.stores.values() if store.changelog]
    state = [*manifest.internal.values(), *changelogs]
    return _belongings(manifest.app, state, gates, manifest.models, manifest.sinks)


def of_topology(topology: Topology) -> Belongings:
    """Return the topics of an app that has not run, with the names of its first generation."""
    app, nodes = topology.app, topology.nodes.values()
    internal = [internal_topic(app, node) for node in nodes if node.kind in INTERNAL]
    changelogs = [
        names.changelog(app, store.name) for node in nodes for store in node.stores if store.changelog
    ]
    gates = {node.name: node.options["topics"] for node in nodes if node.kind is NodeKind.GATE}
    sinks = [node.topic.name for node in nodes if node.topic and node.kind in SINKS]
    models = [node.name for node in nodes if node.kind is NodeKind.MODEL]
    return _belongings(app, [*internal, *changelogs], gates, models, sinks)


def _belongings(
    app: str,
    state: Iterable[str],
    gates: Mapping[str, Mapping[str, str]],
    models: Iterable[str],
    outputs: Iterable[str],
) -> Belongings:
    by_default: dict[str, set[str]] = {}
    named: set[str] = set()
    for gate, topics in gates.items():
        for what, topic in topics.items():
            if topic == names.gate(app, gate, what):
                by_default.setdefault(what, set()).add(topic)
            elif what == "admitted":
                named.add(topic)
    of_models = list(models)
    events = [names.model(app, model, "events") for model in of_models]
    requests = {names.model(app, model, "requests") for model in of_models}
    audits = by_default.get("audit", set())
    found = tuple(dict.fromkeys([*state, *events]))
    return Belongings(
        app,
        found,
        frozenset(named),
        frozenset([*found, *audits, *(name(app) for name in OF_EACH)]),
        frozenset(requests.union(*(by_default.get(what, ()) for what in COMMANDS))),
        frozenset(outputs) - audits - set(events),
    )
