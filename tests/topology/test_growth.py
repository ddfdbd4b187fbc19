"""Which sources may get more partitions after the first start."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tidegate import App, ConfigError, TableTopic, Topic
from tidegate.topology.growth import grown
from tidegate.topology.manifest import make_manifest, partition_counts

IN, MORE, OUT = (Topic(name, str) for name in ("in", "more", "out"))
ROWS, COUNTS = TableTopic("rows", str), TableTopic("counts", int)


def passing(app: App) -> None:
    app.stream(IN).filter(bool).to(OUT)


def counting_behind_a_repartition(app: App) -> None:
    app.stream(IN).group_by("by-value", str).count("counted").to(COUNTS)


def merging(app: App) -> None:
    app.stream(IN).merge(app.stream(MORE)).to(OUT)


def counting(app: App) -> None:
    app.stream(IN).count("counted").to(COUNTS)


def joining(app: App) -> None:
    app.stream(IN).join(app.table(ROWS), lambda left, right: left + right).to(OUT)


def gating(app: App) -> None:
    app.stream(IN).gate("door").to(OUT)


def declaring(app: App) -> None:
    app.stream(Topic("in", str, partitions=3)).to(OUT)


def beside_an_internal_topic(app: App) -> None:
    app.stream(MORE).repartition("moved").merge(app.stream(IN)).to(OUT)


GATE = [f"growing-door-{what}" for what in ("status", "trigger", "audit")]
BEFORE = dict.fromkeys(["in", "more", "out", "rows", "counts", *GATE], 3)
Declare = Callable[[App], None]


def grow(declare: Declare, now: Mapping[str, int]) -> tuple[dict[str, int], dict[tuple[str, int], int]]:
    """The sources of the grown manifest, and how many tasks each subtopology has."""
    app = App("growing")
    declare(app)
    topology = app.build()
    manifest = make_manifest(topology, BEFORE)
    after = grown(topology, manifest, {**BEFORE, **now})
    assert after.internal_partitions == manifest.internal_partitions, "keys never move in internal topics"
    counts = partition_counts(topology, {**after.sources, **after.sinks}, after.internal_partitions)
    assert after == make_manifest(topology, {**BEFORE, **now}, existing=manifest.internal_partitions)
    return after.sources, counts


def test_steps_without_a_store_take_more_partitions() -> None:
    sources, counts = grow(passing, {"in": 5})
    assert (sources, list(counts.values())) == ({"in": 5}, [5])


def test_behind_a_repartition_topic_all_stays_as_it_was() -> None:
    sources, counts = grow(counting_behind_a_repartition, {"in": 5})
    assert (sources, list(counts.values())) == ({"in": 5}, [5, 3])


def test_sources_that_are_read_together_may_grow_together() -> None:
    sources, counts = grow(merging, {"in": 5, "more": 5})
    assert (sources, list(counts.values())) == ({"in": 5, "more": 5}, [5])


def test_nothing_changes_where_nothing_grew() -> None:
    assert grow(passing, {}) == ({"in": 3}, {("in", 0): 3})


@pytest.mark.parametrize(
    ("declare", "now", "why"),
    [
        (counting, {"in": 5}, "'counted'"),
        (joining, {"in": 5}, "'rows'"),
        (joining, {"in": 5, "rows": 5}, "'rows'"),
        (joining, {"rows": 5}, "'rows'"),
        (gating, {"in": 5}, "'door-status'"),
        (merging, {"in": 5}, "'more'"),
        (merging, {"in": 5, "more": 4}, "'more'"),
        (beside_an_internal_topic, {"in": 5}, "'growing-moved-repartition'"),
        (passing, {"in": 2}, "gone"),
        (declaring, {"in": 5}, "declares it with 3"),
        (passing, {"out": 5}, "output"),
    ],
)
def test_what_cannot_be_taken_in_is_refused_by_name(declare: Declare, now: dict[str, int], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        grow(declare, now)
    assert error.value.code == "partitions-changed"
    assert "tidegate reset growing" in error.value.hint


def test_a_partition_count_that_the_user_gives_wins_over_the_settled_one() -> None:
    """So a change of it is a change of the app."""
    app = App("growing")
    app.stream(IN).repartition("moved", partitions=7).to(OUT)
    topology = app.build()
    assert set(partition_counts(topology, BEFORE, {"moved": 3}).values()) == {3, 7}
