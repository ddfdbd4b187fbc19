"""Gates over HTTP."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.gate.app import EVENTS, PASSED, gated
from tests.gate.many import many_statuses
from tests.gate.working import Working
from tests.server.conftest import Client, Serve
from tests.waiting import wait_for

from tidegate import App, Topic
from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.gate.formats import GATE_WIDE
from tidegate.gate.query import GateQuery
from tidegate.log.faultpoints import installed
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.testing import Driver

APPLIED: dict[str, Any] = {"wait": "applied", "seconds": "30"}


def posted(client: Client, path: str, body: Any = None, code: int = 200, **query: Any) -> Any:
    answer = client.post(path, json=body, params=query or None)
    assert answer.status_code == code, answer.text
    return answer.json()


def got(client: Client, path: str, code: int = 200, **query: Any) -> Any:
    answer = client.get(path, params=query or None)
    assert answer.status_code == code, answer.text
    return answer.json()


def out(connection: Connection, key: str) -> list[int]:
    return [record.value for record in connection.read(PASSED) if record.key == key]


@pytest.mark.usefixtures("working")
def test_the_story_of_a_key_that_is_paused_and_resumed(client: Client, connection: Connection) -> None:
    connection.send(EVENTS, "ada", 1, 2, 3)
    wait_for(lambda: out(connection, "ada") == [1, 2, 3])
    paused = posted(client, "/gates/door/keys/ada/pause", {"reason": "a case", "actor": "eve"}, **APPLIED)
    assert (paused["applied"], paused["state"], paused["epoch"]) == (True, "PAUSED", 0)
    before = SystemClock().now()
    connection.send(EVENTS, "ada", *range(4, 504))
    connection.send(EVENTS, "bob", 1)
    wait_for(lambda: got(client, "/gates/door/keys/ada")["waiting"] == 500)
    after = SystemClock().now()
    wait_for(lambda: out(connection, "bob") == [1])
    assert out(connection, "ada") == [1, 2, 3]
    [gate] = got(client, "/gates")["gates"]
    assert (gate["app"], gate["gate"], gate["paused"], gate["held"]) == ("gated", "door", 1, 500)
    assert before <= gate["oldest"] <= after
    assert got(client, "/gates/door/keys/ada")["oldest"] == gate["oldest"]
    resumed = posted(client, "/gates/door/keys/ada/resume", {"reason": "settled"}, **APPLIED)
    assert resumed["epoch"] == 1
    connection.send(EVENTS, "ada", 504, 505)
    wait_for(lambda: len(out(connection, "ada")) == 505)
    assert out(connection, "ada") == list(range(1, 506))
    answer = got(client, "/gates/door/keys/ada")
    assert [(one["state"], one["actor"], one["reason"]) for one in answer["history"]] == [
        ("PAUSED", "eve", "a case"),
        ("ACTIVE", "", "settled"),
    ]
    assert (answer["held"], answer["waiting"]) == (False, 0)


@pytest.mark.usefixtures("working")
def test_held_events_are_returned_page_by_page(client: Client, connection: Connection) -> None:
    posted(client, "/gates/door/keys/ada/pause", **APPLIED)
    connection.send(EVENTS, "ada", *range(7))
    wait_for(lambda: got(client, "/gates/door/keys/ada/buffer")["count"] == 7)
    seen: list[Any] = []
    after: dict[str, Any] = {}
    while True:
        page = got(client, "/gates/door/keys/ada/buffer", limit="3", type="int", **after)
        seen += page["events"]
        if page["next"] is None:
            break
        after = {"after": str(page["next"])}
    assert [one["value"] for one in seen] == list(range(7))
    assert (page["count"], page["bytes"]) == (7, 56)
    assert seen[0]["from"].startswith("events/")


@pytest.mark.usefixtures("working")
def test_keys_are_returned_page_by_page(client: Client) -> None:
    names = sorted(f"key-{number:02}" for number in range(9))
    for name in names:
        posted(client, f"/gates/door/keys/{name}/pause")
    posted(client, "/gates/door/keys/key-03/resume", **APPLIED)
    wait_for(lambda: len(got(client, "/gates/door/keys")["keys"]) == 9)
    wait_for(lambda: len(got(client, "/gates/door/keys", status="paused")["keys"]) == 8)
    first = got(client, "/gates/door/keys", status="paused", limit="5")
    rest = got(client, "/gates/door/keys", status="paused", limit="5", after=first["next"])
    assert [one["key"] for one in first["keys"] + rest["keys"]] == [n for n in names if n != "key-03"]
    assert rest["next"] is None
    assert [one["key"] for one in got(client, "/gates/door/keys", status="active")["keys"]] == ["key-03"]
    assert got(client, "/gates/door/keys", status="held")["keys"] == []


@pytest.mark.usefixtures("working")
@pytest.mark.parametrize(
    "key",
    [
        b"ada",
        b"a/b",
        b"..",
        b".",
        b"a?b#c",
        b"\x00",
        b"\xff\xfe",
        b"%2f",
        " ü".encode(),
        b'{"a":1}',
        b"k" * 5000,
    ],
    ids=repr,
)
def test_any_key_works_in_a_path(client: Client, key: bytes) -> None:
    encoded = quote(key, safe="").replace(".", "%2E")
    posted(client, f"/gates/door/keys/{encoded}/pause", **APPLIED)
    [reported] = got(client, "/gates/door/keys")["keys"]
    shown = reported["key"] if isinstance(reported["key"], str) else None
    assert shown is None or shown.encode() == key
    assert got(client, reported["path"])["status"]["state"] == "PAUSED"


def test_a_key_of_another_type_is_named_by_it(client: Client, log: SqliteLog) -> None:
    """Of a type that the gate's keys are not, it would pause a key that no event has."""
    numbers = Topic("numbers", int, key=int)
    app = App("numbers")
    app.stream(numbers).gate("turnstile").to(Topic("let-in", int, key=int))
    prepare(app.build(), log, SystemClock(), partitions=2)
    posted(client, "/gates/turnstile/keys/42/pause", key_type="int")
    for key, kind, code in (("x", "int", "unencodable"), ("42", "str", "other-key-type")):
        answer = posted(client, f"/gates/turnstile/keys/{key}/pause", code=400, key_type=kind)
        assert answer["error"]["code"] == code
    with Driver(app, log=log, partitions=2) as driver:
        driver.send(numbers, 42, 1)
        driver.run()
        assert driver.gate("turnstile").held(42) == 1
    [answer] = got(client, "/gates/turnstile/keys", key_type="int")["keys"]
    assert answer["key"] == 42


