"""What an upgrade compares: each table topic and model that the recalculated components write, or wrote."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.log.ensure import find_topic
from tidegate.log.protocol import Log
from tidegate.runtime.driver.run import Run
from tidegate.runtime.topics.upgrades import Published
from tidegate.topology.graph import Topology
from tidegate.topology.manifest import Manifest, ModelEntry
from tidegate.topology.node import SINKS, NodeKind


def publications(log: Log, run: Run, topology: Topology, known: Manifest, made: Manifest) -> list[Published]:
    """Return the table topics that the recalculation `run` has rows for, and those that only the old version
    wrote, whose rows are removed; and the same of models. A new model has no rows yet: each id gets its first
    version, and an event."""
    staged = {topic: info.name for topic, info in run.context.staging.items()}
    written = {node.topic.name for node in topology.nodes.values() if node.topic and node.kind in SINKS}
    of_models = {model.events for model in known.models.values()}
    before = [topic for topic in known.sinks if topic not in written and topic not in of_models]
    gone = [topic for topic in before if (info := find_topic(log, topic)) is not None and info.compacts]
    tables = [Published(topic, "table", topic, staged.get(topic)) for topic in [*staged, *gone]]
    return [*tables, *_models(log, run, topology, {**made.models, **known.models})]


def _models(log: Log, run: Run, topology: Topology, models: Mapping[str, ModelEntry]) -> list[Published]:
    kept = {
        node.name: sub
        for sub in topology.subtopologies()
        for node in (topology.nodes[number] for number in sub.nodes)
        if node.kind is NodeKind.MODEL
    }
    found = []
    for name, model in models.items():
        recalculated = run.manifest.models.get(name)
        if find_topic(log, model.changelog) is None or (recalculated is None and name in kept):
            continue
        at = (kept[name].component, kept[name].number) if name in kept else ("", 0)
        staged = None if recalculated is None else recalculated.changelog
        found.append(Published(name, "model", model.changelog, staged, model.events, *at))
    return found
