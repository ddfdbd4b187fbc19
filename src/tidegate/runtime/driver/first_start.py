"""The first start of an app on a log: what must not be there yet, and the manifest that it writes.

An app has positions from its first plan on. Where it has none, whatever its changelogs and internal topics
hold is not its own, or it is, and what tells how far it got is lost: to start over would count everything a
second time on top of it. Both are refused by name, and `tidegate reset` is the way to start over.

1 compare the names that the app would give with those of all others, and look into its topics: nothing is
written until that is done; 2 write the manifest, unless another start of the app did so first; 3 compare the
names again. Of two apps that share a name and start for the first time together, each writes its manifest
before it looks for that of the other. So one of them goes on at most, and one that does not takes its
manifest back.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from tidegate.clock import Clock
from tidegate.errors import ConfigError, LogError, TidegateError
from tidegate.log import names
from tidegate.log.ensure import find_topic
from tidegate.log.faultpoints import reach
from tidegate.log.positions import read_positions
from tidegate.log.protocol import Log, Writer
from tidegate.log.records import Row, to_batch
from tidegate.runtime.topics.control import ROLE, control_topic, write_control
from tidegate.runtime.topics.manifests import MANIFEST, find_manifest, manifests, shown_manifest
from tidegate.topology.belongings import Belongings, of_manifest, of_topology
from tidegate.topology.differences import plain, settled_with
from tidegate.topology.graph import Topology
from tidegate.topology.growth import grown
from tidegate.topology.manifest import Manifest, make_manifest
from tidegate.types import TopicPartition

SHOWN = 3
"""How many topics an error names."""


def check_first_start(log: Log, topology: Topology) -> Manifest | None:
    """Raise for what keeps an app from its first start here: `name-taken`, `control-missing`,
    `state-without-positions`. Writes nothing. Of an app that ran here before nothing is asked; returns its
    manifest."""
    known = shown_manifest(log, topology.app)
    if known is not None:
        return known
    mine = of_topology(topology)
    found = _taken(log, mine) or _left_behind(log, mine)
    if found is not None and find_manifest(log, topology.app) is None:  # else another start of it was quicker
        raise found
    return None


def check_no_state(log: Log, mine: Belongings) -> None:
    """Raise LogError `state-without-positions` for a changelog or an internal topic that was written to. One
    that was emptied since counts too, and one whose name the user gave does not."""
    used = [topic for topic in mine.state if topic not in mine.named and _was_written(log, topic)]
    if used:
        more = f" and {len(used) - SHOWN} more" if used[SHOWN:] else ""
        raise LogError(
            "state-without-positions",
            f"app {mine.app!r} has no positions here, and records were written to {', '.join(used[:SHOWN])}"
            f"{more}: by another app of this id, such as one of Kafka Streams, or before its positions were "
            "deleted",
            "use a new app id, which reads the sources from their start; or delete these topics, if nobody "
            f"else needs them: tidegate reset {mine.app} (MODULE:NAME where the id is not known)",
        )


def settle_manifest(
    topology: Topology, log: Log, partitions: Mapping[str, int], clock: Clock, known: Manifest | None
) -> Manifest:
    """The manifest of generation 1: written at the first start, compared at every later one with the `known`
    one. Only the partition counts of sources change in it, see `growth`, and what an earlier version wrote
    otherwise, see `older`."""
    app = topology.app
    log.create(control_topic(app))
    made = plain(make_manifest(topology, partitions, settled=known.internal_partitions if known else None))
    found = settled_with(topology, known or _first_manifest(log, made, clock), made, partitions)
    if known is not None and known != found:
        with closing(log.writer(_writer_id(app))) as writer:
            write_manifest(writer, found, clock.now())
    return found


def check_partitions(topology: Topology, log: Log, known: Manifest) -> None:
    """Raise ConfigError `partitions-changed` if topics of an app that ran here have other partitions now, and
    they cannot be taken in."""
    infos = (find_topic(log, topic) for topic in {**known.sources, **known.sinks})
    grown(topology, known, {info.name: info.partitions for info in infos if info is not None})


def write_manifest(writer: Writer, manifest: Manifest, now: int) -> None:
    """Write it, in a transaction of its own."""
    write_control(writer, manifest.app, {MANIFEST: manifest}, now)
    writer.commit()


def _first_manifest(log: Log, made: Manifest, clock: Clock) -> Manifest:
    """Write it, unless somebody else did so first. Under a writer id of its own: a start that is refused
    later must not have fenced the driver that runs."""
    reach("first-start.2")
    with closing(log.writer(_writer_id(made.app))) as writer:
        found = find_manifest(log, made.app)
        if found is not None:
            return found
        write_manifest(writer, made, clock.now())
        reach("first-start.3")
        taken = _taken(log, of_manifest(made))
        if taken is not None:
            _take_back(writer, made.app, clock.now())
            raise taken
    return made


def _writer_id(app: str) -> str:
    return f"{names.driver_id(app, ROLE)}.manifest"


def _take_back(writer: Writer, app: str, now: int) -> None:
    row = Row(MANIFEST.encode(), None, now)
    writer.append(TopicPartition(names.control(app), 0), to_batch([row]))
    writer.commit()


def _taken(log: Log, mine: Belongings) -> TidegateError | None:
    """Why the app cannot have its names, if so."""
    for topic in sorted(mine.outputs & mine.own):
        return ConfigError(
            "name-taken",
            f"app {mine.app!r} writes its output to {topic!r}, a topic that it keeps for itself",
            "give the output another name",
        )
    others = (of_manifest(one) for one in manifests(log) if one.app != mine.app)
    for other in others:
        shared = sorted(mine.shared_with(other))
        if shared:
            return ConfigError(
                "name-taken",
                f"topic {shared[0]!r} would belong to app {mine.app!r}, and app {other.app!r} writes to it",
                "rename the store, step or gate that it is named after, or use another app id",
            )
    return None


def _left_behind(log: Log, mine: Belongings) -> TidegateError | None:
    """Traces of a run that the control topic does not know of."""
    if find_topic(log, names.positions(mine.app)) is not None and read_positions(log, mine.app):
        return control_missing(mine.app)
    try:
        check_no_state(log, mine)
    except LogError as error:
        return error
    return None


def control_missing(app: str) -> LogError:
    """Positions without a plan."""
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
