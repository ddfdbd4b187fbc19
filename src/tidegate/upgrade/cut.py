"""Where a recalculation ends: an offset in each source, and the wall time.

The live app goes on while its positions are read. So the cut brackets them:

1 take the committed ends of its table topics; 2 read the positions of its tasks: the highest offset of each
source partition is the end of the recalculation; 3 wait until every task that reads the source has come that
far, and until its internal topics were read up to their ends, one subtopology after the other; 4 take the
ends of the table topics again.

What is below the ends of step 1 comes from records below the cut, and whatever comes from records below the
cut is below the ends of step 4. So a row that was not written between the two is the row as of the cut. An
app that does not run never gets further: after a few seconds without progress the cut is taken as it is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.clock import Clock
from tidegate.log.positions import Position, TaskId
from tidegate.log.protocol import Log
from tidegate.log.reads import nothing_between
from tidegate.runtime.replay import Cut, Ends
from tidegate.runtime.topics.unread import offsets_of, task_positions
from tidegate.topology.manifest import Manifest
from tidegate.types import TopicPartition

PROGRESS_SECONDS = 3.0
"""An app whose positions do not move for this long does not run, or is too busy to wait for."""
LONGEST_SECONDS = 60.0
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Bracket:
    """A cut, and the ends of the live table topics before and after it."""

    cut: Cut
    before: Mapping[TopicPartition, int]
    after: Mapping[TopicPartition, int]
    settled: bool
    """Whether the live app has processed everything below the cut."""


def live_cut(
    log: Log, live: Manifest | None, sources: Mapping[str, int], tables: Mapping[str, int], clock: Clock
) -> Bracket:
    """Return the cut where the live app is now. `sources` are the topics of the recalculation, `tables` the
    table topics to compare, with their partition counts. A source that the live app does not read is cut at
    its committed end."""
    of_tables = _partitions(tables)
    before = _ints(log.ends(of_tables))
    ends = _ints(log.ends(_partitions(sources)))
    positions = {} if live is None else task_positions(log, live)
    read = {partition: offset for partition, offset in _furthest(positions).items() if partition in ends}
    ends.update(read)
    cut = Cut(by_topic(ends), clock.now())
    settled = live is None or _await_settled(log, live, read, positions)
    return Bracket(cut, before, _ints(log.ends(of_tables, committed=False)), settled)


def _furthest(positions: Mapping[TaskId, Position]) -> Ends:
    furthest: Ends = {}
    for partition, offset in offsets_of(positions):
        furthest[partition] = max(offset, furthest.get(partition, 0))
    return furthest


def _await_settled(
    log: Log, live: Manifest, read: Mapping[TopicPartition, int], positions: Mapping[TaskId, Position]
) -> bool:
    """Wait until the live app has processed everything below the cut: step 3. Returns whether it has."""
    if not positions:
        return True
    between = [
        TopicPartition(topic, number)
        for name, topic in live.internal.items()
        if topic in live.purged()
        for number in range(live.internal_partitions[name])
    ]
    deadline = time.monotonic() + LONGEST_SECONDS
    targets = dict(read)
    for _ in range(1 + len({partition.topic for partition in between})):
        # Each pass drains one more internal topic of a chain: what is written to it meanwhile is counted.
        targets.update(_ints(log.ends(between, committed=False)))
        if not _await_reached(log, live, targets, deadline):
            return False
    return True


def _await_reached(log: Log, live: Manifest, targets: Mapping[TopicPartition, int], deadline: float) -> bool:
    seen: dict[TaskId, Position] = {}
    still = time.monotonic() + PROGRESS_SECONDS
    while True:
        positions = task_positions(log, live)
        if all(
            nothing_between(log, partition, offset, targets[partition])
            for partition, offset in offsets_of(positions)
            if partition in targets
        ):
            return True
        now = time.monotonic()
        if positions != seen:
            seen, still = positions, now + PROGRESS_SECONDS
        if now > min(still, deadline):
            return False
        time.sleep(POLL_SECONDS)


def _partitions(topics: Mapping[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]


def _ints(ends: Mapping[TopicPartition, int]) -> Ends:
    return {partition: int(end) for partition, end in ends.items()}


def by_topic(ends: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    """Return ends as plain data."""
    found: dict[str, dict[int, int]] = {}
    for (topic, partition), end in ends.items():
        found.setdefault(topic, {})[partition] = int(end)
    return found
