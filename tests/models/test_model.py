"""A model in a task: versions, lives, requests, bad states, and what is left after crashes."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
import pytest
from tests.models.app import EVENTS, Closed, Event, Started, StepDone, Workflow, reducer, workflows
from tests.models.checks import assert_rows_are_the_fold

from tidegate import App, TableTopic, Topic
from tidegate.errors import ConfigError, SerdeError, TopologyError, UserCodeError
from tidegate.models.patch import apply
from tidegate.testing import Commit, Driver, ModelView, check_reducer


def test_the_state_is_the_fold_of_the_diffs_and_each_version_is_an_event(model: ModelView) -> None:
    assert model.state("w1") == Workflow("Ship", {"pack": 1.5})
    events = model.events("w1")
    assert [(one.kind, one.sequence, one.life) for one in events] == [("created", 1, 1), ("changed", 2, 1)]
    assert events[1].previous == events[0].hash != ""
    assert events[1].patch == {"*": {"steps": {"=": {"pack": 1.5}}}}
    assert events[1].origin.startswith("workflow-events")
    assert model.token("w1").startswith(f"1-2-{events[1].hash}-")


def test_the_first_frame_is_one_patch_from_the_version_that_a_client_holds(
    d: Driver, model: ModelView
) -> None:
    held, state = model.token("w1"), model.since("w1").state
    assert model.since("w1", held).patch == {}
    d.send(EVENTS, "w1", *(StepDone(f"s{n}", float(n)) for n in range(300)), Started("Ship it"))
    d.run()
    frame = model.since("w1", held)
    assert (frame.kind, frame.came_from, frame.token) == ("patch", held, model.token("w1"))
    assert apply(state, frame.patch) == msgspec.to_builtins(model.state("w1"))  # type: ignore[arg-type]


def test_a_diff_that_changes_nothing_makes_no_version(d: Driver, model: ModelView) -> None:
    before = model.rows()
    d.send(EVENTS, "w1", Started("Ship"))
    d.run()
    assert model.rows() == before
    assert len(model.events("w1")) == 2


def test_a_removed_id_leaves_gone_and_has_another_life_when_it_is_created_again(
    d: Driver, model: ModelView
) -> None:
    held = model.token("w1")
    d.send(EVENTS, "w1", Closed())
    d.run()
    gone = model.since("w1", held)
    assert (gone.kind, gone.digest, model.state("w1")) == ("gone", None, None)
    d.send(EVENTS, "w1", Started("Again"))
    d.run()
    for token in (held, gone.token):
        frame = model.since("w1", token)
        assert (frame.kind, frame.state) == ("state", {"title": "Again", "steps": {}})
    assert [one.kind for one in model.events("w1")] == ["created", "changed", "gone", "created"]
    assert model.row("w1").life == 2


def test_a_deleted_row_of_a_table_topic_removes_the_id() -> None:
    notes = TableTopic("notes", str)
    app = App("notes")

    @app.model("texts", source=notes, initial=str)
    def texts(state: str, text: str) -> str:
        return state + text

    with Driver(app) as d:
        d.send(notes, "n1", "a", "b", None)
        d.send(notes, "n2", "c")
        d.run()
        model = d.model("texts")
        assert (model.state("n1"), model.state("n2")) == (None, "c")
        assert model.row("n1").sequence == 3


def test_a_removal_of_what_does_not_exist_is_no_version(d: Driver) -> None:
    d.send(EVENTS, "w2", Closed())
    d.run()
    assert d.model("workflows").rows() == {}


@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
def test_a_reducer_that_raises_leaves_the_version_as_it_was(policy: Any) -> None:
    with Driver(workflows(on_error=policy)) as d:
        d.send(EVENTS, "w1", Started("Ship"), StepDone("pack", -1.0), StepDone("send", 2.0))
        d.run()
        model = d.model("workflows")
        assert model.state("w1") == Workflow("Ship", {"send": 2.0})
        assert [one.sequence for one in model.events("w1")] == [1, 2]
        assert len(d.dead_letters()) == (policy == "dead-letter")
        d.assert_stores_match_changelogs()


def test_a_reducer_that_raises_stops_the_app_by_default(d: Driver) -> None:
    d.send(EVENTS, "w1", StepDone("pack", -1.0))
    with pytest.raises(UserCodeError, match="back in time"):
        d.run()


def test_a_state_that_is_too_large_is_a_dead_letter_whatever_the_policy_is() -> None:
    with Driver(workflows(max_state=100)) as d:
        d.send(EVENTS, "w1", Started("Ship"), Started("x" * 100), StepDone("pack", 1.0))
        d.run()
        assert d.model("workflows").state("w1") == Workflow("Ship", {"pack": 1.0})
        [letter] = d.dead_letters()
        assert any(b"state-too-large" in (value or b"") for _, value in letter.headers)


def test_a_model_needs_no_source() -> None:
    app = App("notes")

    @app.model("notes", initial=dict, partitions=3)
    def notes(state: dict[str, Any], diff: dict[str, Any]) -> dict[str, Any]:
        return {**state, **diff}

    with Driver(app) as d:
        model = d.model("notes")
        model.create("n1", {"a": [1, {"b": None}]})
        model.append("n1", {"c": 1.0})
        d.run()
        assert model.state("n1") == {"a": [1, {"b": None}], "c": 1.0}
        assert d.log.describe("notes-notes-requests").partitions == 3
        assert notes({}, {"a": 1}) == {"a": 1}


@pytest.mark.parametrize(
    ("diff", "why"),
    [({"n": 2**53}, "2^53"), ({"n": [-(2**53)]}, "2^53"), ({"deep": None}, "levels")],
    ids=["integer", "negative integer", "depth"],
)
def test_a_state_that_javascript_cannot_hold_is_refused(diff: dict[str, Any], why: str) -> None:
    if "deep" in diff:
        for _ in range(200):
            diff = {"deep": diff}
    app = App("notes")
    app.model("notes", initial=dict)(_merged)
    with Driver(app) as d:
        model = d.model("notes")
        request = model.create("n1", diff)
        d.run()
        found = model.outcome("n1", request)
        assert found is not None
        assert found.code == "bad-state"
        assert why in found.message


def _merged(state: dict[str, Any], diff: dict[str, Any]) -> dict[str, Any]:
    return {**state, **diff}


def test_not_a_number_is_refused() -> None:
    source = Topic("numbers", str)
    app = App("numbers")

    @app.model("numbers", source=source, initial=float, on_error="dead-letter")
    def numbers(state: float, text: str) -> float:
        return float(text)

    with Driver(app) as d:
        d.send(source, "n", "1.5", "nan", "inf", "-0.0")
        d.run()
        assert str(d.model("numbers").state("n")) == "-0.0"
        assert len(d.dead_letters()) == 2


def test_a_reducer_that_changes_its_argument_is_found_out() -> None:
    app = App("notes")

    @app.model("notes", initial=dict)
    def notes(state: dict[str, Any], diff: dict[str, Any]) -> dict[str, Any]:
        state.update(diff)
        return state

    with Driver(app) as d:
        d.model("notes").create("n1", {"a": 1})
        with pytest.raises(UserCodeError, match=r"impure-reducer.* notes changed its argument"):
            d.run()


def test_the_laws_of_a_reducer_can_be_checked() -> None:
    assert check_reducer(reducer, Workflow(), [Started("Ship"), StepDone("pack", 1.0)]) == Workflow(
        "Ship", {"pack": 1.0}
    )
    calls = count()
    with pytest.raises(UserCodeError, match="another state for the same arguments"):
        check_reducer(lambda _, diff: [next(calls), diff], [0], [1])


def test_a_hash_of_ones_own() -> None:
    def lengths(state: Workflow, before: str, diff: Event) -> str:
        return f"{before}.{len(state.title)}"

    with Driver(workflows(hash=lengths)) as d:
        d.send(EVENTS, "w1", Started("Ship"), Started("Ship it"))
        d.run()
        assert [one.hash for one in d.model("workflows").events("w1")] == [".0", ".0.4"]


def test_a_hash_that_cannot_be_part_of_a_token_is_refused() -> None:
    with Driver(workflows(hash=lambda _, before, __: before + "/")) as d:
        d.send(EVENTS, "w1", Started("Ship"))
        with pytest.raises(UserCodeError, match="bad-hash"):
            d.run()


@pytest.mark.parametrize("id", ["w" * 513, "", "w\0"])
def test_an_id_that_clients_cannot_name_is_refused(d: Driver, id: str) -> None:
    d.send(EVENTS, id, Started("Ship"))
    with pytest.raises(SerdeError, match="bad-id"):
        d.run()


def test_a_model_that_does_not_exist(d: Driver) -> None:
    with pytest.raises(ConfigError, match=r"no-such-model.* it has: workflows"):
        d.model("nothing")


def test_a_derived_stream_may_be_the_source() -> None:
    app = App("workflows")
    stream = app.stream(EVENTS).filter(lambda event: isinstance(event, Started))
    app.model("titles", source=stream, initial=Workflow)(reducer)
    with Driver(app) as d:
        d.send(EVENTS, "w1", Started("Ship"), StepDone("pack", 1.0))
        d.run()
        assert d.model("titles").state("w1") == Workflow("Ship")


def test_rows_are_the_fold_of_the_events_after_a_crash_at_each_step() -> None:
    """And no version twice or left out."""
    for step in Commit:
        for elsewhere in (False, True):
            with Driver(workflows(on_error="skip"), partitions=2) as d:
                d.send(EVENTS, "w1", Started("Ship"), StepDone("pack", -1.0), StepDone("pack", 1.0))
                d.run()
                d.send(EVENTS, "w1", StepDone("send", 2.0))
                d.model("workflows").append("w2", {}, request="bad")
                d.model("workflows").create("w2", {"type": "started", "title": "Second"}, request="good")
                d.send(EVENTS, "w1", Closed())
                d.send(EVENTS, "w1", Started("Again"))
                d.crash(at=step, elsewhere=elsewhere)
                d.run()
                model = d.model("workflows")
                assert_rows_are_the_fold(model)
                assert [(one.life, one.sequence) for one in model.events("w1")] == [
                    (1, 1),
                    (1, 2),
                    (1, 3),
                    (1, 4),
                    (2, 1),
                ]
                d.assert_stores_match_changelogs()


def test_rows_do_not_depend_on_commits() -> None:
    rows = []
    for size in (1, 3, 100):
        with Driver(workflows()) as d:
            events = [StepDone(f"s{n % 7}", float(n)) for n in range(100)]
            for start in range(0, 100, size):
                d.send(EVENTS, "w1", *events[start : start + size])
                d.run()
            rows.append(d.model("workflows").rows())
    assert rows[0] == rows[1] == rows[2]


@pytest.mark.parametrize("name", ["gates", "streams", "ui", "a/b", ""])
def test_a_name_that_the_server_cannot_serve_is_refused(name: str) -> None:
    with pytest.raises(TopologyError, match=r"reserved-name|illegal-name"):
        App("a").model(name, initial=dict)(_merged)


def test_mistakes_are_reported_where_they_are_made() -> None:
    numbers = Topic("numbers", dict[str, int], key=int)
    with pytest.raises(TopologyError, match="wrong-key-type"):
        App("a").model("notes", source=numbers, initial=dict)(_merged)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="bad-option"):
        App("a").model("notes", initial=dict, max_state=0)(_merged)
    with pytest.raises(TopologyError, match="bad-option"):
        App("a").model("workflows", source=EVENTS, initial=Workflow, partitions=3)(reducer)
    with pytest.raises(TopologyError, match="wrong-parameters"):
        App("a").model("notes", initial=dict)(_merged_wrong)  # type: ignore[type-var]
    app = App("a")
    with pytest.raises(TopologyError, match="not-where-its-key-belongs"):
        app.model("w", source=app.stream(EVENTS).select_key(lambda _: "x"), initial=Workflow)(reducer)


def _merged_wrong(state: dict[str, Any]) -> dict[str, Any]:
    return state
