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
from tidegate.runtime.driver.drain import drain_run
from tidegate.runtime.topics.unread import Unread
from tidegate.runtime.topics.upgrades import Question
from tidegate.topology.entries import NodeEntry
from tidegate.topology.manifest import Manifest
from tidegate.topology.node import INTERNAL, SINKS, NodeKind
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
    records: dict[str, int] = {}
    for one in left:
        records[one.topic] = records.get(one.topic, 0) + one.end - one.position
    for topic, count in records.items():
        if _leads_to_events(log, known, changed, topic):
            yield Question(
                "undrained",
                f"the old version ended with {count:,} records in {topic}, which lead to events that it has "
                "not sent",
                "start the old version and stop it with: tidegate stop --drain; or lose them: "
                "tidegate upgrade --yes",
            )


def _leads_to_events(log: Log, known: Manifest, changed: set[str], topic: str) -> bool:
    names = {name for name, one in known.internal.items() if one == topic}
    for id, component in known.components.items():
        if id not in changed:
            continue
        reached = {at for at in component.nodes() if known.nodes[at].name in names}
        for at in component.nodes():  # parents come first
            if reached & set(known.nodes[at].parents):
                reached.add(at)
        if any(_sends(log, known.nodes[at]) for at in reached):
            return True
    return False


def _sends(log: Log, node: NodeEntry) -> bool:
    if node.kind == NodeKind.GATE:
        return True
    if node.kind not in SINKS or node.kind in INTERNAL or owner_of(node):
        return False
    info = find_topic(log, node.topic)
    return info is None or not info.compacts
