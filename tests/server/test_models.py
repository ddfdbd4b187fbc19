"""Models over HTTP: ids, states, histories."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest
from tests.models.app import EVENTS, Closed, Event, Started, StepDone, Workflow, reducer
from tests.server.conftest import Client
from tests.server.model_streams import Held, one_frame
from tests.server.test_gates import got
from tests.waiting import wait_for

from tidegate import App, Json, Topic
from tidegate.log.sqlite.log import SqliteLog
from tidegate.models.reserved import RESERVED
from tidegate.models.token import Token
from tidegate.server.app import ROUTERS
from tidegate.server.routes import models
from tidegate.testing import Driver, ModelView

ODD = ["a/b", "a b?c=d&e#f", "..", "ünï", "💧", "%2F", "a\nb"]


def test_the_state_of_an_id(client: Client, model: ModelView) -> None:
    answer = client.get("/workflows/w1")
    frame = answer.json()
    assert (frame["event"], frame["id"], frame["token"]) == ("state", "w1", model.token("w1"))
    assert answer.headers["etag"] == f'"{model.token("w1")}"'
    held = Held()
    held.take(frame)
    assert held.state == {"title": "Ship", "steps": {"pack": 1.5}}


def test_who_has_the_state_gets_304(client: Client, d: Driver, model: ModelView) -> None:
    etag = client.get("/workflows/w1").headers["etag"]
    for given in (etag, f"W/{etag}", etag.strip('"'), f'"x-1", {etag}', "*"):
        same = client.get("/workflows/w1", headers={"If-None-Match": given})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)
    d.send(EVENTS, "w1", StepDone("send", 2.0))
    d.run()
    # Beyond what the server may have read: it reads up to the end of the log first.
    ahead = client.get("/workflows/w1", headers={"If-None-Match": f'"{model.token("w1")}"'})
    assert ahead.status_code == 304
    changed = client.get("/workflows/w1", headers={"If-None-Match": etag})
    assert (changed.status_code, changed.json()["token"]) == (200, model.token("w1"))
    assert client.get("/workflows/w1", headers={"If-None-Match": '"1-2"'}).status_code == 200


def test_an_id_that_does_not_exist(client: Client, d: Driver) -> None:
    d.send(EVENTS, "w2", Started("Short"), Closed())
    d.run()
    for id in ("never", "w2"):
        assert got(client, f"/workflows/{id}", code=404)["error"]["code"] == "no-such-id"
    d.send(EVENTS, "never", Started("Now"))
    d.run()
    assert got(client, "/workflows/never")["state"] == {"title": "Now", "steps": {}}, "at once"


@pytest.mark.parametrize("id", ODD)
def test_an_id_may_be_any_text(client: Client, d: Driver, model: ModelView, id: str) -> None:
    d.send(EVENTS, id, Started("Odd"))
    d.run()
    path = f"/workflows/{quote(id, safe='').replace('.', '%2E')}"
    assert got(client, path)["id"] == id
    assert one_frame(client, f"{path}/events", model.token(id))["patch"] == {}
    [event] = got(client, f"{path}/history")["events"]
    assert event["id"] == id


@pytest.mark.parametrize("id", ["x" * 513, "%ff", "%00"])
def test_a_bad_id_is_refused(client: Client, model: ModelView, id: str) -> None:
    assert model
    for path in (f"/workflows/{id}", f"/workflows/{id}/events", f"/workflows/{id}/history"):
        assert got(client, path, code=400)["error"]["code"] == "bad-id"


def test_pages_of_ids(client: Client, d: Driver, model: ModelView) -> None:
    for number in range(25):
        d.send(EVENTS, f"x{number:02}", Started("One"), *([Closed()] if number % 5 == 0 else []))
    d.run()
    seen: list[dict[str, Any]] = []
    after: dict[str, Any] = {}
    while True:
        page = got(client, "/workflows", limit="7", **after)
        seen += page["ids"]
        if page["next"] is None:
            break
        assert len(page["ids"]) == 7
        after = {"after": page["next"]}
    ids = ["w1", *(f"x{number:02}" for number in range(25) if number % 5)]
    assert [one["id"] for one in seen] == sorted(ids)
    assert seen[0] == {"id": "w1", "token": model.token("w1"), "sequence": 2}
    assert got(client, "/workflows", code=400, after="?")["error"]["code"] == "bad-cursor"


def test_a_page_over_many_removed_ids_ends_early(
    client: Client, d: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "MOST_SCANNED", 10)  # 20,000 otherwise
    for number in range(15):
        d.send(EVENTS, f"a{number:02}", Started("One"), Closed())
    d.run()
    first = got(client, "/workflows")
    assert first["ids"] == []
    assert [one["id"] for one in got(client, "/workflows", after=first["next"])["ids"]] == ["w1"]


def test_the_history_of_an_id(client: Client, d: Driver, model: ModelView) -> None:
    d.send(EVENTS, "w1", *(StepDone(f"s{number}", 1.0) for number in range(20)), Closed())
    d.send(EVENTS, "other", *(StepDone(f"s{number}", 1.0) for number in range(50)))
    d.run()
    seen: list[dict[str, Any]] = []
    after: dict[str, Any] = {}
    while True:
        page = got(client, "/workflows/w1/history", limit="10", **after)
        assert len(page["events"]) <= 10
        seen += page["events"]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert [one["sequence"] for one in seen] == list(range(1, 24))
    assert {one["id"] for one in seen} == {"w1"}
    assert (seen[0]["kind"], seen[-1]["kind"]) == ("created", "gone")
    assert all(one["previous"] == before["hash"] for before, one in pairwise(seen))
    assert got(client, "/workflows/never/history")["events"] == []
    assert got(client, "/workflows/w1/history", code=400, after="YQ==")["error"]["code"] == "bad-cursor"


def test_an_unknown_model_and_one_of_two_apps(client: Client, d: Driver, log: SqliteLog) -> None:
    assert d
    for path in ("/unknown", "/unknown/w1", "/unknown/w1/events", "/unknown/w1/history"):
        assert got(client, path, code=404)["error"]["code"] == "no-such-model"
    other = App("others")
    source: Topic[str, Event] = Topic("other-events", Json[Event]())
    other.model("workflows", source=source, initial=Workflow)(reducer)
    with Driver(other, partitions=2, log=log) as second:
        second.send(source, "w1", Started("Other"))
        second.run()
    wait_for(lambda: client.get("/apps/others").status_code == 200)
    for path in ("/workflows", "/workflows/w1", "/workflows/w1/events?live=false", "/workflows/w1/history"):
        between = "&" if "?" in path else "?"
        assert client.get(f"{path}{between}app=others").status_code == 200
        assert got(client, path, code=400)["error"]["code"] == "which-app"
    assert got(client, "/workflows/w1?app=others")["state"]["title"] == "Other"
    assert got(client, "/workflows/w1?app=workflows")["state"]["title"] == "Ship"


def test_the_servers_own_paths_are_reserved(client: Client) -> None:
    """They respond as if there were no models."""
    paths = {route.path.split("/")[1] for router in ROUTERS for route in router.routes}  # type: ignore[attr-defined]
    assert paths - {"{model}"} <= RESERVED
    assert got(client, "/stores/a/b/events", code=404)["error"]["code"] == "no-such-path"
    assert got(client, "/streams", code=405)["error"]["code"] == "method-not-allowed"


def test_the_description_shows_the_routes(client: Client, d: Driver) -> None:
    assert d
    described = got(client, "/openapi.json")
    paths = described["paths"]
    assert "post" in paths["/streams"]
    for prefix in ("/{model}", "/workflows"):
        assert {
            prefix,
            f"{prefix}/{{id}}",
            f"{prefix}/{{id}}/events",
            f"{prefix}/{{id}}/history",
        } <= paths.keys()
    shown = paths["/workflows/{id}"]["get"]
    assert "model" not in [one["name"] for one in shown["parameters"]]
    frame = shown["responses"]["200"]["content"]["application/json"]["schema"]
    assert frame["properties"]["state"] == {"$ref": "#/components/schemas/workflows.state"}
    assert described["components"]["schemas"]["workflows.state"]["$defs"].keys() == {"Workflow"}
    names = [one.get("operationId") for item in paths.values() for one in item.values()]
    assert len(names) == len(set(names))


def test_a_token_beyond_the_end_of_the_log_does_not_match(client: Client, model: ModelView) -> None:
    ahead = Token(1, 99, "ab").text("w1")
    answer = client.get("/workflows/w1", headers={"If-None-Match": f'"{ahead}"'})
    assert (answer.status_code, answer.json()["token"]) == (200, model.token("w1"))
