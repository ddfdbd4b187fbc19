"""Components that write to one table topic are recalculated together."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from tests.changes.versions import first, second, verdicts

from tidegate import App, TableTopic, Topic
from tidegate.changes.changes import Changes
from tidegate.changes.compare import compare
from tidegate.changes.summary import clauses
from tidegate.topology.code import CodeEntry
from tidegate.topology.generations import is_same_app, unchanged_components
from tidegate.topology.manifest import Manifest
from tidegate.topology.shared_tables import Sharing, shared_tables

A, B, C, D = (Topic(name, int) for name in "abcd")
LEFT, RIGHT, OWN = (TableTopic(name, int) for name in ("left", "right", "own"))
EVENTS = Topic("events", int)
Statement = Callable[[App], None]


def one(app: App) -> None:
    app.stream(A).sum("one", int).to(LEFT)


def one_filtered(app: App) -> None:
    app.stream(A).filter(bool).sum("one", int).to(LEFT)


def two(app: App) -> None:
    counted = app.stream(B).count("two")
    counted.to(LEFT)
    counted.to(RIGHT)


def three(app: App) -> None:
    """Rows that come from a stream."""
    app.stream(C).repartition("three").to(RIGHT)


def apart(app: App) -> None:
    app.stream(D).count("apart").to(OWN)


def built(*statements: Statement) -> App:
    app = App("shop")
    for statement in statements:
        statement(app)
    return app


def between(before: App, after: App) -> tuple[Manifest, Manifest, Changes]:
    known = first(before)
    made = second(after, known)
    return known, made, compare(known, made, CodeEntry(), CodeEntry())


def reasons(changes: Changes, id: str) -> list[str]:
    return [reason.what for reason in changes.component(id).reasons]


def test_components_that_share_a_table_topic_are_recalculated_with_a_changed_one() -> None:
    known, made, changes = between(built(one, two, three, apart), built(one_filtered, two, three, apart))
    assert verdicts(changes) == {"one": "changed", "two": "changed", "three": "changed", "apart": "kept"}
    assert unchanged_components(made, known) == {"apart"}
    generations = {id: component.generation for id, component in made.components.items()}
    assert generations == {"one": 2, "two": 2, "three": 2, "apart": 1}
    assert reasons(changes, "two") == ["it writes rows to left, as one does, which changed"]
    assert reasons(changes, "three") == ["it writes rows to right, as two does, which is recalculated"]
    assert not any("writes rows" in clause for clause in clauses(changes)), "a refusal lists causes only"


@pytest.mark.parametrize(
    ("before", "after", "verdict", "text"),
    [((two,), (one, two), "new", "is new"), ((one, two), (two,), "gone", "is gone")],
)
def test_a_new_or_removed_component_is_a_reason_too(
    before: tuple[Statement, ...], after: tuple[Statement, ...], verdict: str, text: str
) -> None:
    known, made, changes = between(built(*before), built(*after))
    assert verdicts(changes) == {"one": verdict, "two": "changed"}
    assert reasons(changes, "two") == [f"it writes rows to left, as one does, which {text}"]
    assert unchanged_components(made, known) == set()
    assert shared_tables({"two"}, made, known) == {"two": Sharing("left", "one", verdict)}  # type: ignore[arg-type]


def test_events_in_one_topic_are_no_reason() -> None:
    def mails(app: App) -> None:
        app.stream(A).sum("one", int).to(LEFT)
        app.stream(B).repartition("mails").to(EVENTS)

    def more(app: App) -> None:
        app.stream(C).repartition("more").filter(bool).to(EVENTS)

    known, made, changes = between(built(mails, more), built(mails))
    assert verdicts(changes) == {"one": "kept", "mails": "kept", "more": "gone"}
    assert unchanged_components(made, known) == {"one", "mails"}


def test_an_app_that_did_not_change_keeps_what_shares_a_table_topic() -> None:
    known, made, changes = between(built(one, two, three), built(three, two, one))
    assert changes.nothing
    assert is_same_app(made, known)


def test_a_manifest_that_does_not_record_which_sinks_hold_rows_is_sufficient() -> None:
    known = first(built(one, two, apart))
    older = replace(known, nodes=[replace(node, rows=False) for node in known.nodes])
    assert older != known
    made = second(built(two, apart), older)
    assert unchanged_components(made, older) == {"apart"}
    assert is_same_app(second(built(one, two, apart), older), older)
