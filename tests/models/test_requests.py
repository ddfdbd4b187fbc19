"""Requests to a model: what becomes of them lies in the row, so it holds across servers and crashes."""

from __future__ import annotations

import pytest
from tests.models.app import Workflow

from tidegate.testing import Driver, ModelView


def test_requests_create_append_and_delete(d: Driver) -> None:
    model = d.model("workflows")
    created = model.create("w1", {"type": "started", "title": "Ship"})
    appended = model.append("w1", {"type": "step-done", "step": "pack", "seconds": 1})
    d.run()
    assert model.state("w1") == Workflow("Ship", {"pack": 1.0})
    assert _codes(model, "w1", created, appended) == ["created", "appended"]
    deleted = model.delete("w1", expect=model.token("w1"))
    d.run()
    assert _codes(model, "w1", deleted) == ["deleted"]
    assert model.since("w1").kind == "gone"


def test_an_id_can_be_created_without_a_diff(d: Driver) -> None:
    model = d.model("workflows")
    model.create("w1")
    d.run()
    assert model.state("w1") == Workflow()
    assert model.row("w1").sequence == 1


def test_what_a_request_cannot_do_is_its_outcome(d: Driver, model: ModelView) -> None:
    before = model.token("w1")
    refused = {
        "id-exists": model.create("w1"),
        "bad-diff": model.append("w1", {"type": "nonsense"}),
        "reducer-failed": model.append("w1", {"type": "step-done", "step": "pack", "seconds": -1}),
        "other-version": model.append("w1", {"type": "started", "title": "x"}, expect="1-1-x-00000000"),
    }
    missing = model.append("w9", {"type": "started", "title": "x"})
    d.run()
    assert _codes(model, "w1", *refused.values()) == list(refused)
    assert model.token("w1") == before == model.outcome("w1", refused["bad-diff"]).token  # type: ignore[union-attr]
    assert _codes(model, "w9", missing) == ["no-such-id"]
    assert (model.state("w9"), model.since("w9").kind) == (None, "gone")
    assert d.dead_letters() == []


def test_a_request_that_comes_again_has_one_effect(d: Driver, model: ModelView) -> None:
    diff = {"type": "step-done", "step": "pack", "seconds": 9}
    for _ in range(3):
        model.append("w1", diff, request="same")
    d.run()
    model.append("w1", diff, request="same")
    d.run()
    assert model.row("w1").sequence == 3
    assert [one.request for one in model.row("w1").outcomes] == ["same"]


def test_of_two_writers_with_one_expectation_exactly_one_wins(d: Driver, model: ModelView) -> None:
    held = model.token("w1")
    requests = [
        model.append("w1", {"type": "started", "title": title}, expect=held) for title in ("first", "second")
    ]
    d.run()
    assert _codes(model, "w1", *requests) == ["appended", "other-version"]
    assert model.state("w1").title == "first"
    assert model.outcome("w1", requests[1]).token == model.token("w1")  # type: ignore[union-attr]


def test_the_last_64_outcomes_are_remembered(d: Driver, model: ModelView) -> None:
    for number in range(70):
        model.append("w1", {"type": "started", "title": "Ship"}, request=str(number))
    d.run()
    assert [one.request for one in model.row("w1").outcomes] == [str(number) for number in range(6, 70)]
    assert model.row("w1").sequence == 2


@pytest.mark.parametrize(
    "value", [None, b"", b"{", b'{"kind":"append"}', b'{"kind":"create","request":"1","version":9}']
)
def test_a_record_that_is_no_request_becomes_a_dead_letter(
    d: Driver, model: ModelView, value: bytes | None
) -> None:
    model.write("w1", value)
    d.run()
    assert len(d.dead_letters()) == 1
    assert model.row("w1").sequence == 2


def _codes(model: ModelView, id: str, *requests: str) -> list[str]:
    return [found.code if (found := model.outcome(id, one)) else "" for one in requests]
