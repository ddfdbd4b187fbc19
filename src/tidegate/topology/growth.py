"""Decide whether partitions that were added to a source after an app's first start can be read.

From then on some keys' records go to other partitions. So an added partition is read, from its start and by
its own task, if nothing depends on which task gets a key: by steps without a store, whatever they write to.
It is refused for a subtopology with a store (aggregates, tables and joins with them, timers, gates), because
the state of a key stays with its old task; and for one with another input that has fewer partitions.

Internal topics and changelogs keep the partition counts of the first start: keys never move in them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidegate.errors import ConfigError
from tidegate.topology.graph import Subtopology, Topology
from tidegate.topology.manifest import Manifest


def grown(topology: Topology, manifest: Manifest, partitions: Mapping[str, int]) -> Manifest:
    """Return the manifest with the current partitions of its sources. Raises ConfigError `partitions-changed`
    for a topic whose added partitions cannot be read, for one that has fewer than before, and for outputs."""
    check_outputs(manifest.app, manifest.sinks, partitions)
    changed = {
        topic: partitions[topic]
        for topic, count in manifest.sources.items()
        if partitions.get(topic, count) != count
    }
    for topic, count in changed.items():
        why = _refusal(topology, manifest, topic, {**manifest.sources, **changed})
        if why:
            raise ConfigError(
                "partitions-changed",
                f"topic {topic!r} has {count} partitions, and had {manifest.sources[topic]} at the last "
                f"start of app {manifest.app!r}: {why}",
                f"start over with: tidegate reset {manifest.app}; or use a new app id. A source that shall "
                "grow needs .repartition(name, partitions=N) before the first step with a store",
            )
    return msgspec.structs.replace(manifest, sources={**manifest.sources, **changed}) if changed else manifest


def check_outputs(app: str, before: Mapping[str, int], partitions: Mapping[str, int]) -> None:
    """Raise ConfigError `partitions-changed` for an output that has another partition count than before: the
    newest row of a key may be in another partition than the next one, and readers have no order between
    them."""
    for topic, count in before.items():
        if partitions.get(topic, count) != count:
            raise ConfigError(
                "partitions-changed",
                f"topic {topic!r} has {partitions[topic]} partitions, and had {count} at the last start of "
                f"app {app!r}: the keys of an output have moved",
                f"write to a topic of another name; or restore {topic!r} with {count} partitions; or start "
                f"over with: tidegate reset {app}",
            )


def _refusal(topology: Topology, manifest: Manifest, topic: str, counts: Mapping[str, int]) -> str:
    """Return why there cannot be tasks for added partitions; empty if there can."""
    if counts[topic] < manifest.sources[topic]:
        return "some of its partitions are gone"
    for sub in topology.subtopologies():
        inputs = _inputs(topology, manifest, sub, counts)
        if topic not in inputs:
            continue
        read = (topology.nodes[number].topic for number in sub.inputs)
        declared = next((one.partitions for one in read if one is not None and one.name == topic), None)
        if declared is not None and declared != counts[topic]:
            return f"the app declares it with {declared}"
        stores = [store.name for node in sub.nodes for store in topology.nodes[node].stores]
        if stores:
            return f"its keys have moved away from their rows in the store {stores[0]!r}"
        other = next((name for name, count in inputs.items() if count != counts[topic]), None)
        if other is not None:
            return f"{other!r}, which is read together with it, has {inputs[other]}"
    return ""


def _inputs(
    topology: Topology, manifest: Manifest, sub: Subtopology, counts: Mapping[str, int]
) -> dict[str, int]:
    """Return the partition count of each topic that a subtopology reads."""
    found: dict[str, int] = {}
    for node in (topology.nodes[number] for number in sub.inputs):
        if node.topic is not None:
            found[node.topic.name] = counts.get(node.topic.name, 0)
        else:
            found[manifest.internal[node.name]] = manifest.internal_partitions[node.name]
    return found
