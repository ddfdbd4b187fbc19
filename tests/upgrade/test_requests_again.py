"""Requests to a model in an upgrade that changes its fold: refused and unchanged ones, and duplicates."""

from __future__ import annotations

from typing import Any

import pytest
from tests.upgrade.test_model_publication import STATE, app, first

from tidegate.testing import Driver


def without_noise(state: STATE, diff: STATE) -> STATE:
    return {**state, **{key: value for key, value in diff.items() if key != "noise"}}


def strict(state: STATE, diff: STATE) -> STATE:
    """Refuses what `first` accepts."""
    if "odd" in diff:
        raise ValueError("odd")
    return {**state, **diff}


def added(state: STATE, diff: STATE) -> STATE:
    return {**state, **{key: state.get(key, 0) + value for key, value in diff.items()}}


def doubled(state: STATE, diff: STATE) -> STATE:
    return {**state, **{key: state.get(key, 0) + 2 * value for key, value in diff.items()}}


def code_of(d: Driver, request: str, id: str = "w") -> str:
    found = d.model("m").outcome(id, request)
    assert found is not None
    return found.code


def created(reducer: Any) -> Driver:
    d = Driver(app("shop", reducer), partitions=2)
    d.run()
    d.model("m").create("w", {"a": 1})
    d.run()
    return d


def test_a_request_that_changed_nothing_counts_in_a_fold_that_uses_it() -> None:
    """It found the version that it expects, and the client was answered so."""
    with created(without_noise) as d:
        model = d.model("m")
        token = model.token("w")
        request = model.append("w", {"noise": 5}, expect=token)
        d.run()
        late = model.append("w", {"late": 1}, expect=token)
        d.run()
        lost = model.append("w", {"lost": 1}, expect=token)
        d.run()
        assert [code_of(d, one) for one in (request, late, lost)] == [
            "unchanged",
            "appended",
            "other-version",
        ]
        d.upgrade(app("shop", first))
        d.run()
        assert d.model("m").state("w") == {"a": 1, "noise": 5, "late": 1}
        assert code_of(d, request) == "unchanged", "what a client was answered does not change"


@pytest.mark.parametrize("expects", [False, True])
def test_a_request_that_was_refused_is_decided_again_unless_it_names_a_version(expects: bool) -> None:
    with created(strict) as d:
        model = d.model("m")
        request = model.append("w", {"odd": 3}, expect=model.token("w") if expects else None)
        d.run()
        assert (code_of(d, request), model.state("w")) == ("reducer-failed", {"a": 1})
        d.upgrade(app("shop", first))
        d.run()
        assert d.model("m").state("w") == ({"a": 1} if expects else {"a": 1, "odd": 3})
        assert code_of(d, request) == "reducer-failed", "what a client was answered does not change"


@pytest.mark.parametrize("expects", [False, True])
def test_a_request_that_was_accepted_is_refused_by_a_fold_that_fails(expects: bool) -> None:
    with created(first) as d:
        model = d.model("m")
        request = model.append("w", {"odd": 3}, expect=model.token("w") if expects else None)
        d.run()
        before = model.row("w")
        assert (code_of(d, request), model.state("w")) == ("appended", {"a": 1, "odd": 3})
        d.upgrade(app("shop", strict))
        d.run()
        after = d.model("m").row("w")
        assert (d.model("m").state("w"), after.sequence) == ({"a": 1}, before.sequence + 1)
        assert code_of(d, request) == "appended"


@pytest.mark.parametrize("expects", [False, True])
def test_a_request_that_was_sent_twice_counts_once(expects: bool) -> None:
    with created(added) as d:
        model = d.model("m")
        token = model.token("w") if expects else None
        for _ in range(2):
            model.append("w", {"n": 3}, expect=token, request="r1")
        d.run()
        model.append("w", {"n": 3}, expect=token, request="r1")
        d.run()
        assert model.state("w") == {"a": 1, "n": 3}
        d.upgrade(app("shop", doubled))
        d.run()
        assert d.model("m").state("w") == {"a": 2, "n": 6}
        d.model("m").append("w", {"n": 3}, expect=token, request="r1")
        d.run()
        assert d.model("m").state("w") == {"a": 2, "n": 6}, "also after the upgrade"
