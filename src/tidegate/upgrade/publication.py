"""Publish what an upgrade changed: of each table topic and model the rows that differ, and nothing else.

What differs is found by the one comparison of `comparison`, and becomes records by `table_publication` and
`model_publication`. A row whose newest writer is another one is left alone.

Nobody else writes for the app meanwhile: the claim is held. So a publication that was interrupted finds what
it has published, and publishes the rest. It needs no code of the user: any start of the app continues it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from typing import TypeVar

import msgspec
import pyarrow as pa

from tidegate.clock import Clock
from tidegate.log import names
from tidegate.log.ensure import find_topic
from tidegate.log.faultpoints import reach
from tidegate.log.positions import TaskId, position_row, read_positions
from tidegate.log.protocol import Log, Writer
from tidegate.log.records import to_batch
from tidegate.runtime.driver.takeover import take_over
from tidegate.runtime.topics.control import read_control
from tidegate.runtime.topics.upgrades import (
    Differences,
    Published,
    UpgradeEntry,
    append_upgrade,
    upgrade_of,
)
from tidegate.types import TopicPartition
from tidegate.upgrade.abandon import remove_leftovers, remove_staging
from tidegate.upgrade.compared_rows import Compared
from tidegate.upgrade.comparison import PartitionComparison, counted
from tidegate.upgrade.kept_differences import KeptDifferences
from tidegate.upgrade.model_publication import ModelChange, changes_of, compared_model, to_batches
from tidegate.upgrade.table_publication import RECORDS_PER_TRANSACTION, corrections, transactions

T = TypeVar("T")


def owner_of(app: str, table: str) -> bytes:
    """Return the owner header of an app's rows in a table topic."""
    return f"{app}/{table}".encode()


def compared_of(log: Log, app: str, published: Published) -> Compared:
    """Return the topics to compare as they are now."""
    staged = None if published.staged is None else find_topic(log, published.staged)
    if published.kind == "model":
        return compared_model(published.name, log.describe(published.live), staged)
    owner = owner_of(app, published.name)
    return Compared(published.name, find_topic(log, published.live), staged, owner)


def differences(log: Log, app: str, published: Published, kept: KeptDifferences) -> Differences:
    """Count what differs in a table topic or model, and keep it."""
    compared = compared_of(log, app, published)
    put = changed = removed = equal = foreign = 0
    for number in range(compared.partitions):
        one = PartitionComparison(log, compared, number, folder=kept.folder)
        for batch in kept.kept(one):
            found = counted(batch)
            if published.kind == "model":
                found = _counted_changes(log, published, compared, batch)
            put, changed, removed = put + found.put, changed + found.changed, removed + found.removed
            equal += found.equal
        equal += one.equal
        foreign += one.foreign
    return Differences(put, changed, removed, equal, foreign)


def _counted_changes(
    log: Log, published: Published, compared: Compared, batch: pa.RecordBatch
) -> Differences:
    """Count what is published for ids of a model. States of different bytes may be the same value."""
    changes = changes_of([batch], compared, 0, log.describe(published.events))
    kinds = Counter(change.kind for change in changes)
    same = batch.num_rows - kinds.total()
    return Differences(kinds["created"], kinds["changed"], kinds["gone"], same)


def publish(
    log: Log,
    writer: Writer,
    app: str,
    entry: UpgradeEntry,
    clock: Clock,
    kept: KeptDifferences | None = None,
) -> int:
    """Publish everything that differs: step 7. Returns how many records were written. The caller holds the
    app. `kept` is what was found by the same holder."""
    kept = kept or KeptDifferences()
    written = 0
    for published in entry.publishes:
        compared = compared_of(log, app, published)
        for number in range(compared.partitions):
            differing = kept.differing(log, compared, number)
            if published.kind == "table":
                written += _publish_table(writer, differing, compared, number)
            else:
                events = log.describe(published.events)
                changes = changes_of(differing, compared, number, events)
                written += _publish_model(log, writer, app, entry, published, number, clock, changes)
    return written


def _publish_table(
    writer: Writer, differing: Iterable[pa.RecordBatch], compared: Compared, number: int
) -> int:
    assert compared.live is not None and compared.owner is not None  # noqa: S101, PT018 - of a table
    partition, written = TopicPartition(compared.live.name, number), 0
    for batch in differing:
        for part in transactions(corrections(batch, compared.owner)):
            reach("upgrade.7")
            writer.append(partition, part)
            writer.commit()
            written += part.num_rows
    return written


def _publish_model(
    log: Log,
    writer: Writer,
    app: str,
    entry: UpgradeEntry,
    published: Published,
    number: int,
    clock: Clock,
    changes: Iterator[ModelChange],
) -> int:
    """Publish the versions of one partition. The position of the task that keeps the model moves with its
    changelog, in the same transaction."""
    task = TaskId(published.component, entry.generation, published.subtopology, number)
    changelog = TopicPartition(published.live, number)
    written = 0
    for part in _parts(changes, RECORDS_PER_TRANSACTION // 2):
        reach("upgrade.7")
        for partition, batch in to_batches(part).items():
            writer.append(partition, batch)
        if published.component:
            position = read_positions(log, app)[task]
            end = int(writer.flush([changelog])[changelog])
            moved = msgspec.structs.replace(position, changelogs={**position.changelogs, published.name: end})
            row = position_row(task, moved, clock.now())
            writer.append(TopicPartition(names.positions(app), 0), to_batch([row]))
        writer.commit()
        written += 2 * len(part)
    return written


def complete(log: Log, app: str, clock: Clock) -> UpgradeEntry | None:
    """Finish an upgrade that was decided: steps 7 and 8. Returns it, or None if there is none. Called before
    each start of an app. Folders of the throw-away app are removed by slots on their hosts."""
    entry = upgrade_of(read_control(log, app)) if _has_control(log, app) else None
    if entry is None or entry.state != "publishing":
        remove_leftovers(log, app, None, clock)
        return None
    with closing(take_over(log, app, entry.generation, clock)) as claim:
        done = publish_rest(log, claim.writer, app, clock)
        if done is not None:
            remove_staging(log, done, app, None, clock)
        return done


def publish_rest(
    log: Log, writer: Writer, app: str, clock: Clock, kept: KeptDifferences | None = None
) -> UpgradeEntry | None:
    """As `complete`, for the holder of the app. `kept` is what it found when it compared."""
    entry = upgrade_of(read_control(log, app))
    if entry is None or entry.state != "publishing":
        return entry
    publish(log, writer, app, entry, clock, kept)
    reach("upgrade.8")
    done = msgspec.structs.replace(entry, state="done")
    append_upgrade(writer, app, done, clock.now())
    writer.commit()
    return done


def _has_control(log: Log, app: str) -> bool:
    return find_topic(log, names.control(app)) is not None


def _parts(rows: Iterator[T], size: int) -> Iterator[list[T]]:
    while part := list(islice(rows, size)):
        yield part
