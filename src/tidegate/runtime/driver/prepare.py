"""Prepare an app on a log, or attach to one that is prepared. Which driver may write: `takeover`."""

from __future__ import annotations

from tidegate.clock import Clock
from tidegate.errors import ConfigError, UpgradeError
from tidegate.log import names
from tidegate.log.ensure import check_event_times
from tidegate.log.positions import positions_topic
from tidegate.log.protocol import Log
from tidegate.runtime.driver.app_topics import (
    check_sources,
    create_changelogs,
    create_dead_letters,
    create_internal_topics,
    ensure_declared_topics,
)
from tidegate.runtime.driver.first_start import check_first_start, check_partitions, ensure_manifest
from tidegate.runtime.driver.run import Run
from tidegate.runtime.run_context import RunContext
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.runtime.topics.status import status_topic
from tidegate.topology.differences import changed_functions, check_unchanged
from tidegate.topology.graph import Topology
from tidegate.topology.manifest import partition_counts
from tidegate.topology.node import SOURCES

SMALL_BATCH = 100
"""Batches below this size run record by record. A whole batch takes about 1.5 ms however few records it
has."""


def prepare(
    topology: Topology,
    log: Log,
    clock: Clock,
    *,
    partitions: int = 4,
    create_sources: bool = True,
    on_error: str = "stop",
    batches: bool = True,
) -> Run:
    """Create or check everything that an app needs in the log, in this order:

    1. check the manifest of the last start, if there was one, against the app;
    2. create or check the topics that the app declares;
    3. write the manifest of a first start;
    4. create the internal topics, the changelogs, and the topics of positions, status and dead letters.
    """
    known = check_first_start(log, topology)
    notices: list[UpgradeError] = []
    if known is not None:
        check_unchanged(topology, known)
        check_partitions(topology, log, known)
        notices = changed_functions(topology, known)
    if not create_sources:
        check_sources(log, topology)
    infos = ensure_declared_topics(log, topology, partitions)
    for node in topology.nodes.values():
        if node.topic is not None and node.kind in SOURCES:
            check_event_times(infos[node.topic.name])
    counts_of_topics = {name: info.partitions for name, info in infos.items()}
    manifest = ensure_manifest(topology, log, counts_of_topics, clock, known)
    counts = partition_counts(topology, counts_of_topics, manifest.internal_partitions)
    largest = max(info.setting("max.message.bytes") for info in infos.values())
    infos |= create_internal_topics(log, manifest, largest)
    create_changelogs(log, topology, manifest, counts, largest)
    log.create(positions_topic(topology.app))
    log.create(status_topic(topology.app))
    dead_letters = create_dead_letters(log, topology.app, largest)
    infos[dead_letters.name] = dead_letters
    context = RunContext(
        topology, manifest, infos, dead_letters.name, clock, on_error=on_error, batches=batches
    )
    return Run(context, log, counts, notices=tuple(notices))


def attach(
    topology: Topology, log: Log, clock: Clock, *, on_error: str = "stop", small_batch: int = SMALL_BATCH
) -> Run:
    """Return the run of an app that another process prepared. Creates and writes nothing."""
    manifest = find_manifest(log, topology.app)
    if manifest is None:
        raise ConfigError(
            "never-started", f"app {topology.app!r} never ran on this log", "start it: tidegate run"
        )
    dead_letters = names.dead_letters(topology.app)
    topics = [*manifest.sources, *manifest.sinks, *manifest.internal.values(), dead_letters]
    infos = {topic: log.describe(topic) for topic in topics}
    counts = partition_counts(topology, {**manifest.sources, **manifest.sinks}, manifest.internal_partitions)
    context = RunContext(
        topology, manifest, infos, dead_letters, clock, on_error=on_error, small_batch=small_batch
    )
    return Run(context, log, counts)