@pytest.mark.usefixtures("working")
def test_a_gate_wide_pause_holds_all_but_the_keys_that_were_resumed(
    client: Client, connection: Connection
) -> None:
    posted(client, "/gates/door/keys/ada/pause", **APPLIED)
    whole = posted(client, "/gates/door/pause", {"reason": "fire"}, **APPLIED)
    assert (sorted(whole["epochs"]), whole["gate_wide"]) == (["0", "1"], True)
    assert got(client, "/gates/door")["gate_wide"] is True
    connection.send(EVENTS, "ada", 1)
    connection.send(EVENTS, "bob", 1)
    wait_for(lambda: got(client, "/gates/door")["held"] == 2)
    posted(client, "/gates/door/resume", **APPLIED)
    wait_for(lambda: out(connection, "bob") == [1])
    assert got(client, "/gates/door")["gate_wide"] is False
    assert got(client, "/gates/door/keys/ada")["waiting"] == 1


def test_the_reserved_gate_wide_key_is_no_key(client: Client, log: SqliteLog) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    answer = posted(client, f"/gates/door/keys/{quote(GATE_WIDE, safe='')}/pause", code=400)
    assert answer["error"]["code"] == "bad-key"


def test_a_pause_that_no_gate_applies_is_accepted(client: Client, log: SqliteLog) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    answer = posted(client, "/gates/door/keys/ada/pause", code=202, wait="applied", seconds="0.3")
    assert (answer["applied"], answer["epoch"]) == (False, 0)
    assert posted(client, "/gates/door/keys/ada/pause")["epoch"] == 1
    with Driver(gated(), log=log, partitions=2) as driver:
        driver.send(EVENTS, "ada", 1)
        driver.run()
        assert driver.gate("door").held("ada") == 1


def test_a_requested_status_does_not_count_as_applied_because_an_older_one_was(
    client: Client, log: SqliteLog, tmp_path: Path
) -> None:
    working = Working(log, tmp_path)
    assert posted(client, "/gates/door/keys/ada/pause", **APPLIED)["applied"] is True
    working.close()
    answer = posted(client, "/gates/door/keys/ada/resume", code=202, wait="applied", seconds="0.3")
    assert (answer["applied"], answer["epoch"]) == (False, 1)


@pytest.mark.usefixtures("working")
def test_a_pause_ends_by_itself(client: Client, connection: Connection) -> None:
    answer = posted(client, "/gates/door/keys/ada/pause", {"expires_in": 0.5}, **APPLIED)
    assert answer["applied"] is True
    connection.send(EVENTS, "ada", 1)
    wait_for(lambda: out(connection, "ada") == [1])
    last = got(client, "/gates/door/keys/ada")["history"][-1]
    assert (last["state"], last["cause"]) == ("ACTIVE", "expiry")


