"""Compaction: keep only the newest record of each key.

A pass reads the records since the last pass, collects the newest offset of each of their keys (at most some
hundred thousand keys, so that memory is bounded), then walks the whole partition from its start and drops
older records. Walking in order matters for tombstones: when a span's tombstones get their horizon, no older
record of their keys is left before them, so dropping them at the horizon brings no value back. A restore
that is slower than the horizon would miss them; DESIGN 5 describes what a store does about that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from tidegate.log.sqlite.append import load_partition, save_partition
from tidegate.log.sqlite.database import Database, fetch
from tidegate.log.sqlite.layout import PartitionRow, Span
from tidegate.log.sqlite.reader import decode_span, read_spans
from tidegate.log.sqlite.rewrite import TARGET_BYTES, replace_run
from tidegate.log.topic import RATIO, TopicInfo

KEYS_PER_PASS = 500_000
NEVER = 2**63 - 1

SpanRun = list[tuple[Span, "bytes | None"]]


def is_due(database: Database, info: TopicInfo, partition: PartitionRow, now: int) -> bool:
    """Whether to compact now: enough is dirty, or dirty for too long, or tombstones reached their horizon."""
    with database.read() as connection:
        query = (
            "SELECT coalesce(sum(size), 0), coalesce(sum(size) FILTER (WHERE last >= ?), 0),"
            " min(max_timestamp) FILTER (WHERE last >= ?), min(horizon) FILTER (WHERE horizon > 0)"
            " FROM span WHERE partition = ?"
        )
        values = (partition.clean, partition.clean, partition.id)
        [(total, dirty, oldest, horizon)] = fetch(connection, query, values)
    if horizon is not None and horizon <= now:
        return True
    if not dirty:
        return False
    if oldest is not None and now - oldest > info.setting("max.compaction.lag.ms"):
        return True
    ratio = float(info.config.get(RATIO, "0.5"))
    return bool(dirty >= max(TARGET_BYTES // 4, ratio * total))


def compact(
    database: Database, info: TopicInfo, partition_id: int, now: int, go_on: Callable[[], bool]
) -> None:
    """Run passes until everything that may be compacted is, or until `go_on`, called after each run, is
    False."""
    while True:
        with database.read() as connection:
            partition = load_partition(connection, partition_id)
        newest, until = _newest_offsets(database, info, partition, now)
        if not _walk(database, info, partition, newest, until, now, go_on):
            return
        with database.write() as connection:
            current = load_partition(connection, partition_id)
            save_partition(connection, replace(current, clean=max(current.clean, until)))
        if until <= partition.clean or until == partition.next:
            return


def _newest_offsets(
    database: Database, info: TopicInfo, partition: PartitionRow, now: int
) -> tuple[dict[bytes, int], int]:
    """Return the newest offset of each key from `clean` on, and the offset up to which that holds."""
    newest: dict[bytes, int] = {}
    until = max(partition.clean, partition.start)
    lag = info.setting("min.compaction.lag.ms")
    for span, data in _spans(database, partition, until, partition.next):
        if lag and span.max_timestamp > now - lag:
            break
        batch = decode_span(span, data)
        newest.update(zip(batch.column(2).to_pylist(), batch.column(0).to_pylist(), strict=True))
        until = span.last + 1
        if len(newest) >= KEYS_PER_PASS:
            break
    return newest, until


def _walk(
    database: Database,
    info: TopicInfo,
    partition: PartitionRow,
    newest: dict[bytes, int],
    until: int,
    now: int,
    go_on: Callable[[], bool],
) -> bool:
    """Rewrite the spans below `until`, run by run. Return False if it stopped early: because another process
    changed a span, or because `go_on` returned False."""
    retention = info.setting("delete.retention.ms")
    for run in _runs(_spans(database, partition, partition.start, until), retention, now):
        parts = [_kept(span, decode_span(span, data), newest, now) for span, data in run]
        kept = pa.concat_batches(parts)
        spans = [span for span, _ in run]
        unchanged = len(run) == 1 and kept.num_rows == spans[0].count
        if unchanged and (spans[0].horizon or not spans[0].tombstones):
            continue
        horizon = max(_horizon(span, retention, now) for span in spans)
        if not replace_run(database, spans, kept, horizon) or not go_on():
            return False
    return True


def _horizon(span: Span, retention: int, now: int) -> int:
    """Return the time from which the tombstones of a span may be removed. It is rounded up to an eighth of
    their retention, so that tombstones of about the same age share a horizon; once set, it does not
    change."""
    if not span.tombstones or span.horizon:
        return span.horizon
    grain = max(1, retention // 8)
    return min(-(-(now + retention) // grain) * grain, NEVER)


def _kept(span: Span, batch: pa.RecordBatch, newest: dict[bytes, int], now: int) -> pa.RecordBatch:
    keys, offsets = batch.column(2).to_pylist(), batch.column(0).to_pylist()
    mask = [newest.get(key, -1) <= offset for key, offset in zip(keys, offsets, strict=True)]
    if 0 < span.horizon <= now:
        alive = batch.column(3).is_valid().to_pylist()
        mask = [keep and valid for keep, valid in zip(mask, alive, strict=True)]
    return batch if all(mask) else batch.filter(pa.array(mask, pa.bool_()))


def _runs(spans: Iterator[tuple[Span, bytes | None]], retention: int, now: int) -> Iterator[SpanRun]:
    """Group adjacent spans into runs of about one full batch. Tombstones of different horizons do not share
    a run: they would all have to wait for the latest horizon, pass after pass."""
    run: SpanRun = []
    size, first_horizon = 0, 0
    for span, data in spans:
        horizon = _horizon(span, retention, now)
        other_horizon = horizon and first_horizon and horizon != first_horizon
        if run and (other_horizon or size + span.raw > TARGET_BYTES):
            yield run
            run, size, first_horizon = [], 0, 0
        run.append((span, data))
        size += span.raw
        first_horizon = first_horizon or horizon
    if run:
        yield run


def _spans(
    database: Database, partition: PartitionRow, offset: int, until: int
) -> Iterator[tuple[Span, bytes | None]]:
    """Yield the spans from the one that holds `offset` on, while they end below `until`, page by page."""
    while offset < until:
        with database.read() as connection:
            current = load_partition(connection, partition.id)
            page = read_spans(connection, current, max(offset, current.start), TARGET_BYTES)
        if not page:  # a purge has removed everything in the meantime
            return
        for span, data in page:
            if span.last >= until:
                return
            yield span, data
            offset = span.last + 1
