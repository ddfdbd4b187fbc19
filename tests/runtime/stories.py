"""Random lives of an app in the driver: records, runs, crashes and moves, checked after every run.

for sent in played(app, story):       # what was sent so far, as it will be processed
    assert d.rows(OUT) == oracle(sent)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from tidegate import App, TableTopic, Topic
from tidegate.testing.driver import Commit, Driver

AnyTopic = Topic[Any, Any] | TableTopic[Any, Any]

START = 1_700_000_000_000
FEW = settings(max_examples=6, deadline=None)
KEYS = st.sampled_from(["ada", "bob", "cy", "dan", "eve"])
TIMES = st.integers(START - 5_000, START)


@dataclass(frozen=True)
class Sent:
    """A record that was sent."""

    topic: str
    key: Any
    value: Any
    time: int


@dataclass(frozen=True)
class Turn:
    """Records, and then a run; with a crash on its way, or on another host."""

    records: tuple[tuple[int, Any, Any, int], ...]
    crash: Commit | None
    moved: bool


@dataclass(frozen=True)
class Story:
    """A life, run record by record or over whole batches."""

    turns: list[Turn]
    batches: bool


def stories(*values: st.SearchStrategy[Any]) -> st.SearchStrategy[Story]:
    """Lives of an app with one source topic per strategy of values. A None value is a tombstone."""
    one = st.one_of(*(st.tuples(st.just(topic), KEYS, value, TIMES) for topic, value in enumerate(values)))
    crash = st.none() | st.sampled_from(list(Commit))
    turn = st.builds(Turn, st.lists(one, max_size=8).map(tuple), crash, st.booleans())
    return st.builds(Story, st.lists(turn, min_size=1, max_size=3), st.booleans())


def play(
    app: App,
    topics: Sequence[AnyTopic],
    story: Story,
    check: Callable[[Driver, list[Sent]], None],
    *,
    partitions: int = 3,
    slots: int = 1,
) -> None:
    """Live through a story; `check` compares after every run."""
    sent: list[Sent] = []
    with Driver(app, partitions=partitions, slots=slots, batches=story.batches) as d:
        for turn in story.turns:
            for number, key, value, time in turn.records:
                topic: Any = topics[number]
                d.send(topic, key, value, timestamp=time)
                sent.append(Sent(topic.name, key, value, time))
            if turn.crash is not None and turn.records:
                d.crash(turn.crash, elsewhere=turn.moved)
            elif turn.moved:
                d.move()
            d.run()
            check(d, sent)


def by_key(d: Driver, topic: AnyTopic) -> dict[Any, list[tuple[Any, int]]]:
    """(value, timestamp) of the records of each key, in the order of their offsets; each key in one
    partition only."""
    found: dict[Any, list[tuple[Any, int]]] = {}
    partitions: dict[Any, int] = {}
    for record in sorted(d.records(topic), key=lambda record: (record.partition, record.offset)):
        found.setdefault(record.key, []).append((record.value, record.timestamp))
        assert partitions.setdefault(record.key, record.partition) == record.partition
    return found


def grouped(records: Sequence[tuple[Any, Any, int]]) -> dict[Any, list[tuple[Any, int]]]:
    """(key, value, timestamp) in the same shape."""
    found: dict[Any, list[tuple[Any, int]]] = {}
    for key, value, time in records:
        found.setdefault(key, []).append((value, time))
    return found


def rows_of(sent: Sequence[Sent], topic: AnyTopic) -> dict[Any, Any]:
    """The rows of a table topic after these records."""
    rows: dict[Any, Any] = {}
    for record in sent:
        if record.topic == topic.name:
            rows.pop(record.key, None)
            if record.value is not None:
                rows[record.key] = record.value
    return rows


def equal_to_its_changelog(d: Driver, store: str) -> bool:
    view = d.store(store)
    return view.contents == view.changelog
