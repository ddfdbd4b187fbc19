"""Prepare an app on a log, or attach to one that is prepared. Which driver may write: `takeover`."""

from __future__ import annotations

from functools import partial

from tidegate.changes.unchanged import check_not_former, check_unchanged
from tidegate.clock import Clock
from tidegate.errors import ConfigError, UpgradeError
from tidegate.fingerprint import ALGORITHM
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
from tidegate.runtime.topics.manifests import (
    find_manifest,
    former_manifests,
    recorded_code,
    visible_control,
)
from tidegate.runtime.topics.status import status_topic
from tidegate.runtime.topics.upgrades import check_published
from tidegate.topology.code import Code
from tidegate.topology.graph import Topology
from tidegate.topology.identity import identified
from tidegate.topology.manifest import Manifest, partition_counts
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
    origin_headers: bool = False,
) -> Run:
    """Create or check everything that an app needs in the log, in this order:

    1. check the manifest of the last start, if there was one, against the app; an upgrade must have published
       everything (`upgrade-unfinished`);
    2. create or check the topics that the app declares;
    3. write the manifest of a first start;
    4. create the internal topics, the changelogs, and the topics of positions, status and dead letters.
    """
    known = check_first_start(log, topology)
    code = Code(topology.module)
    if known is not None:
        check_published(topology.app, visible_control(log, topology.app))
        check_not_former(topology, known, former_manifests(log, known), code)
        check_unchanged(topology, known, code, partial(recorded_code, log, known))
        check_partitions(topology, log, known)
    if not create_sources:
        check_sources(log, topology)
    infos = ensure_declared_topics(log, topology, partitions)
    for node in topology.nodes.values():
        if node.topic is not None and node.kind in SOURCES:
            check_event_times(infos[node.topic.name])
    manifest = ensure_manifest(topology, log, infos, clock, known, code)
    topology = identified(topology, manifest)
    counts_of_topics = {name: info.partitions for name, info in infos.items()}
    counts = partition_counts(topology, counts_of_topics, manifest.internal_partitions)
    largest = max(info.setting("max.message.bytes") for info in infos.values())
    infos |= create_internal_topics(log, manifest, largest)
    create_changelogs(log, topology, manifest, counts, largest)
    log.create(positions_topic(topology.app))
    log.create(status_topic(topology.app))
    dead_letters = create_dead_letters(log, topology.app, largest)
    infos[dead_letters.name] = dead_letters
    context = RunContext(
        topology,
        manifest,
        infos,
        dead_letters.name,
        clock,
        on_error=on_error,
        batches=batches,
        origin_headers=origin_headers,
    )
    return Run(context, log, counts, notices=_notices(known))


def _notices(known: Manifest | None) -> tuple[UpgradeError, ...]:
    """Return what the user should know about this start."""
    if known is None or known.algorithm == ALGORITHM:
        return ()
    return (
        UpgradeError(
            "code-not-compared",
            f"another version of tidegate started app {known.app!r}, and its code cannot be compared with "
            "that of this version: it is taken for unchanged",
            f"if the code changed too, start over with: tidegate reset {known.app}",
        ),
    )


def attach(
    topology: Topology,
    log: Log,
    clock: Clock,
    *,
    generation: int | None = None,
    on_error: str = "stop",
    small_batch: int = SMALL_BATCH,
    origin_headers: bool = False,
) -> Run:
    """Return the run of an app that another process prepared, by default of its active generation. Creates
    and writes nothing."""
    manifest = find_manifest(log, topology.app, generation)
    if manifest is None:
        raise ConfigError(
            "never-started", f"app {topology.app!r} never ran on this log", "start it: tidegate run"
        )
    topology = identified(topology, manifest)
    dead_letters = names.dead_letters(topology.app)
    topics = [*manifest.sources, *manifest.sinks, *manifest.internal.values(), dead_letters]
    infos = {topic: log.describe(topic) for topic in topics}
    counts = partition_counts(topology, {**manifest.sources, **manifest.sinks}, manifest.internal_partitions)
    context = RunContext(
        topology,
        manifest,
        infos,
        dead_letters,
        clock,
        on_error=on_error,
        small_batch=small_batch,
        origin_headers=origin_headers,
    )
    return Run(context, log, counts)
