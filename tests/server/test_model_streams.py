"""Streams of models: the first frame, and those that follow."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import pytest
from msgspec.structs import replace
from tests.models.app import EVENTS, Closed, Started, StepDone
from tests.server.conftest import Client, Serve, served
from tests.server.model_streams import NDJSON, W1, Held, events_of, following, one_frame, put_row
from tests.waiting import wait_for

from tidegate.config.config import Config
from tidegate.log.sqlite.log import SqliteLog
from tidegate.models.row import NEVER
from tidegate.models.token import Token
from tidegate.server import model_hub
from tidegate.testing import Driver, ModelView


def test_a_client_without_a_token_gets_the_state(client: Client, model: ModelView) -> None:
    frame = one_frame(client, W1)
    assert frame == {
        "id": "w1",
        "event": "state",
        "token": model.token("w1"),
        "digest": frame["digest"],
        "state": {"title": "Ship", "steps": {"pack": 1.5}},
    }
    Held().take(frame)


def test_a_client_gets_one_patch_for_all_that_it_missed(client: Client, d: Driver, model: ModelView) -> None:
    held = model.token("w1")
    d.send(EVENTS, "w1", *(StepDone(f"step-{number % 3}", float(number)) for number in range(100)))
    d.run()
    frame = one_frame(client, W1, held)
    assert (frame["event"], frame["from"], frame["token"]) == ("patch", held, model.token("w1"))
    steps = {f"step-{number % 3}": {"=": float(number)} for number in (97, 98, 99)}
    assert frame["patch"] == {"*": {"steps": {"*": steps}}}


def test_a_client_that_is_current_gets_an_empty_patch(client: Client, model: ModelView) -> None:
    token = model.token("w1")
    frame = one_frame(client, W1, token)
    assert (frame["event"], frame["from"], frame["token"], frame["patch"]) == ("patch", token, token, {})


def test_frames_follow_each_other(client: Client, d: Driver, model: ModelView) -> None:
    held = Held()
    with following(client, W1) as frames:
        held.take(next(frames))
        for number in range(5):
            d.send(EVENTS, "w1", StepDone("pack", float(number)), StepDone(f"s{number}", 1.0))
            d.run()
            while held.token != model.token("w1"):
                held.take(next(frames))
        d.send(EVENTS, "w1", Closed())
        d.run()
        held.take(next(frames))
        assert (held.kinds[-1], held.token) == ("gone", model.token("w1"))
        d.send(EVENTS, "w1", Started("Again"))
        d.run()
        held.take(next(frames))
    assert held.state == {"title": "Again", "steps": {}}
    assert set(held.kinds[1:-2]) == {"patch"}
    assert held.kinds[-1] == "state", "another life"


def test_a_stream_may_be_opened_before_its_id_exists(client: Client, d: Driver, model: ModelView) -> None:
    assert one_frame(client, "/workflows/later/events")["event"] == "gone"
    with following(client, "/workflows/later/events") as frames:
        assert next(frames) == {"id": "later", "event": "gone", "token": NEVER.token("later")}
        d.send(EVENTS, "later", Started("Late"))
        d.run()
        assert next(frames)["state"] == {"title": "Late", "steps": {}}
    frame = one_frame(client, "/workflows/later/events", NEVER.token("later"))
    assert (frame["event"], frame["token"]) == ("state", model.token("later"))


def test_server_sent_events(client: Client, d: Driver, model: ModelView) -> None:
    first = one_frame(client, W1)["token"]  # until then comments would come
    assert first == model.token("w1")
    with client.stream("GET", W1, params={"hash": first}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = events_of(answer)
        assert next(events) == {"retry": "1000"}
        event = next(events)
        assert (event["event"], event["id"], json.loads(event["data"])["patch"]) == ("patch", first, {})
        d.send(EVENTS, "w1", StepDone("send", 2.0))
        d.run()
        event = next(events)
        data = json.loads(event["data"])
        assert (event["event"], event["id"]) == ("patch", model.token("w1"))
        assert (data["from"], data["token"]) == (first, model.token("w1"))
        d.send(EVENTS, "w1", Closed())
        d.run()
        assert next(events)["event"] == "gone"


def test_the_last_event_id_wins_over_the_hash(client: Client, d: Driver, model: ModelView) -> None:
    """A browser that reconnects sends the URL with which it began."""
    old = model.token("w1")
    d.send(EVENTS, "w1", StepDone("send", 2.0))
    d.run()
    headers = {"Last-Event-ID": model.token("w1")}
    with following(client, W1, params={"hash": old}, headers=headers) as frames:
        assert next(frames)["patch"] == {}


@pytest.mark.parametrize(
    "token", ["x", "1-2-3", "1-2-ab-zzzzzzzz", "9" * 300, "-1-2-ab-00000000", "1-2-ä-00000000"]
)
def test_a_malformed_token_is_refused(client: Client, model: ModelView, token: str) -> None:
    assert model
    in_query = client.get(W1, params={"hash": token})
    in_header = client.get(W1, headers={b"Last-Event-ID": token.encode()})
    for answer in (in_query, in_header):
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad-token")


def test_tokens_that_the_row_does_not_know_get_the_state(client: Client, d: Driver, model: ModelView) -> None:
    """Of a previous life, of another id, with another hash, or beyond the end of the log."""
    previous = model.token("w1")
    d.send(EVENTS, "w1", Closed(), Started("Again"))
    d.send(EVENTS, "w2", Started("Other"))
    d.run()
    row = model.row("w1")
    foreign = Token(row.life, row.sequence, "f" * 32).text("w1")
    beyond = Token(row.life, row.sequence + 5, row.hash).text("w1")
    other_life = Token(row.life + 1, 1, row.hash).text("w1")
    for token in (previous, model.token("w2"), foreign, beyond, other_life):
        frame = one_frame(client, W1, token)
        assert (frame["event"], frame["token"]) == ("state", model.token("w1"))


def test_a_token_below_the_floor_gets_the_state(client: Client, log: SqliteLog, model: ModelView) -> None:
    first, row = model.token("w1"), model.row("w1")
    risen = replace(row, sequence=row.sequence + 9, floor=row.sequence + 5, hash="ab")
    put_row(log, "w1", risen)
    assert one_frame(client, W1, first)["event"] == "state"
    at_floor = Token(1, risen.floor, "cd").text("w1")
    assert one_frame(client, W1, at_floor)["event"] == "patch"


def test_a_heartbeat_comes_while_nothing_changes(
    client: Client, model: ModelView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_hub, "HEARTBEAT_SECONDS", 0.1)  # 15 otherwise
    monkeypatch.setattr(model_hub, "TICK_SECONDS", 0.05)
    assert one_frame(client, W1)["token"] == model.token("w1")
    with client.stream("GET", W1) as answer:
        events = events_of(answer)
        assert any(one.get("event") == "state" for one in events)
        assert [next(events) for _ in range(2)] == [{"": ": still here"}] * 2
    with client.stream("GET", W1, headers=NDJSON) as answer:
        lines = answer.iter_lines()
        assert json.loads(next(filter(None, lines)))["event"] == "state"
        assert [next(lines), next(lines)] == ["", ""]


def test_above_the_limit_a_stream_is_refused_and_none_ends(serve: Serve, d: Driver) -> None:
    client = serve(model_streams=2)
    with ExitStack() as stack:
        open_ones = [stack.enter_context(following(client, W1)) for _ in range(2)]
        for frames in open_ones:
            next(frames)
        refused = client.get(W1)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too-many-streams")
        d.send(EVENTS, "w1", StepDone("send", 2.0))
        d.run()
        assert {next(frames)["event"] for frames in open_ones} == {"patch"}
        assert "tidegate_server_model_streams 2" in client.get("/metrics").text
    wait_for(lambda: "tidegate_server_model_streams 0" in client.get("/metrics").text)
    one_frame(client, W1)


def test_a_server_that_stops_ends_its_streams(config: Config, model: ModelView) -> None:
    assert model
    with Client(timeout=30) as client, ExitStack() as stack:
        with served(config) as url:
            streams = [stack.enter_context(following(client, f"{url}{W1}")) for _ in range(3)]
            for frames in streams:
                next(frames)
        assert [list(frames) for frames in streams] == [[], [], []]


BAD_BODIES: dict[str, Any] = {
    "no list": {"model": "workflows", "id": "w1"},
    "none": [],
    "too many": [{"model": "workflows", "id": f"w{number}"} for number in range(1001)],
    "twice": [{"model": "workflows", "id": "w1"}] * 2,
    "unknown field": [{"model": "workflows", "id": "w1", "hash": "x"}],
    "no id": [{"model": "workflows"}],
}


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("name", BAD_BODIES)
def test_a_bad_list_of_ids_is_refused(client: Client, name: str) -> None:
    answer = client.post("/streams", json=BAD_BODIES[name])
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad-body")


@pytest.mark.usefixtures("model")
def test_each_id_of_a_list_is_checked(client: Client) -> None:
    good = {"model": "workflows", "id": "w1"}
    for bad, code in (
        ({"model": "unknown", "id": "w1"}, "no-such-model"),
        ({"model": "workflows", "id": ""}, "bad-id"),
        ({"model": "workflows", "id": "x" * 513}, "bad-id"),
        ({"model": "workflows", "id": "w2", "token": "1-2"}, "bad-token"),
        ({"model": "workflows", "id": "w2", "app": "unknown"}, "never-started"),
    ):
        assert client.post("/streams", json=[good, bad]).json()["error"]["code"] == code


def many(client: Client, ids: list[dict[str, Any]], **options: Any) -> Any:
    return following(client, "/streams", method="POST", json=ids, **options)


def test_many_ids_over_one_connection(client: Client, d: Driver, model: ModelView) -> None:
    d.send(EVENTS, "w2", Started("Other"))
    d.run()
    token = model.token("w2")
    ids = [{"model": "workflows", "id": "w1"}, {"model": "workflows", "id": "w2", "token": token}]
    with many(client, ids) as frames:
        first = {frame["id"]: frame for frame in (next(frames), next(frames))}
        assert {frame["model"] for frame in first.values()} == {"workflows"}
        assert (first["w1"]["event"], first["w2"]["patch"]) == ("state", {})
        d.send(EVENTS, "w2", StepDone("send", 2.0))
        d.run()
        changed = next(frames)
        assert (changed["id"], changed["from"], changed["token"]) == ("w2", token, model.token("w2"))
    with many(client, ids, params={"live": "false"}) as frames:
        assert [frame["id"] for frame in frames] == ["w1", "w2"]
    with client.stream("POST", "/streams", json=ids) as answer:
        events = events_of(answer)
        assert next(events) == {"retry": "1000"}
        assert next(events).keys() == {"event", "data"}
