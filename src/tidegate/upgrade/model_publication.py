"""What an upgrade publishes of a model: one record of its changelog and one event for each id that differs.

The recalculated rows are in a changelog of their own. They are compared with the live ones, and each id whose
state differs gets one more version on top of its live row (`models/correction.py`). Ids whose state is the
same get no record, so their tokens stay the newest. Needs no code of the user.

Records have the later one of the times of the live and of the recalculated row, so the times of an id never
go back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
import pyarrow as pa

from tidegate.errors import UpgradeError
from tidegate.log.partitioner import partition_for
from tidegate.log.protocol import Log
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import TopicInfo
from tidegate.models.correction import corrected
from tidegate.models.row import decode_row, encode_row
from tidegate.models.step import model_event
from tidegate.types import TopicPartition
from tidegate.upgrade.compared_rows import Compared
from tidegate.upgrade.comparison import PartitionComparison

NO_RECORD = "-"
_encoded = msgspec.json.Encoder().encode


class ModelChange(NamedTuple):
    """One id that differs: the next record of the live changelog, and that of the events topic."""

    kind: str
    """`created`, `changed` or `gone`."""
    row_at: TopicPartition
    row: Row
    event_at: TopicPartition
    event: Row


def model_changes(
    log: Log,
    live_changelog: TopicInfo,
    staged_changelog: TopicInfo | None,
    partition: int,
    *,
    events: TopicInfo,
) -> Iterator[ModelChange]:
    """Yield what is published for a partition of a model. Without a staged changelog the model is gone: each
    id that exists is removed.

    The two changelogs are read up to their uncommitted ends at the first `next`. Nothing may be appended to
    the partition before; while the changes are appended, everything that was read stays as it is. After an
    interruption a second call yields the rest.

    Raises UpgradeError `partitions-changed` if the changelogs have different numbers of partitions.
    """
    compared = compared_model(live_changelog.name, live_changelog, staged_changelog)
    return changes_of(PartitionComparison(log, compared, partition), compared, partition, events)


def compared_model(name: str, live: TopicInfo, staged: TopicInfo | None) -> Compared:
    """Return the two changelogs of a model. Raises UpgradeError `partitions-changed` if they have different
    numbers of partitions."""
    if staged is not None and staged.partitions != live.partitions:
        raise UpgradeError(
            "partitions-changed",
            f"{staged.name} has {staged.partitions} partitions, and {live.name} has {live.partitions}: ids "
            "would be compared with other ids",
            "keep the number of partitions of the model; or start over with: tidegate reset",
        )
    return Compared(name, live, staged, None)


def changes_of(
    differing: Iterable[pa.RecordBatch], compared: Compared, partition: int, events: TopicInfo
) -> Iterator[ModelChange]:
    """Yield what is published for ids whose states differ. `differing` has the schema DIFFERENCES."""
    assert compared.live is not None  # noqa: S101 - a new model has nothing to compare with
    row_at = TopicPartition(compared.live.name, partition)
    for batch in differing:
        columns = ("key", "before_row", "before_time", "after_row", "after_time")
        rows = zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
        for key, old, old_time, new, new_time in rows:
            before = decode_row(old)
            step = corrected(before, decode_row(new))
            if step is None or step.patch is None:
                continue
            row, at = step.row, max(old_time or 0, new_time or 0)
            event = model_event(key.decode(), before, row, step.patch, at, NO_RECORD)
            yield ModelChange(
                event.kind,
                row_at,
                Row(key, encode_row(row), at),
                TopicPartition(events.name, partition_for(key, events.partitions)),
                Row(key, _encoded(event), at),
            )


def to_batches(changes: Iterable[ModelChange]) -> dict[TopicPartition, pa.RecordBatch]:
    """Return the records of some changes by partition: for one transaction."""
    rows: dict[TopicPartition, list[Row]] = {}
    for change in changes:
        rows.setdefault(change.row_at, []).append(change.row)
        rows.setdefault(change.event_at, []).append(change.event)
    return {partition: to_batch(found) for partition, found in rows.items()}
