"""Components and subtopologies keep their ids, numbers and digests whatever happens around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tidegate import App, Context, Record, Settings, TableTopic, Topic, stores
from tidegate.topology.generations import continued, is_same_app, unchanged_components
from tidegate.topology.identity import identified
from tidegate.topology.manifest import Manifest, make_manifest
from tidegate.topology.node import NodeKind

A, B, C = Topic("a", int), Topic("b", int), Topic("c", int)
ROWS = TableTopic("rows", int)
OUT, MORE, EVENTS = TableTopic("out", int), TableTopic("more", int), Topic("third", int)
THIRD, BEFORE = TableTopic("third-rows", int), TableTopic("before-rows", int)
NAMES = ["a", "b", "c", "rows", "out", "more", "third", "third-rows", "before-rows"]
COUNTS: dict[str, int] = dict.fromkeys(NAMES, 2)


def name_of(value: int) -> str:
    return f"{value}"


def positive(value: int) -> bool:
    return value > 0


def first(app: App) -> None:
    app.stream(A).group_by("by-name", name_of).count("counts").to(OUT)


def second(app: App) -> None:
    app.stream(B).filter(positive).repartition("again").sum("sums", int).to(MORE)


def built(*statements: Callable[[App], None], settings: Settings | None = None) -> App:
    app = App("shop", settings)
    for statement in statements:
        statement(app)
    return app


def started(app: App) -> Manifest:
    return make_manifest(app.build(), COUNTS)


def next_one(app: App, known: Manifest) -> Manifest:
    """The manifest of a later start of an app, as a new generation if it changed."""
    topology = identified(app.build(), known)
    made = make_manifest(topology, COUNTS, known.generation + 1, known.internal_partitions)
    return continued(made, known)


def parts(manifest: Manifest) -> dict[str, dict[int, set[str]]]:
    """The labels of each subtopology, by component and number."""
    return {
        id: {sub.number: {manifest.nodes[node].label for node in sub.nodes} for sub in entry.subtopologies}
        for id, entry in manifest.components.items()
    }


def test_swapped_statements_are_the_same_app_with_the_same_tasks() -> None:
    known = started(built(first, second))
    after = next_one(built(second, first), known)
    assert is_same_app(after, known)
    assert (after.generation, parts(after)) == (1, parts(known))


def upstream(app: App) -> None:
    """A store before the ones that there were, in the component of `first`."""
    app.stream(A).count("before").to(BEFORE)
    first(app)


def test_a_store_added_upstream_changes_neither_ids_nor_numbers() -> None:
    known = started(built(first, second))
    after = next_one(built(upstream, second), known)
    assert unchanged_components(after, known) == {"again"}
    assert {id: set(subs) for id, subs in parts(after).items()} == {"by-name": {0, 1}, "again": {0, 1}}
    assert {id: entry.generation for id, entry in after.components.items()} == {"by-name": 2, "again": 1}
    assert after.generation == 2


def beside(app: App) -> None:
    app.stream(C).count("beside").to(THIRD)


@pytest.mark.parametrize("statements", [(beside, first, second), (first, second, beside)])
def test_a_component_that_is_added_leaves_the_others_alone(
    statements: tuple[Callable[[App], None], ...],
) -> None:
    known = started(built(first, second))
    after = next_one(built(*statements), known)
    assert unchanged_components(after, known) == {"by-name", "again"}
    assert {id: entry.generation for id, entry in after.components.items()} == {
        "by-name": 1,
        "again": 1,
        "beside": 2,
    }
    assert after.stores["beside"].changelog == "shop-beside.g2-changelog"
    assert after.stores["counts"] == known.stores["counts"]
    assert after.internal == known.internal


def test_a_component_that_is_removed_leaves_the_others_alone() -> None:
    known = started(built(first, second))
    after = next_one(built(second), known)
    assert parts(after) == {"again": parts(known)["again"]}
    assert not is_same_app(after, known)


KEPT = stores.key_value("kept", int).carried()


def step(record: Record[str, int], ctx: Context[str, int]) -> None:
    ctx.forward(record)


def stepping(name: str) -> App:
    app = App("shop")
    again = app.stream(A).group_by("by-name", name_of).process(name, step, stores=[KEPT])
    again.repartition("again").count("counts").to(OUT)
    return app


def test_a_changed_component_gets_new_topics_and_keeps_carried_stores() -> None:
    known = started(stepping("one"))
    after = next_one(stepping("two"), known)
    assert after.internal == {
        "by-name": "shop-by-name.g2-repartition",
        "again": "shop-again.g2-repartition",
    }
    assert after.stores["counts"].changelog == "shop-counts.g2-changelog"
    assert (after.stores["kept"].changelog, after.stores["kept"].born) == ("shop-kept-changelog", 1)
    again = next_one(stepping("two"), after)
    assert replace(again, nodes=[]) == replace(after, nodes=[]), "the same code is the same generation"


def test_a_third_generation_keeps_the_names_of_the_second() -> None:
    known = started(built(first, second))
    second_generation = next_one(built(upstream, second), known)
    third = next_one(built(upstream, second, beside), second_generation)
    assert third.internal == second_generation.internal
    assert third.internal["by-name"] == "shop-by-name.g2-repartition"
    assert third.components["again"].generation == 1
    assert third.components["beside"].generation == 3


def test_two_components_may_have_things_of_one_name() -> None:
    app = App("shop")
    app.stream(A).to(EVENTS)
    app.stream(B).count("a").to(MORE)
    known = started(app)
    assert set(known.components) == {"a", "a-2"}
    swapped = App("shop")
    swapped.stream(B).count("a").to(MORE)
    swapped.stream(A).to(EVENTS)
    after = next_one(swapped, known)
    assert (is_same_app(after, known), parts(after)) == (True, parts(known))


# --- what counts in a digest ----------------------------------------------------------------------------


def two_branches(app: App, *, table_first: bool) -> None:
    """The order of two statements decides whether a record finds the row that it changes itself."""
    stream = app.stream(A)
    if table_first:
        counted = stream.filter(positive).count("counts")
        joined = stream.map(abs)
    else:
        joined = stream.map(abs)
        counted = stream.filter(positive).count("counts")
    joined.join(counted, max).to(EVENTS)


def test_the_order_of_steps_counts_where_what_they_do_meets_again() -> None:
    known = started(built(lambda app: two_branches(app, table_first=True)))
    after = next_one(built(lambda app: two_branches(app, table_first=False)), known)
    assert not is_same_app(after, known)


def test_the_order_of_steps_does_not_count_where_they_have_nothing_in_common() -> None:
    def apart(app: App, *, swapped: bool) -> None:
        stream = app.stream(A)

        def counts() -> None:
            stream.count("counts").to(OUT)

        def sums() -> None:
            stream.sum("sums", int).to(MORE)

        for branch in (sums, counts) if swapped else (counts, sums):
            branch()

    known = started(built(lambda app: apart(app, swapped=False)))
    assert is_same_app(next_one(built(lambda app: apart(app, swapped=True)), known), known)


class Config(Settings):
    least: int = 0


def windowed(retention: int) -> Callable[[App], None]:
    def declare(app: App) -> None:
        window = stores.window("recent", int, size=10, retention=retention)
        app.stream(A).process("step", step, stores=[window]).to(EVENTS)

    return declare


def counted(source: Topic[str, int] = A, sink: TableTopic[str, int] = OUT, **options: Any) -> App:
    app = App("shop")
    partitions = options.pop("partitions", None)
    app.stream(source, **options).group_by("by-name", name_of, partitions=partitions).count("counts").to(sink)
    return app


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (counted(), counted(sink=MORE)),
        (counted(), counted(B)),
        (counted(), counted(on_error="skip")),
        (counted(), counted(partitions=5)),
        (built(first, settings=Config()), built(first, settings=Config(least=1))),
        (built(windowed(100)), built(windowed(200))),
    ],
    ids=["sink", "source", "error policy", "partitions", "setting", "retention"],
)
def test_what_decides_about_results_counts(before: App, after: App) -> None:
    known = started(before)
    assert is_same_app(next_one(before, known), known)
    assert not is_same_app(next_one(after, known), known)


def test_how_much_a_gate_may_hold_does_not_count() -> None:
    def gated(most: int) -> App:
        app = App("shop")
        app.stream(A).gate("door", max_held=most).count("counts").to(OUT)
        return app

    partitions = {node.topic.name: 2 for node in gated(1).build().nodes.values() if node.topic}
    known = make_manifest(gated(10).build(), partitions)
    topology = identified(gated(20).build(), known)
    assert is_same_app(make_manifest(topology, partitions, 2, known.internal_partitions), known)
    assert any(node.kind == NodeKind.GATE for node in known.nodes)
