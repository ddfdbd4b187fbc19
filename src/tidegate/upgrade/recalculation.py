"""The topics of a recalculation: an app of its own that reads the sources and writes nothing of the live app.

It has the topics of any app (control, positions, status, internal topics, changelogs) under its own id, and a
staging topic for each table topic that it would write. Those of the user are only read.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

import msgspec

from tidegate.clock import Clock
from tidegate.errors import ConfigError
from tidegate.log import names
from tidegate.log.ensure import TABLE_DEFAULTS, check_event_times, find_topic
from tidegate.log.positions import positions_topic
from tidegate.log.protocol import Log
from tidegate.log.topic import MAX_RECORD_BYTES, TopicInfo, TopicSpec
from tidegate.runtime.decided_requests import DecidedRequests
from tidegate.runtime.driver.app_topics import (
    HEADER_ROOM,
    INTERNAL_CONFIG,
    check_sources,
    create_changelogs,
)
from tidegate.runtime.driver.prepare import SMALL_BATCH
from tidegate.runtime.driver.run import Run
from tidegate.runtime.driver.takeover import take_over
from tidegate.runtime.replay import Replay
from tidegate.runtime.run_context import RunContext
from tidegate.runtime.topics.control import control_topic
from tidegate.runtime.topics.manifests import append_manifest, find_manifest
from tidegate.runtime.topics.status import status_topic
from tidegate.topology.code import Code
from tidegate.topology.graph import Topology
from tidegate.topology.manifest import Manifest, make_manifest, partition_counts
from tidegate.topology.node import SOURCES, NodeKind
from tidegate.upgrade.throw_away import throw_away

GENERATION = 1


def prepare_recalculation(
    topology: Topology,
    app: str,
    log: Log,
    clock: Clock,
    *,
    live: Manifest | None,
    partitions: int = 4,
    on_error: str = "stop",
    batches: bool = True,
) -> Run:
    """Create what a recalculation of this topology needs in the log, under the id `app`: the control topic
    first, and the manifest before all other topics. An earlier recalculation of the same id must have been
    removed."""
    absent = [
        node.topic.name
        for node in topology.nodes.values()
        if node.kind is NodeKind.MODEL_REQUESTS
        and node.topic is not None
        and find_topic(log, node.topic.name) is None
    ]
    gates = {} if live is None else live.gates
    changed = throw_away(topology, app, gates, absent)
    check_sources(log, changed)
    log.create(control_topic(app))
    with closing(take_over(log, app, GENERATION, clock)) as claim:
        infos = _existing(log, changed, gates, live)
        code = Code(topology.module)
        manifest = _manifest(changed, infos, live, partitions, code)
        append_manifest(claim.writer, manifest, clock.now(), code.entry())
        claim.writer.commit()
    create_topics(log, changed, manifest, infos)
    return recalculating_run(
        changed, manifest, log, clock, live=live, on_error=on_error, batches=batches, small_batch=0
    )


def create_topics(log: Log, topology: Topology, manifest: Manifest, infos: Mapping[str, TopicInfo]) -> None:
    """Create the topics that the manifest of a recalculation names. `infos` are those of the user."""
    app = topology.app
    largest = max((info.setting("max.message.bytes") for info in infos.values()), default=MAX_RECORD_BYTES)
    for name, topic in manifest.internal.items():
        if topic in manifest.purged():
            config = {**INTERNAL_CONFIG, "max.message.bytes": str(largest + HEADER_ROOM)}
            log.create(TopicSpec(topic, manifest.internal_partitions[name], config))
    create_changelogs(log, topology, manifest, _counts(topology, manifest), largest)
    for topic, count in manifest.sources.items():
        if names.of_preview(topic):
            log.create(TopicSpec(topic, count, {"cleanup.policy": "delete"}))
    for topic in table_sinks(topology):
        log.create(_staging_spec(app, topic, manifest.sinks[topic], infos.get(topic)))
    log.create(positions_topic(app))
    log.create(status_topic(app))


def attach_recalculation(
    topology: Topology,
    app: str,
    log: Log,
    clock: Clock,
    replay: Replay,
    *,
    on_error: str = "stop",
    small_batch: int = SMALL_BATCH,
) -> Run:
    """Return the run of a recalculation that another process prepared. Creates and writes nothing."""
    manifest = find_manifest(log, app)
    if manifest is None:
        raise ConfigError("never-started", f"{app!r} has no manifest on this log", "start the preview again")
    absent = [
        node.topic.name
        for node in topology.nodes.values()
        if node.kind is NodeKind.MODEL_REQUESTS
        and node.topic is not None
        and node.topic.name not in manifest.sources
    ]
    changed = throw_away(topology, app, manifest.gates, absent)
    run = recalculating_run(
        changed,
        manifest,
        log,
        clock,
        live=find_manifest(log, topology.app),
        on_error=on_error,
        batches=True,
        small_batch=small_batch,
    )
    return replace(run, context=replace(run.context, replay=replay))


def recalculating_run(
    topology: Topology,
    manifest: Manifest,
    log: Log,
    clock: Clock,
    *,
    live: Manifest | None,
    on_error: str,
    batches: bool,
    small_batch: int,
) -> Run:
    """Return the run of a recalculation whose topics exist. `live` is the generation that runs."""
    own = [*manifest.sources, *manifest.internal.values()]
    infos = {topic: log.describe(topic) for topic in own}
    infos |= {topic: info for topic in manifest.sinks if (info := find_topic(log, topic)) is not None}
    app = topology.app
    staging = {topic: log.describe(names.staging(app, topic, GENERATION)) for topic in table_sinks(topology)}
    context = RunContext(
        topology,
        manifest,
        infos,
        "",
        clock,
        mode="replay",
        on_error=on_error,
        batches=batches,
        small_batch=small_batch,
        staging=staging,
        decided=DecidedRequests(log, manifest.models, {} if live is None else live.models),
    )
    return Run(context, log, _counts(topology, manifest))


def _existing(
    log: Log, topology: Topology, gates: Mapping[str, object], live: Manifest | None
) -> dict[str, TopicInfo]:
    """Return the topics of the user that the recalculation reads or would write, as far as they exist."""
    topics = {node.topic.name: node for node in topology.nodes.values() if node.topic is not None}
    found = {topic: info for topic in topics if (info := find_topic(log, topic)) is not None}
    for topic, info in found.items():
        if topics[topic].kind in SOURCES:
            check_event_times(info)
    if live is not None:
        found |= {live.gates[gate].admitted: log.describe(live.gates[gate].admitted) for gate in gates}
    return found


def _manifest(
    topology: Topology,
    infos: Mapping[str, TopicInfo],
    live: Manifest | None,
    partitions: int,
    code: Code,
) -> Manifest:
    existing = dict(live.internal_partitions) if live is not None else {}
    declared = {node.topic.name: node.topic.partitions for node in topology.nodes.values() if node.topic}
    known = {topic: info.partitions for topic, info in infos.items()}
    of_subs = partition_counts(topology, known, existing)
    home = {node: sub for sub in topology.subtopologies() for node in sub.nodes}
    for node in topology.nodes.values():
        if node.topic is not None and node.kind is NodeKind.MODEL_REQUESTS and node.id in home:
            sub = home[node.id]
            alone = all(topology.nodes[one].kind is NodeKind.MODEL_REQUESTS for one in sub.inputs)
            count = node.topic.partitions or (partitions if alone else of_subs[sub.component, sub.number])
            known.setdefault(node.topic.name, count)
    for topic, wanted in declared.items():
        known.setdefault(topic, wanted or partitions)
    manifest = make_manifest(topology, known, GENERATION, existing, code=code)
    if live is None:
        return manifest
    read = set(manifest.internal.values())
    gates = {name: gate for name, gate in live.gates.items() if gate.admitted in read}
    return msgspec.structs.replace(manifest, gates=gates)


def _counts(topology: Topology, manifest: Manifest) -> dict[tuple[str, int], int]:
    return partition_counts(topology, {**manifest.sources, **manifest.sinks}, manifest.internal_partitions)


def table_sinks(topology: Topology) -> list[str]:
    """Return the table topics that the app writes."""
    sinks = (NodeKind.SINK, NodeKind.TABLE_SINK)
    found = (node.topic for node in topology.nodes.values() if node.topic and node.kind in sinks)
    return list(dict.fromkeys(topic.name for topic in found if topic.policy == "compact"))


def _staging_spec(app: str, topic: str, partitions: int, info: TopicInfo | None) -> TopicSpec:
    largest = MAX_RECORD_BYTES if info is None else info.setting("max.message.bytes")
    config = {
        **TABLE_DEFAULTS,
        "max.message.bytes": str(largest + HEADER_ROOM),
        "message.timestamp.after.max.ms": str(2**63 - 1),
    }
    return TopicSpec(names.staging(app, topic, GENERATION), partitions, config)
