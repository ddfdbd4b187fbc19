"""What a random app writes, calculated in plain Python from the records of its sources.

A second implementation of what `random_apps` declares: it shares functions of single values with it, and no
code with the engine. Tasks merge their sources by (time, topic, offset), so a stream-table join is calculated
for each run of records that a task merges at once (`Span`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tests.upgrade.random_apps import (
    RATE_ROWS,
    RATES,
    Folded,
    Pipeline,
    Step,
    group,
    joined,
    keeps,
    kept_rows,
    labels,
    reducer,
)

from tidegate.types import TopicPartition

Pair = tuple[str, int]
Offsets = Mapping[TopicPartition, int]


class Sent(NamedTuple):
    """One record of a source."""

    time: int
    key: str
    value: int | None


Records = dict[TopicPartition, list[Sent]]
"""The records of each partition, by offset."""


class Span(NamedTuple):
    """Records that a task merges at once, by their offsets in each partition."""

    start: Offsets
    end: Offsets


def passed(one: Pipeline, most: int, records: Records, spans: Sequence[Span]) -> list[list[Pair]]:
    """Return what comes to the gate, or to where one could be, for each span."""
    topics = [*one.sources, *([RATES] if one.join else [])]
    lists: list[list[Pair]] = [[] for _ in spans]
    with_rate = joined(one.join)
    for number in sorted({at.partition for at in records}):
        rates: dict[str, int] = {}
        for span, found in zip(spans, lists, strict=True):
            for topic, sent in _merged(records, span, [TopicPartition(topic, number) for topic in topics]):
                if topic == RATES:
                    rates.pop(sent.key, None)
                    if sent.value is not None:
                        rates[sent.key] = sent.value
                    continue
                assert sent.value is not None
                for value in _stepped(sent.value, one.before, most):
                    if not one.join:
                        found.append((sent.key, value))
                    elif sent.key in rates:
                        found.append((sent.key, with_rate(value, rates[sent.key])))
    return lists


def _merged(records: Records, span: Span, partitions: list[TopicPartition]) -> Iterator[tuple[str, Sent]]:
    at = {one: span.start.get(one, 0) for one in partitions}
    while True:
        heads = [
            (records[one][offset].time, one.topic, offset, one)
            for one, offset in at.items()
            if offset < span.end.get(one, 0)
        ]
        if not heads:
            return
        _, topic, offset, one = min(heads)
        at[one] += 1
        yield topic, records[one][offset]


def _stepped(value: int, steps: tuple[Step, ...], most: int) -> Iterator[int]:
    for step in steps:
        if step[0] == "times":
            value *= step[1]
        elif not keeps(step, most)(value):
            return
    yield value


def sent_events(one: Pipeline, most: int, pairs: Iterable[Pair]) -> list[Pair]:
    """Return what comes to the events and to the aggregate, from what has passed the gate."""
    found = [(key, value) for key, before in pairs for value in _stepped(before, one.behind, most)]
    return [(group(one.key)(value), value) for _, value in found] if one.key else found


def table_rows(one: Pipeline, most: int, pairs: Iterable[Pair]) -> dict[str, Any]:
    """Return the rows of the table, from what has passed the gate."""
    rows: dict[str, int] = {}
    for key, value in sent_events(one, most, pairs):
        match one.end:
            case "count":
                rows[key] = rows.get(key, 0) + 1
            case "sum":
                rows[key] = rows.get(key, 0) + value
            case _:
                rows[key] = max(rows.get(key, 0), value)
    match one.rows:
        case None:
            return dict(rows)
        case ("keep", number):
            return {key: row for key, row in rows.items() if kept_rows(number)(row)}
        case ("label", number):
            return {key: labels(number)(row) for key, row in rows.items()}
        case (_, number):
            counts: dict[str, int] = {}
            for row in rows.values():
                key = group(number)(row)
                counts[key] = counts.get(key, 0) + 1
            return counts


def states(folded: Folded, records: Records, ends: Offsets) -> dict[str, dict[str, int]]:
    """Return the states of a model's ids that exist."""
    found: dict[str, dict[str, int]] = {}
    reduce = reducer(folded)
    for at, sent in records.items():
        if at.topic == folded.source:
            for one in sent[: ends[at]]:
                assert one.value is not None
                state = reduce(found.pop(one.key, {}), one.value)
                if state is not None:
                    found[one.key] = state
    return found


def encoded(rows: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Return rows as they are in the log."""
    return {
        key.encode(): row.encode() if isinstance(row, str) else number_bytes(row) for key, row in rows.items()
    }


def number_bytes(value: int) -> bytes:
    found = RATE_ROWS.encode_value(value)
    assert found is not None
    return found


def number(data: bytes | None) -> int:
    found = RATE_ROWS.decode_value(data)
    assert found is not None
    return found