@pytest.mark.usefixtures("working")
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"expires_at": 1_000}, "bad-expiry"),
        ({"expires_at": 1_000, "expires_in": 5}, "bad-body"),
        ({"expires_in": -1}, "bad-body"),
        ({"expires_at": 10**30}, "bad-body"),
        ({"reason": "r" * 5000}, "too-long"),
        ({"reason": 1}, "bad-body"),
        ({"raeson": "x"}, "bad-body"),
        ([], "bad-body"),
    ],
)
def test_a_pause_that_makes_no_sense_is_refused(client: Client, body: Any, problem: str) -> None:
    assert posted(client, "/gates/door/keys/ada/pause", body, code=400)["error"]["code"] == problem
    assert got(client, "/gates/door/keys")["keys"] == []


@pytest.mark.usefixtures("working")
def test_two_servers_and_a_foreign_writer_agree(serve: Serve, log: SqliteLog, connection: Connection) -> None:
    """All write one key at once; the newest requested status counts, and every server shows the same."""
    one, other = serve(), serve()
    manifest = find_manifest(log, "gated")
    assert manifest is not None
    foreign = GateQuery(log, manifest, "door", SystemClock()).commander

    def disturb(call: Any) -> threading.Thread:
        def often() -> None:
            for _ in range(20):
                call()

        thread = threading.Thread(target=often)
        thread.start()
        return thread

    threads = [
        disturb(lambda: posted(one, "/gates/door/keys/ada/pause")),
        disturb(lambda: posted(other, "/gates/door/keys/ada/resume")),
        disturb(lambda: foreign.pause(b"ada", actor="crm")),
    ]
    connection.send(EVENTS, "ada", *range(1, 301))
    for thread in threads:
        thread.join()
    last = posted(one, "/gates/door/keys/ada/pause", **APPLIED)
    assert last["epoch"] == 60
    reported = [got(client, "/gates/door/keys/ada", at_least=last["position"]) for client in (one, other)]
    assert [one["status"]["epoch"] for one in reported] == [60, 60]
    assert posted(other, "/gates/door/keys/ada/resume", **APPLIED)["epoch"] == 61
    wait_for(lambda: len(out(connection, "ada")) == 300)
    assert out(connection, "ada") == list(range(1, 301))


@pytest.mark.usefixtures("working")
def test_a_request_whose_answer_was_lost_is_sent_again(client: Client) -> None:
    """With an Idempotency-Key the second call is the first one."""
    lost = [True]

    def lose(point: str) -> None:
        if point == "server.reply" and lost:
            lost.clear()
            raise ConnectionError("the wire was cut")

    key = {"Idempotency-Key": "one"}
    path = "/gates/door/keys/ada/pause"
    with installed(lose):
        assert client.post(path, headers=key).status_code == 500
    assert client.post(path, headers=key).json()["epoch"] == 0
    assert client.post(path, headers=key).json()["epoch"] == 0
    assert client.post(path).json()["epoch"] == 1
    other = client.post(path, headers=key, json={"reason": "another"})
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency-mismatch")
    assert client.post("/gates/door/keys/bob/pause", headers=key).status_code == 422


def test_a_server_answers_before_and_after_the_app(
    client: Client, log: SqliteLog, tmp_path: Path, connection: Connection
) -> None:
    assert got(client, "/gates")["gates"] == []
    assert got(client, "/gates/door", code=404)["error"]["code"] == "no-such-gate"
    working = Working(log, tmp_path)
    wait_for(lambda: len(got(client, "/gates")["gates"]) == 1)
    posted(client, "/gates/door/keys/ada/pause", **APPLIED)
    connection.send(EVENTS, "ada", 1)
    wait_for(lambda: got(client, "/gates/door")["held"] == 1)
    working.close()
    assert got(client, "/gates/door/keys/ada")["waiting"] == 1


def test_gates_are_listed_without_a_look_at_all_keys(client: Client, log: SqliteLog) -> None:
    assert log.path is not None
    with many_statuses(log.path):
        [gate] = got(client, "/gates")["gates"]
        assert (gate["paused"], gate["waiting_keys"], gate["held"], gate["gate_wide"]) == (20, 2, 2, False)
        assert got(client, "/gates/door")["held"] == 2


def test_two_apps_may_have_a_gate_of_one_name(client: Client, log: SqliteLog) -> None:
    for name in ("east", "west"):
        app = App(name)
        app.stream(Topic(f"{name}-events", int)).gate("door").to(Topic(f"{name}-passed", int))
        prepare(app.build(), log, SystemClock(), partitions=2)
    assert got(client, "/gates/door", code=400)["error"]["code"] == "which-app"
    assert got(client, "/gates/door", app="west")["app"] == "west"
    assert got(client, "/gates/door", code=404, app="north")["error"]["code"] == "never-started"
