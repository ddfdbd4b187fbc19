"""The candidate of an upgrade: the next generation, while it is recalculated as a throw-away app.

The throw-away app has control, positions, status and staging topics of its own. The changelogs and internal
topics of its manifest are those of the candidate: after the switch the live tasks continue on them. A model
keeps its changelog over all generations, and a carried store keeps its rows: both are recalculated into other
topics. So is a new model: its rows are published with one event for each id.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from dataclasses import replace

import msgspec

from tidegate.clock import Clock
from tidegate.errors import ConfigError, UpgradeError
from tidegate.log import names
from tidegate.log.ensure import find_topic
from tidegate.log.protocol import Log
from tidegate.log.route import partitions_of
from tidegate.runtime.driver.prepare import SMALL_BATCH
from tidegate.runtime.driver.run import Run
from tidegate.runtime.driver.takeover import take_over
from tidegate.runtime.replay import Replay
from tidegate.runtime.topics.control import control_topic, read_control
from tidegate.runtime.topics.manifests import active_manifest, append_manifest, find_manifest, manifest_of
from tidegate.runtime.topics.upgrades import upgrade_of
from tidegate.topology.graph import Topology
from tidegate.topology.identity import identified
from tidegate.topology.manifest import Manifest, StoreEntry, make_manifest
from tidegate.topology.node import SINKS
from tidegate.upgrade.recalculation import GENERATION, create_topics, recalculating_run
from tidegate.upgrade.throw_away import throw_away


def recalculated_components(made: Manifest, known: Manifest) -> set[str]:
    """Return the components that are recalculated: those that changed, and new ones that write to a table
    topic of the running generation. Other new ones start at the beginning of their sources."""
    fresh = {id for id, entry in made.components.items() if entry.generation == made.generation}
    found = {id for id in fresh if id in known.components}
    written = set(known.sinks) | {topic for id in found for topic in _sinks(made, id)}
    while more := {id for id in fresh - found if written & _sinks(made, id)}:
        found |= more
        written |= {topic for id in more for topic in _sinks(made, id)}
    return found


def _sinks(manifest: Manifest, component: str) -> set[str]:
    nodes = (manifest.nodes[number] for number in manifest.components[component].nodes())
    return {node.topic for node in nodes if node.kind in SINKS}


def check_carried(log: Log, made: Manifest, known: Manifest) -> None:
    """Raise UpgradeError `partitions-changed` for a gate or model whose keys would move to other partitions,
    `gate-topics-changed` for a gate with other topics, and `admitted-not-empty` for a new gate whose admitted
    topic has records: everything before it passes there."""
    for what, before, after in (("gate", known.gates, made.gates), ("model", known.models, made.models)):
        for name in before.keys() & after.keys():
            if before[name].partitions != after[name].partitions:
                raise UpgradeError(
                    "partitions-changed",
                    f"{what} {name!r} would have {after[name].partitions} partitions, and has "
                    f"{before[name].partitions}: its keys would move away from their state",
                    "repartition to the former number before it: .repartition(name, partitions=N)",
                )
    for name in known.gates.keys() & made.gates.keys():
        old, new = known.gates[name], made.gates[name]
        if (old.admitted, old.status, old.trigger) != (new.admitted, new.status, new.trigger):
            raise UpgradeError(
                "gate-topics-changed",
                f"gate {name!r} would use other topics, and what passed it is in {old.admitted!r}",
                "keep its topics, or give the gate another name",
            )
    for name in made.gates.keys() - known.gates.keys():
        info = find_topic(log, made.gates[name].admitted)
        if info is not None and any(log.ends(partitions_of(info), committed=False).values()):
            raise UpgradeError(
                "admitted-not-empty",
                f"gate {name!r} is new, and its topic of admitted events, {info.name!r}, has records",
                "delete that topic, or name another one",
            )


def prepare_candidate(
    topology: Topology,
    log: Log,
    clock: Clock,
    *,
    known: Manifest,
    made: Manifest,
    components: Collection[str],
    on_error: str = "stop",
    batches: bool = True,
) -> Run:
    """Create what the recalculation of a candidate needs in the log, or continue one that was interrupted.
    `topology` has the ids and numbers of the manifest `made`, whose declared topics exist."""
    app = names.upgrade(topology.app)
    changed = throw_away(topology, app, known.gates, (), components)
    manifest = _manifest(changed, made, known)
    log.create(control_topic(app))
    with closing(take_over(log, app, GENERATION, clock)) as claim:
        append_manifest(claim.writer, manifest, clock.now())
        claim.writer.commit()
    used = [*manifest.sources, *manifest.sinks]
    infos = {topic: info for topic in used if (info := find_topic(log, topic)) is not None}
    create_topics(log, changed, manifest, infos)
    return recalculating_run(
        changed, manifest, log, clock, live=known, on_error=on_error, batches=batches, small_batch=0
    )


def attach_candidate(
    topology: Topology,
    log: Log,
    clock: Clock,
    replay: Replay,
    *,
    on_error: str = "stop",
    small_batch: int = SMALL_BATCH,
) -> tuple[Run, Manifest]:
    """Return the run of a candidate that another process prepared, and the manifest of the candidate. Creates
    and writes nothing."""
    app = names.upgrade(topology.app)
    control = read_control(log, topology.app)
    entry, manifest = upgrade_of(control), find_manifest(log, app)
    made = None if entry is None else manifest_of(control, entry.generation)
    if made is None or manifest is None:
        raise ConfigError(
            "never-started", f"no upgrade of {topology.app!r} is under way", "start the upgrade again"
        )
    found = identified(topology, made)
    changed = throw_away(found, app, manifest.gates, (), manifest.components)
    run = recalculating_run(
        changed,
        manifest,
        log,
        clock,
        live=active_manifest(control),
        on_error=on_error,
        batches=True,
        small_batch=small_batch,
    )
    return replace(run, context=replace(run.context, replay=replay)), made


def _manifest(topology: Topology, made: Manifest, known: Manifest) -> Manifest:
    counts = {**made.sources, **made.sinks}
    manifest = make_manifest(topology, counts, GENERATION, made.internal_partitions)
    stores = {
        name: msgspec.structs.replace(store, changelog=_changelog(made, topology.app, name, store))
        for name, store in manifest.stores.items()
    }
    return msgspec.structs.replace(
        manifest,
        stores=stores,
        internal={name: made.internal[name] for name in manifest.internal},
        gates={name: gate for name, gate in known.gates.items() if name in made.gates},
        models={
            name: msgspec.structs.replace(model, changelog=stores[name].changelog or "")
            for name, model in manifest.models.items()
        },
    )


def _changelog(made: Manifest, app: str, name: str, store: StoreEntry) -> str | None:
    if store.changelog is None:
        return None
    live = names.changelog(made.app, name, made.generation)
    is_new_model = name in made.models and made.stores[name].changelog == live
    return names.changelog(app, name) if store.role == "carried" or is_new_model else live
