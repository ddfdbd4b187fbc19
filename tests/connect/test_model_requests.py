"""Requests to a model through `connect()`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.models.app import StepDone, Workflow, workflows

from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.connect.model_requests import ModelRequester, content_digest
from tidegate.errors import LogError, SerdeError
from tidegate.testing import Driver


@pytest.fixture
def d() -> Any:
    with Driver(workflows(), partitions=2) as made:
        yield made


@pytest.fixture
def requests(d: Driver) -> ModelRequester:
    d.run()
    return Connection(d.log, clock=SystemClock(), owned=False).model("workflows", "workflows")


def test_ids_are_created_changed_and_deleted(d: Driver, requests: ModelRequester) -> None:
    model = d.model("workflows")
    sent = [requests.create("w1", {"type": "started", "title": "Ship"})]
    sent.append(requests.append("w1", StepDone("pack", 1.5)))
    d.run()
    assert model.state("w1") == Workflow("Ship", {"pack": 1.5})
    sent.append(requests.append("w1", StepDone("pack", 2.0), expect="1-1-x-00000000"))
    sent.append(requests.delete("w1", expect=model.token("w1")))
    d.run()
    outcomes = [model.outcome("w1", one) for one in sent]
    assert [one and one.code for one in outcomes] == ["created", "appended", "other-version", "deleted"]
    assert len(set(sent)) == 4


def test_a_request_that_is_sent_again_has_one_effect(d: Driver, requests: ModelRequester) -> None:
    for _ in range(2):
        assert requests.create("w1", request="same") == "same"
        requests.append("w1", msgspec.Raw(b'{"type":"started","title":"Ship"}'), request="same too")
    d.run()
    assert d.model("workflows").row("w1").sequence == 2


def test_an_app_that_never_ran_has_no_requests_topic(d: Driver) -> None:
    with pytest.raises(LogError) as error:
        Connection(d.log, clock=SystemClock(), owned=False).model("others", "workflows")
    assert error.value.code == "no-such-topic"


@pytest.mark.parametrize("id", ["", "x" * 513, "é" * 257, "\ud800"])
def test_a_bad_id_is_refused(requests: ModelRequester, id: str) -> None:
    with pytest.raises(SerdeError) as error:
        requests.create(id)
    assert error.value.code == "bad-id"


@pytest.mark.parametrize("diff", [object(), msgspec.Raw(b"{"), msgspec.Raw(b"1e999"), {1j: 2}])
def test_a_diff_that_is_not_json_is_refused(requests: ModelRequester, diff: Any) -> None:
    with pytest.raises(SerdeError) as error:
        requests.append("w1", diff)
    assert error.value.code == "bad-diff"


def test_the_digest_is_of_the_content() -> None:
    digests = {
        content_digest(kind, msgspec.Raw(diff), expect)
        for kind in ("create", "append")
        for diff in (b'{"a":1,"b":2}', b'{"b": 2, "a": 1}', b'{"a":1.0,"b":2}')
        for expect in (None, "1-1-x-00000000")
    }
    assert len(digests) == 8
