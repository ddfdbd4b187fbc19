"""`tidegate topics tail` and `tidegate topics rows`: show topics without knowing their types."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli.durations import seconds
from tidegate.cli.options import MOST, AsJson, InternalHeaders, KeyType, LogUrl, ValueType, opened
from tidegate.cli.output import print_json, print_line, print_note
from tidegate.cli.records import Display, line, record
from tidegate.errors import LogError
from tidegate.log.ensure import check_topic
from tidegate.log.merged import LocatedRow, ReadRange, follow, read_merged
from tidegate.log.route import partitions_of
from tidegate.log.table import table_rows
from tidegate.types import Offset, TopicPartition

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]


def tail(
    topic: Name,
    from_start: Annotated[bool, typer.Option("--from-start", help="Begin with the oldest record.")] = False,
    partition: Annotated[int | None, typer.Option("--partition", help="Only this one.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, max=MOST, help="End after so many records.")
    ] = None,
    timeout: Annotated[float | None, seconds("--timeout", "End after so long without a record.")] = None,
    value_type: ValueType = None,
    key_type: KeyType = None,
    internal_headers: InternalHeaders = False,
    log: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show new records until Ctrl-C."""
    display = Display(key_type, value_type, internal_headers)
    with opened(log) as (opened_log, _):
        info = opened_log.describe(topic)
        chosen = partitions_of(info)
        if partition is not None:
            if not 0 <= partition < info.partitions:
                raise LogError(
                    "no-such-partition",
                    f"topic {topic!r} has partitions 0 to {info.partitions - 1}, not {partition}",
                    f"tidegate topics describe {topic}",
                )
            chosen = [TopicPartition(topic, partition)]
        ends = opened_log.ends(chosen)
        shown = 0
        if from_start:
            spans = {part: ReadRange(info.starts[part.partition], ends[part]) for part in chosen}
            for located in read_merged(opened_log, spans):
                _show(located, display, as_json=as_json)
                shown += 1
                if shown == limit:
                    return
        positions = {part: Offset(end) for part, end in ends.items()}
        for live in follow(opened_log, positions, timeout):
            if live is not None:
                _show(live, display, as_json=as_json)
                shown += 1
                if shown == limit:
                    return


def rows(
    topic: Name,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, max=MOST, help="At most so many rows.")
    ] = None,
    value_type: ValueType = None,
    key_type: KeyType = None,
    internal_headers: InternalHeaders = False,
    log: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show the current rows of a table, by key."""
    display = Display(key_type, value_type, internal_headers)
    with opened(log) as (opened_log, _):
        info = opened_log.describe(topic)
        check_topic(info, table=True)
        found = table_rows(opened_log, info)
    listed = sorted(found.items(), key=lambda item: (item[0][1], item[0][0].partition))
    for (part, _), row in listed[:limit]:
        _show((part, row), display, as_json=as_json)
    if limit is not None and len(listed) > limit and not as_json:
        print_note(f"{len(listed) - limit:,} more rows")


def _show(located: LocatedRow, display: Display, *, as_json: bool) -> None:
    if as_json:
        print_json(record(*located, display))
    else:
        print_line(line(*located, display))
