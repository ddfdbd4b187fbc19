"""How a topology is cut: subtopologies, components, their ids, order and inputs."""

from __future__ import annotations

from tidegate import App, Record, TableTopic, Topic, stores
from tidegate.topology.graph import Topology

IN, MORE, OUT = (Topic(name, int) for name in ("in", "more", "out"))
ROWS, TOTALS = TableTopic("rows", int), TableTopic("totals", int)
SHARED = stores.key_value("shared", int)


def step(record: Record[str, int], ctx: object) -> None:
    """Does nothing."""


def name_of(value: int) -> str:
    return f"{value}"


def labels(topology: Topology) -> dict[str, list[list[str]]]:
    return {
        component.id: [[topology.nodes[node].label for node in sub.nodes] for sub in component.subtopologies]
        for component in topology.components
    }


def inputs(topology: Topology) -> list[list[str]]:
    return [[topology.nodes[node].label for node in sub.inputs] for sub in topology.subtopologies()]


def test_steps_without_an_internal_topic_are_one_subtopology() -> None:
    app = App("graph")
    app.stream(IN).map(name_of).filter(bool).map(int).to(OUT)
    assert labels(app.build()) == {"in": [['source "in"', "map", "filter", "map", 'sink "out"']]}


def test_a_repartition_ends_a_subtopology_and_begins_the_one_that_reads_it() -> None:
    app = App("graph")
    app.stream(IN).group_by("by-name", name_of).count("counts").to(TOTALS)
    topology = app.build()
    assert labels(topology) == {
        "by-name": [
            ['source "in"', "select_key"],
            ['repartition "by-name"', 'aggregate "counts"', 'table sink "totals"'],
        ]
    }
    assert inputs(topology) == [['source "in"'], ['repartition "by-name"']]


def test_a_table_group_by_ends_a_subtopology() -> None:
    app = App("graph")
    app.table(ROWS).group_by("by-name", name_of).count("counts").to(TOTALS)
    assert inputs(app.build()) == [['table "rows"'], ['table group_by "by-name"']]


def test_parts_that_share_nothing_are_components_of_their_own() -> None:
    app = App("graph")
    app.stream(IN).count("counts").to(TOTALS)
    app.stream(MORE).to(OUT)
    assert [component.id for component in app.build().components] == ["counts", "more"]


def test_a_shared_store_makes_one_subtopology_and_one_component() -> None:
    app = App("graph")
    app.stream(IN).process("one", step, stores=[SHARED])
    app.stream(MORE).process("two", step, stores=[SHARED])
    topology = app.build()
    (component,) = topology.components
    assert component.id == "shared"
    assert inputs(topology) == [['source "in"', 'source "more"']]


def test_a_join_brings_both_sides_into_one_subtopology() -> None:
    app = App("graph")
    app.stream(IN).repartition("again").join(app.table(ROWS), lambda one, two: one + two).to(OUT)
    assert inputs(app.build()) == [['source "in"'], ['repartition "again"', 'table "rows"']]


def test_a_subtopology_comes_after_those_that_it_reads_from() -> None:
    app = App("graph")
    table = app.table(ROWS)
    moved = app.stream(IN).repartition("first").map(lambda value: value).merge(app.stream(MORE))
    moved.select_key(name_of).map(int).repartition("second").join(table, lambda one, two: one + two).to(OUT)
    topology = app.build()
    assert inputs(topology) == [
        ['source "in"'],
        ['repartition "first"', 'source "more"'],
        ['table "rows"', 'repartition "second"'],
    ]
    order = [node for sub in topology.subtopologies() for node in sub.nodes]
    for node in topology.nodes.values():
        if node.name in ("first", "second"):
            assert order.index(node.parents[0]) < order.index(node.id)


def test_a_component_is_named_by_its_first_durable_name_and_else_by_its_source() -> None:
    app = App("graph")
    stream = app.stream(IN)
    stream.process("first", step)
    stream.count("counts").to(TOTALS)
    assert [component.id for component in app.build().components] == ["first"]


def test_the_id_of_a_component_does_not_change_when_another_is_added_before_it() -> None:
    alone, beside = App("graph"), App("graph")
    beside.stream(MORE).to(OUT)
    for app in (alone, beside):
        app.stream(IN).count("counts").to(TOTALS)
    ids = [[component.id for component in app.build().components] for app in (alone, beside)]
    assert ids == [["counts"], ["more", "counts"]]


def test_one_source_may_be_used_many_times() -> None:
    app = App("graph")
    app.stream(IN).to(OUT)
    app.stream(IN).count("counts").to(TOTALS)
    topology = app.build()
    assert inputs(topology) == [['source "in"']]
    (source,) = [node for node in topology.nodes.values() if node.label == 'source "in"']
    assert [child.label for child in topology.children(source.id)] == ['sink "out"', 'aggregate "counts"']
