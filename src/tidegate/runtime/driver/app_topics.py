"""The topics of an app: those it declares, and those that tidegate creates for it."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.errors import ConfigError
from tidegate.log import names
from tidegate.log.ensure import check_event_times, ensure_topic, find_topic
from tidegate.log.protocol import Log
from tidegate.log.topic import TopicInfo, TopicSpec
from tidegate.state.changelog import changelog_spec
from tidegate.topics import TopicBase
from tidegate.topology.graph import Topology
from tidegate.topology.manifest import Manifest, partition_counts
from tidegate.topology.node import NodeKind

INTERNAL_CONFIG = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "message.timestamp.after.max.ms": str(2**63 - 1),
}
HEADER_ROOM = 64 << 10
"""How many bytes larger a record may be in an internal topic than in the user's topics: room for headers."""


def check_sources(log: Log, topology: Topology) -> None:
    """Raise ConfigError `no-such-topic` for a source topic that does not exist."""
    for node in topology.nodes.values():
        reads = node.kind in (NodeKind.SOURCE, NodeKind.TABLE)
        if reads and node.topic is not None and find_topic(log, node.topic.name) is None:
            raise ConfigError(
                "no-such-topic",
                f"the source topic {node.topic.name!r} does not exist",
                f"tidegate topics create {node.topic.name}",
            )


def ensure_declared_topics(log: Log, topology: Topology, partitions: int) -> dict[str, TopicInfo]:
    """Create or check the topics that the app declares. The topics of gates and models come last: they have
    as many partitions as their events."""
    nodes = [(node, node.topic) for node in topology.nodes.values() if node.topic is not None]
    last = {node.id for node, _ in nodes if node.options.keys() & {"gate", "model"}}
    infos = {topic.name: _declared(log, topic, partitions) for node, topic in nodes if node.id not in last}
    counts = partition_counts(topology, {name: info.partitions for name, info in infos.items()})
    home = {node: sub for sub in topology.subtopologies() for node in sub.nodes}
    for node, topic in nodes:
        if node.id in last:
            sub = home[node.id]
            alone = all(topology.nodes[one].kind is NodeKind.MODEL_REQUESTS for one in sub.inputs)
            count = partitions if alone else counts[sub.component, sub.number]
            infos[topic.name] = _declared(log, topic, count)
    return infos


def _declared(log: Log, topic: TopicBase[object, object], partitions: int) -> TopicInfo:
    return ensure_topic(
        log,
        topic.name,
        table=topic.policy == "compact",
        partitions=topic.partitions,
        default=partitions,
        config=topic.config,
    )


def create_internal_topics(log: Log, manifest: Manifest, largest: int) -> dict[str, TopicInfo]:
    """Create the topics between subtopologies. `largest` is the maximum record size of the app's topics, in
    bytes. A topic that only the app reads must have exactly this configuration; for others the user's own
    configuration is accepted."""
    infos: dict[str, TopicInfo] = {}
    for name, topic in manifest.internal.items():
        config = {**INTERNAL_CONFIG, "max.message.bytes": str(largest + HEADER_ROOM)}
        count = manifest.internal_partitions[name]
        if topic in manifest.purged():
            infos[topic] = log.create(TopicSpec(topic, count, config))
        else:
            infos[topic] = ensure_topic(
                log, topic, table=False, partitions=count, default=count, config=config
            )
        check_event_times(infos[topic])
    return infos


def create_dead_letters(log: Log, app: str, largest: int) -> TopicInfo:
    """Create the topic for records that failed."""
    return ensure_topic(
        log,
        names.dead_letters(app),
        table=False,
        partitions=None,
        default=1,
        config={
            "max.message.bytes": str(largest + HEADER_ROOM),
            "message.timestamp.after.max.ms": str(2**63 - 1),
        },
    )


def create_changelogs(
    log: Log, topology: Topology, manifest: Manifest, counts: Mapping[tuple[str, int], int], largest: int
) -> None:
    """Create the changelogs of all stores that have one."""
    for sub in topology.subtopologies():
        for node in (topology.nodes[number] for number in sub.nodes):
            for builder in node.stores:
                topic = manifest.stores[builder.name].changelog
                if topic is not None:
                    count = counts[sub.component, sub.number]
                    log.create(changelog_spec(topic, count, builder.config, largest))
