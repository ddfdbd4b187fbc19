"""Writing to models over HTTP: the outcome is decided once, whichever server is called, and how often."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from tests.gate.working import Working
from tests.models.app import EVENTS, workflows
from tests.server.conftest import Client, Serve, served
from tests.server.written_models import (
    CHANGELOG,
    EVENTS_TOPIC,
    PATH,
    REQUESTS,
    STARTED,
    code,
    created,
    derived,
    key,
    row_of,
    state_of,
    step,
    without_source,
)
from tests.waiting import wait_for

from tidegate.clock import SystemClock
from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.server import model_outcomes
from tidegate.server.model_outcomes import MOST_PER_ID
from tidegate.server.tokens import Scope, add_token
from tidegate.testing.views import all_records


@pytest.fixture
def deciding(log: SqliteLog, tmp_path: Path) -> Iterator[Working]:
    with closing(Working(log, tmp_path, without_source)) as made:
        yield made


@pytest.fixture
def prepared(log: SqliteLog) -> None:
    """An app that never runs: nothing is decided."""
    prepare(without_source().build(), log, SystemClock(), partitions=2)


@pytest.mark.usefixtures("deciding")
def test_an_id_is_created_changed_and_deleted(client: Client, log: SqliteLog) -> None:
    answer = client.post(PATH, json={"id": "a/é", "diff": STARTED})
    assert answer.status_code == 201
    found = answer.json()
    assert (found["id"], found["model"], found["app"]) == ("a/é", "workflows", "workflows")
    assert (found["outcome"], found["changed"], found["decided"]) == ("created", True, True)
    assert answer.headers["Location"] == "/workflows/a%2F%C3%A9"
    assert answer.headers["ETag"] == f'"{found["token"]}"'
    assert found["token"] == row_of(log, "a/é").token("a/é")
    assert found["position"].startswith(CHANGELOG)
    path = f"{PATH}/{quote('a/é', safe='')}"

    answer = client.post(f"{path}/diffs", json=step("pack"))
    assert (answer.status_code, answer.json()["changed"]) == (200, True)
    assert answer.headers["ETag"] == f'"{answer.json()["token"]}"'
    assert state_of(log, "a/é") == {"title": "Ship", "steps": {"pack": 1.0}}
    again = client.post(f"{path}/diffs", json=step("pack"))
    assert (again.status_code, again.json()["changed"]) == (200, False)
    assert again.json()["token"] == answer.json()["token"]

    answer = client.delete(path)
    assert (answer.status_code, answer.json()["outcome"]) == (200, "deleted")
    assert row_of(log, "a/é").gone


@pytest.mark.usefixtures("deciding")
def test_the_server_chooses_an_id_if_there_is_none(client: Client, log: SqliteLog) -> None:
    chosen = [client.post(PATH).json()["id"] for _ in range(2)]
    assert len(set(chosen)) == 2
    assert all(quote(id, safe="") == id and len(id) >= 20 for id in chosen)
    assert [state_of(log, id) for id in chosen] == [{"title": "", "steps": {}}] * 2


@pytest.mark.usefixtures("deciding")
def test_what_a_request_cannot_do_has_a_status_of_its_own(client: Client, log: SqliteLog) -> None:
    token = created(client)
    path = f"{PATH}/w1/diffs"
    exists = client.post(PATH, json={"id": "w1"})
    assert code(exists) == (409, "id-exists")
    assert (exists.json()["token"], exists.json()["id"], exists.json()["decided"]) == (token, "w1", True)
    assert code(client.post(f"{PATH}/w9/diffs", json=STARTED)) == (404, "no-such-id")
    assert code(client.delete(f"{PATH}/w9")) == (404, "no-such-id")
    assert code(client.post(path, json={"type": "nonsense"})) == (422, "bad-diff")
    assert code(client.post(path, json=[1])) == (422, "bad-diff")
    assert code(client.post(path, json=step("pack", -1))) == (422, "reducer-failed")
    assert code(client.post("/documents", json={"diff": {"n": 2**53}})) == (422, "bad-state")
    large = {"type": "started", "title": "x" * 100_000}
    assert code(client.post(path, json=large)) == (413, "state-too-large")
    assert row_of(log, "w1").token("w1") == token
    assert client.post(path, json=step("pack")).status_code == 200


@pytest.mark.usefixtures("deciding")
def test_of_two_writers_with_one_expectation_exactly_one_wins(serve: Serve, log: SqliteLog) -> None:
    servers = [serve(), serve()]
    held = created(servers[0])
    barrier = threading.Barrier(2)

    def write(number: int) -> Any:
        barrier.wait()
        headers = {"If-Match": f'"{held}"'} if number else {}
        query = {} if number else {"expect": held}
        title = {"type": "started", "title": f"of {number}"}
        return servers[number].post(f"{PATH}/w1/diffs", json=title, params=query, headers=headers)

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(write, range(2)))
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    [winner] = [number for number, answer in enumerate(answers) if answer.status_code == 200]
    [lost] = [answer for answer in answers if answer.status_code == 409]
    assert code(lost) == (409, "other-version")
    assert state_of(log, "w1")["title"] == f"of {winner}"
    assert lost.json()["token"] == answers[winner].json()["token"] == row_of(log, "w1").token("w1")
    refused = servers[0].delete(f"{PATH}/w1", params={"expect": held})
    assert code(refused) == (409, "other-version")
    assert servers[0].delete(f"{PATH}/w1", headers={"If-Match": lost.json()["token"]}).status_code == 200


@pytest.mark.usefixtures("deciding")
def test_the_same_key_on_two_servers_has_one_effect(serve: Serve, log: SqliteLog) -> None:
    servers = [serve(), serve(), serve()]
    with ThreadPoolExecutor(6) as pool:
        answers = list(
            pool.map(lambda one: one.post(PATH, headers=key("k1"), json={"diff": STARTED}), servers * 2)
        )
    assert {answer.status_code for answer in answers} == {201}
    [token] = {answer.json()["token"] for answer in answers}
    [id] = {answer.json()["id"] for answer in answers}
    path = f"{PATH}/{id}/diffs"
    for number in range(2):
        diff = step("pack", number)
        answers = [one.post(path, headers=key(f"step {number}"), json=diff) for one in servers]
        assert {(answer.status_code, answer.json()["changed"]) for answer in answers} == {(200, True)}
    assert row_of(log, id).sequence == 3
    assert servers[2].post(PATH, headers=key("k1"), json={"diff": STARTED}).json()["token"] == token
    assert len(list(all_records(log, EVENTS_TOPIC))) == 3


@pytest.mark.usefixtures("deciding")
def test_a_key_that_is_used_for_another_request_is_refused(serve: Serve, log: SqliteLog) -> None:
    one, other = serve(), serve()
    created(one)
    path = f"{PATH}/w1/diffs"
    assert one.post(path, headers=key("k"), json=step("pack")).status_code == 200
    before = len(list(all_records(log, REQUESTS)))
    expect = {"expect": row_of(log, "w1").token("w1")}
    answers = (
        other.post(path, headers=key("k"), json=step("send")),
        other.post(path, headers=key("k"), json=step("pack"), params=expect),
        other.delete(f"{PATH}/w1", headers=key("k")),
        one.post(PATH, headers=key("k"), json={"id": "w1", "diff": step("pack")}),
    )
    assert [code(answer) for answer in answers] == [(422, "idempotency-mismatch")] * 4
    assert len(list(all_records(log, REQUESTS))) == before
    assert row_of(log, "w1").sequence == 2


@pytest.mark.usefixtures("deciding")
def test_the_keys_of_two_callers_are_two_keys(serve: Serve, config: Config, log: SqliteLog) -> None:
    file = config.folder / "tokens.json"
    ada, bob = (serve(add_token(file, name, Scope.OPERATE), tokens="tokens.json") for name in ("ada", "bob"))
    ids = {client.post(PATH, headers=key("k")).json()["id"] for client in (ada, bob, ada)}
    assert len(ids) == 2
    created(ada)
    for client in (ada, bob):
        client.post(f"{PATH}/w1/diffs", headers=key("k"), json=step(str(id(client))))
    assert row_of(log, "w1").sequence == 3


@pytest.mark.usefixtures("deciding")
@pytest.mark.parametrize(("point", "written"), [("server.accepted", 0), ("server.reply", 1)])
def test_a_server_that_is_killed_before_its_answer_is_replaced_by_another(
    client: Client, config: Config, log: SqliteLog, point: str, written: int
) -> None:
    """Just before the request is in the log, and just after."""
    created(client)
    path, diff = f"{PATH}/w1/diffs", step("pack")
    command = [sys.executable, str(Path(__file__).with_name("killed_server.py")), str(config.folder), point]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        url = killed.stdout.readline().strip()
        with pytest.raises(httpx2.TransportError):
            httpx2.post(f"{url}{path}", headers=key("k"), json=diff, timeout=30)
        assert killed.wait() == -signal.SIGKILL
    assert len(list(all_records(log, REQUESTS))) == 1 + written
    answer = client.post(path, headers=key("k"), json=diff)
    assert (answer.status_code, answer.json()["changed"]) == (200, True)
    assert row_of(log, "w1").sequence == 2
    again = client.post(path, headers=key("k"), json=diff)
    assert (again.status_code, again.json()["token"]) == (200, answer.json()["token"])


@pytest.mark.usefixtures("prepared")
def test_what_is_not_decided_in_time_is_accepted_and_a_retry_learns_the_outcome(
    client: Client, log: SqliteLog, tmp_path: Path
) -> None:
    body = {"id": "w1", "diff": STARTED}
    answer = client.post(PATH, headers=key("k"), json=body, params={"seconds": 0.3})
    assert answer.status_code == 202
    assert (answer.json()["decided"], answer.json()["id"]) == (False, "w1")
    assert "token" not in answer.json()
    with closing(Working(log, tmp_path, without_source)):
        assert client.post(PATH, headers=key("k"), json=body).json()["request"] == answer.json()["request"]
        wait_for(lambda: not row_of(log, "w1").gone)
    assert client.post(PATH, headers=key("k"), json=body).status_code == 201  # the app is down
    assert row_of(log, "w1").sequence == 1


def test_many_writers_of_one_id_all_learn_their_outcome(
    client: Client, log: SqliteLog, tmp_path: Path
) -> None:
    """More than a row remembers, while nothing is decided: only some are in the log at a time."""
    with closing(Working(log, tmp_path, without_source)):
        created(client)

    def write(number: int) -> Any:
        return client.post(f"{PATH}/w1/diffs", json=step(f"s{number}"), params={"seconds": 60})

    def requests(id: str) -> int:
        return [record.key for record in all_records(log, REQUESTS)].count(id.encode())

    with ThreadPoolExecutor(80) as pool:
        answers = [pool.submit(write, number) for number in range(80)]
        wait_for(lambda: requests("w1") > MOST_PER_ID)  # and the one that created it
        assert client.post(PATH, json={"id": "w2"}, params={"seconds": 0.3}).status_code == 202
        assert (requests("w1"), requests("w2")) == (MOST_PER_ID + 1, 1)
        with closing(Working(log, tmp_path, without_source)):
            found = [answer.result() for answer in answers]
    assert {answer.status_code for answer in found} == {200}
    assert len({answer.json()["token"] for answer in found}) == 80
    assert row_of(log, "w1").sequence == 81


@pytest.mark.usefixtures("prepared")
def test_more_calls_than_may_wait_are_refused_and_not_written(
    client: Client, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_outcomes, "MOST", 2)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(lambda: client.post(PATH, params={"seconds": 6})) for _ in range(2)]
        wait_for(lambda: len(list(all_records(log, REQUESTS))) == 2)
        assert code(client.post(PATH)) == (503, "too-many-wait")
        assert {call.result().status_code for call in waiting} == {202}
    assert len(list(all_records(log, REQUESTS))) == 2
    assert client.post(PATH, params={"seconds": 0.1}).status_code == 202


@pytest.mark.usefixtures("prepared")
def test_a_server_that_stops_answers_what_waits(config: Config) -> None:
    def threads() -> list[str]:
        return [one.name for one in threading.enumerate() if one.name.startswith("tidegate-outcomes")]

    with Client(timeout=30) as client, ThreadPoolExecutor(1) as pool:
        with served(config) as url:
            call = pool.submit(lambda: client.post(f"{url}{PATH}", params={"seconds": 60}))
            wait_for(lambda: threads() != [])
        answer = call.result()
    assert (answer.status_code, answer.json()["decided"]) == (202, False)
    assert threads() == []


def test_a_model_of_a_derived_stream_is_not_written(client: Client, log: SqliteLog) -> None:
    prepare(derived().build(), log, SystemClock(), partitions=2)
    for answer in (
        client.post(PATH, json={"id": "w1"}),
        client.post(f"{PATH}/w1/diffs", json=STARTED),
        client.delete(f"{PATH}/w1"),
    ):
        assert code(answer) == (405, "not-appendable")
    assert list(all_records(log, REQUESTS)) == []


def test_a_model_with_a_source_is_written_beside_it(
    client: Client, log: SqliteLog, tmp_path: Path, connection: Connection
) -> None:
    with closing(Working(log, tmp_path, workflows)):
        created(client)
        assert client.post(f"{PATH}/w1/diffs", json=step("pack")).status_code == 200
    assert list(connection.read(EVENTS)) == []


@pytest.mark.usefixtures("prepared")
def test_a_token_of_another_id_is_no_mistake_of_form(client: Client) -> None:
    answer = client.delete(f"{PATH}/w1", params={"expect": "1-1-x-00000000", "seconds": 0.01})
    assert answer.status_code == 202


@pytest.mark.usefixtures("deciding")
def test_the_request_has_the_name_of_the_caller(serve: Serve, config: Config, log: SqliteLog) -> None:
    client = serve(add_token(config.folder / "tokens.json", "ada", Scope.OPERATE), tokens="tokens.json")
    created(client)
    [record] = all_records(log, REQUESTS)
    assert b'"actor":"ada"' in (record.value or b"")


@pytest.mark.usefixtures("deciding")
def test_a_page_of_a_permitted_origin_may_write(serve: Serve) -> None:
    page = {"Origin": "https://shop.example"}
    client = serve(origins=[page["Origin"]])
    wanted = {"Access-Control-Request-Method": "DELETE", "Access-Control-Request-Headers": "If-Match"}
    answer = client.options(f"{PATH}/w1", headers={**page, **wanted})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, page["Origin"])
    exposed = client.post(PATH, headers=page).headers["access-control-expose-headers"]
    assert exposed == "ETag, Location"


def test_the_calls_are_described(client: Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert {"get", "post"} <= paths["/{model}"].keys()
    assert {"get", "delete"} <= paths["/{model}/{id}"].keys()
    described = {one["name"] for one in paths["/{model}/{id}/diffs"]["post"]["parameters"]}
    assert {"model", "id", "expect", "if-match", "seconds", "idempotency-key", "app"} <= described
