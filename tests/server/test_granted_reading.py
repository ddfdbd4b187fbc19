"""A browser with a grant: it reads one id in every way there is, and nothing else, until the grant ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.app import EVENTS, Started, Workflow, reducer, workflows
from tests.server.conftest import Client, Serve
from tests.server.model_streams import events_of, following, one_frame
from tests.waiting import wait_for

from tidegate import App
from tidegate.config.config import Config
from tidegate.log.sqlite.log import SqliteLog
from tidegate.server import model_hub
from tidegate.server.tokens import Scope, add_token, remove_token
from tidegate.testing import Driver

W1 = "/workflows/w1"


def same_name() -> App:
    """Another app that has a model of the same name."""
    app = App("second")
    app.model("workflows", source=EVENTS, initial=Workflow)(reducer)
    return app


@pytest.fixture
def d(log: SqliteLog) -> Iterator[Driver]:
    with Driver(workflows(), partitions=2, log=log) as made:
        for id in ("w1", "w2", "v1"):
            made.send(EVENTS, id, Started(id))
        made.run()
        yield made


@pytest.fixture
def file(config: Config) -> Path:
    return config.folder / "tokens.json"


@pytest.fixture
def backend(serve: Serve, d: Driver, file: Path) -> Client:
    assert d
    return serve(add_token(file, "backend", Scope.OPERATE), tokens="tokens.json")


@pytest.fixture
def browser(serve: Serve, backend: Client) -> Client:
    """At another server than the backend, with a grant for w1."""
    return serve(granted(backend, id="w1"), tokens="tokens.json")


def granted(backend: Client, **body: Any) -> str:
    answer = backend.post("/grants", json={"model": "workflows", **body})
    assert answer.status_code == 200, answer.text
    grant: str = answer.json()["grant"]
    return grant


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def followed(*ids: str, **more: str) -> list[dict[str, str]]:
    return [{"model": "workflows", "id": id, **more} for id in ids]


def test_the_id_of_a_grant_is_read_in_every_way(browser: Client) -> None:
    assert browser.get(W1).json()["state"]["title"] == "w1"
    assert one_frame(browser, f"{W1}/events")["state"]["title"] == "w1"
    assert [event["kind"] for event in browser.get(f"{W1}/history").json()["events"]] == ["created"]
    once: dict[str, Any] = {"method": "POST", "params": {"live": "false"}}
    with following(browser, "/streams", json=followed("w1"), **once) as frames:
        assert [frame["id"] for frame in frames] == ["w1"]


def test_everything_else_is_refused(browser: Client) -> None:
    live = {"live": "false"}
    answers = [
        browser.get("/workflows"),
        *(
            browser.get(f"/workflows/w2{what}", params=live if what == "/events" else {})
            for what in ("", "/events", "/history")
        ),
        browser.get("/others/w1"),
        browser.get("/workflows/missing"),
        browser.post("/streams", json=followed("w2"), params=live),
        browser.post("/streams", json=followed("w1", "w2"), params=live),
        browser.post("/workflows", json={"id": "w1"}),
        browser.post(f"{W1}/diffs", json={"type": "started", "title": "mine"}),
        browser.delete(W1),
        browser.get("/stores/workflows/w1"),
        browser.get("/topics/workflows-workflows-events/records"),
        browser.get("/live", params={"topic": "workflows-workflows-events"}),
        browser.get("/openapi.json"),
        browser.get("/metrics"),
    ]
    assert [code(answer) for answer in answers] == [(403, "not-granted")] * len(answers)


def test_a_model_of_the_same_name_in_another_app_is_refused(
    backend: Client, browser: Client, log: SqliteLog
) -> None:
    with Driver(same_name(), partitions=2, log=log) as d:
        d.run()
    first, second = {"app": "workflows"}, {"app": "second"}
    assert browser.get(W1, params=first).status_code == 200
    wait_for(lambda: backend.get(W1, params=second).status_code == 200)  # it has read the manifests lately
    for path in (W1, f"{W1}/events", f"{W1}/history"):
        assert code(browser.get(path, params=second)) == (403, "not-granted")
    assert code(browser.post("/streams", json=followed("w1", app="second"))) == (403, "not-granted")


def test_a_prefix_opens_many_ids_over_one_connection(serve: Serve, backend: Client) -> None:
    browser = serve(granted(backend, prefix="w"), tokens="tokens.json")
    once: dict[str, Any] = {"method": "POST", "params": {"live": "false"}}
    with following(browser, "/streams", json=followed("w1", "w2"), **once) as frames:
        assert sorted(frame["id"] for frame in frames) == ["w1", "w2"]
    assert code(browser.get("/workflows/v1")) == (403, "not-granted")
    assert code(browser.post("/streams", json=followed("w1", "v1"))) == (403, "not-granted")
    assert code(browser.get("/workflows")) == (403, "not-granted")


def test_the_end_of_a_grant_ends_its_streams(serve: Serve, backend: Client) -> None:
    browser = serve(tokens="tokens.json")
    grants = [granted(backend, id="w1", seconds=5) for _ in range(2)]
    headers = [{"Authorization": f"Bearer {grant}"} for grant in grants]
    ticket = browser.post("/tickets", headers=headers[1]).json()["ticket"]
    many: dict[str, Any] = {"method": "POST", "json": followed("w1")}
    with (
        browser.stream("GET", f"{W1}/events", params={"ticket": ticket}) as answer,
        following(browser, "/streams", headers=headers[0], **many) as frames,
        backend.stream("GET", f"{W1}/events") as lasting,
    ):
        events = [event for event in events_of(answer) if "data" in event]
        found = list(frames)
        assert lasting.status_code == 200
        assert backend.get(W1).status_code == 200
    assert [event["event"] for event in events] == ["state", "failure"]
    assert "grant-ended" in events[1]["data"]
    assert (found[0]["id"], found[1]["error"]["code"], len(found)) == ("w1", "grant-ended", 2)
    assert code(browser.get(W1, headers=headers[0])) == (401, "grant-ended")


def test_the_end_of_the_token_ends_the_streams_of_its_grants(
    browser: Client, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_hub, "ALLOWED_SECONDS", 0.1)
    monkeypatch.setattr(model_hub, "TICK_SECONDS", 0.1)
    with following(browser, f"{W1}/events") as frames:
        assert next(frames)["event"] == "state"
        remove_token(file, "backend")
        assert [frame["error"]["code"] for frame in frames] == ["no-token"]
    assert code(browser.get(W1)) == (401, "no-token")
