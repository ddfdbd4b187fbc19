"""The first start of an app on a log: what must not exist yet, and the manifest that it writes.

An app has positions from its first plan on. If it has none, records in its changelogs and internal topics
belong to another app, or its positions are lost: starting over would count everything twice. Both are refused
by name; `tidegate reset` starts over.

1 compare the topic names of the app with those of all other apps, and check that its topics are empty:
nothing is written before that; 2 write the manifest, unless another start of the app wrote it first; 3
compare the names again. When two apps that share a name start for the first time together, each writes its
manifest before it looks for the other's, so at most one of them continues. One that is refused deletes its
manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import partial

from tidegate.changes.unchanged import reconciled_manifest
from tidegate.clock import Clock
from tidegate.errors import ConfigError, LogError, TidegateError
from tidegate.log import names
from tidegate.log.ensure import find_topic
from tidegate.log.faultpoints import reach
from tidegate.log.positions import read_positions
from tidegate.log.protocol import Log, Writer
from tidegate.log.topic import TopicInfo
from tidegate.runtime.topics.control import ACTIVE, ROLE, code_key, control_topic, manifest_key, write_control
from tidegate.runtime.topics.manifests import (
    append_active,
    append_manifest,
    find_manifest,
    manifests,
    recorded_code,
    visible_manifest,
)
from tidegate.topology.belongings import Belongings, of_manifest, of_topology
from tidegate.topology.code import Code
from tidegate.topology.graph import Topology
from tidegate.topology.growth import grown
from tidegate.topology.identity import identified
from tidegate.topology.manifest import Manifest, make_manifest
from tidegate.topology.node import SOURCES
from tidegate.types import TopicPartition

TOPICS_NAMED = 3
"""How many topics an error names at most."""


def check_first_start(log: Log, topology: Topology) -> Manifest | None:
    """Raise the error that prevents a first start here: `name-taken`, `control-missing`,
    `state-without-positions`. Writes nothing. For an app that ran here before, checks nothing and returns its
    manifest."""
    known = visible_manifest(log, topology.app)
    if known is not None:
        return known
    belongings = of_topology(topology)
    found = _name_conflict(log, belongings) or _traces_of_lost_run(log, belongings)
    if found is not None and find_manifest(log, topology.app) is None:  # else another start of it was quicker
        raise found
    return None


def check_no_state(log: Log, belongings: Belongings) -> None:
    """Raise LogError `state-without-positions` for a changelog or an internal topic that was ever written to,
    even if it is empty now. Topics that the user named are not checked."""
    used = [topic for topic in belongings.state if topic not in belongings.named and _was_written(log, topic)]
    if used:
        more = f" and {len(used) - TOPICS_NAMED} more" if used[TOPICS_NAMED:] else ""
        raise LogError(
            "state-without-positions",
            f"app {belongings.app!r} has no positions here, and records were written to "
            f"{', '.join(used[:TOPICS_NAMED])}{more}: by another app of this id, such as one of Kafka "
            "Streams, or before its positions were deleted",
            "use a new app id, which reads the sources from their start; or delete these topics, if no one "
            f"else needs them: tidegate reset {belongings.app} (MODULE:NAME where the id is not known)",
        )


def ensure_manifest(
    topology: Topology,
    log: Log,
    infos: Mapping[str, TopicInfo],
    clock: Clock,
    known: Manifest | None,
    code: Code,
) -> Manifest:
    """Return the manifest of the active generation. The first start writes it; later ones compare with
    `known`, the manifest that they found. Only the partition counts of sources change in it (see `growth`),
    what is only displayed, and what an earlier version of tidegate wrote differently (see `older`)."""
    app = topology.app
    log.create(control_topic(app))
    if known is None:
        new = _manifest(topology, infos, None, code)
        known = _first_manifest(log, new, code, clock)
        if known is new:
            return new
    partitions = {name: info.partitions for name, info in infos.items()}
    new = _manifest(topology, infos, known, code)
    before = partial(recorded_code, log, known)
    found = reconciled_manifest(topology, known, new, partitions, code, before)
    if known != found:
        with closing(log.writer(_writer_id(app))) as writer:
            append_manifest(writer, found, clock.now(), code.recorded())
            writer.commit()
    return found


def _manifest(
    topology: Topology, infos: Mapping[str, TopicInfo], known: Manifest | None, code: Code
) -> Manifest:
    read = {node.topic.name for node in topology.nodes.values() if node.topic and node.kind in SOURCES}
    return make_manifest(
        topology if known is None else identified(topology, known),
        {name: info.partitions for name, info in infos.items()},
        existing=None if known is None else known.internal_partitions,
        starts={name: info.starts for name, info in infos.items() if name in read},
        code=code,
    )


def check_partitions(topology: Topology, log: Log, known: Manifest) -> None:
    """Raise ConfigError `partitions-changed` if topics of an app that ran here have other partition counts
    now, and the app cannot adopt them."""
    infos = (find_topic(log, topic) for topic in {**known.sources, **known.sinks})
    grown(topology, known, {info.name: info.partitions for info in infos if info is not None})


def write_manifest(writer: Writer, manifest: Manifest, now: int) -> None:
    """Write the manifest in its own transaction. The code stays as it is."""
    append_manifest(writer, manifest, now)
    writer.commit()


def _first_manifest(log: Log, new: Manifest, code: Code, clock: Clock) -> Manifest:
    """Write the manifest, unless another start wrote it first. Uses its own writer id: a start that is
    refused later must not fence the running driver."""
    reach("first-start.2")
    with closing(log.writer(_writer_id(new.app))) as writer:
        found = find_manifest(log, new.app)
        if found is not None:
            return found
        append_manifest(writer, new, clock.now(), code.recorded())
        append_active(writer, new, clock.now())
        writer.commit()
        reach("first-start.3")
        conflict = _name_conflict(log, of_manifest(new))
        if conflict is not None:
            _delete_manifest(writer, new.app, clock.now())
            raise conflict
    return new


def _writer_id(app: str) -> str:
    return f"{names.driver_id(app, ROLE)}.manifest"


def _delete_manifest(writer: Writer, app: str, now: int) -> None:
    write_control(writer, app, dict.fromkeys([manifest_key(1), code_key(1), ACTIVE]), now)
    writer.commit()


def _name_conflict(log: Log, belongings: Belongings) -> TidegateError | None:
    """Return an error if the app's topic names are taken, else None."""
    for topic in sorted(belongings.outputs & belongings.own):
        return ConfigError(
            "name-taken",
            f"app {belongings.app!r} writes its output to {topic!r}, which is one of its internal topics",
            "give the output another name",
        )
    others = (of_manifest(one) for one in manifests(log) if one.app != belongings.app)
    for other in others:
        shared = sorted(belongings.shared_with(other))
        if shared:
            return ConfigError(
                "name-taken",
                f"topic {shared[0]!r} would belong to app {belongings.app!r}, and app {other.app!r} writes "
                "to it",
                "rename the store, step or gate that it is named after, or use another app id",
            )
    return None


def _traces_of_lost_run(log: Log, belongings: Belongings) -> TidegateError | None:
    """Return an error if there are traces of a run that the control topic does not know, else None."""
    if find_topic(log, names.positions(belongings.app)) is not None and read_positions(log, belongings.app):
        return control_missing(belongings.app)
    try:
        check_no_state(log, belongings)
    except LogError as error:
        return error
    return None


def control_missing(app: str) -> LogError:
    """Return the error for positions without a plan."""
    return LogError(
        "control-missing",
        f"app {app!r} has positions, and {names.control(app)!r} does not know of any run: the topic was "
        "deleted or truncated",
        "restore it; or stop what still runs and start over with: tidegate reset MODULE:NAME; or use a new "
        "app id",
    )


def _was_written(log: Log, topic: str) -> bool:
    info = find_topic(log, topic)
    if info is None:
        return False
    ends = log.ends([TopicPartition(topic, number) for number in range(info.partitions)], committed=False)
    return any(ends.values())
