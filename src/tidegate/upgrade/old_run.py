"""Stop the run of the old version before an upgrade, such that no event is lost or sent twice.

A run that answers is drained: it takes no more records from its sources, and processes what is in its
internal topics. One that died may have left records there. If they lead to events or to a gate, they would be
lost: the new version recalculates rows from the sources, and sends no events for what is below the stop.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.changes.steps import owner_of
from tidegate.clock import Clock
from tidegate.log.ensure import find_topic
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.runtime.driver.drain import drain_run
from tidegate.runtime.output.time_only import apart
from tidegate.runtime.topics.unread import Unread
from tidegate.runtime.topics.upgrades import Question
from tidegate.topology.entries import NodeEntry
from tidegate.topology.manifest import Manifest
from tidegate.topology.node import INTERNAL, SINKS, NodeKind
from tidegate.types import TopicPartition
from tidegate.upgrade.plan import UpgradePlan
from tidegate.upgrade.upgrades import StopOld, Stopped

DRAIN_SECONDS = 60.0


def stop_old(log: Log, clock: Clock, seconds: float = DRAIN_SECONDS) -> StopOld:
    """Return what stops the run of an old version."""

    def stop(known: Manifest, plan: UpgradePlan) -> Stopped:
        found = drain_run(log, known, "upgrade", clock, seconds)
        changed = {one.id for one in plan.components if one.action != "keep"}
        return Stopped(list(undrained(log, known, changed, found.left)), found.wall)

    return stop


def undrained(log: Log, known: Manifest, changed: set[str], left: list[Unread]) -> Iterator[Question]:
    """Yield the question for records in internal topics that lead to events or to a gate."""
    by_topic: dict[str, list[Unread]] = {}
    for one in left:
        by_topic.setdefault(one.topic, []).append(one)
    for topic, parts in by_topic.items():
        behind = _behind(known, changed, topic)
        if not any(_sends(log, node) for node in behind):
            continue
        timers = any(node.kind == NodeKind.PROCESS for node in behind)
        count = sum(_records(log, one, with_time=timers) for one in parts)
        if count:
            yield Question(
                "undrained",
                f"the old version ended with {count:,} records in {topic}, which lead to events that it has "
                "not sent",
                "start the old version and stop it with: tidegate stop --drain; or lose them: "
                "tidegate upgrade --yes",
            )


def _records(log: Log, one: Unread, *, with_time: bool) -> int:
    """Count what was not processed. A run that is stopped in order leaves time-only records behind, which
    matter to steps with timers alone."""
    batches = read_between(log, TopicPartition(one.topic, one.partition), one.position, one.end)
    parts = (part for batch in batches for part in apart(batch))
    return sum(records.num_rows for records, time_only in parts if with_time or not time_only)


def _behind(known: Manifest, changed: set[str], topic: str) -> list[NodeEntry]:
    """Return the steps behind an internal topic, as far as their components change."""
    names = {name for name, one in known.internal.items() if one == topic}
    found: list[NodeEntry] = []
    for id, component in known.components.items():
        if id not in changed:
            continue
        reached = {at for at in component.nodes() if known.nodes[at].name in names}
        for at in component.nodes():  # parents come first
            if reached & set(known.nodes[at].parents):
                reached.add(at)
        found += [known.nodes[at] for at in reached]
    return found


def _sends(log: Log, node: NodeEntry) -> bool:
    if node.kind == NodeKind.GATE:
        return True
    if node.kind not in SINKS or node.kind in INTERNAL or owner_of(node):
        return False
    info = find_topic(log, node.topic)
    return info is None or not info.compacts
