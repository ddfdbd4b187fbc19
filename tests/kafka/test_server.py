"""The server on a real broker: replicas, positions and streams over two servers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.gate.working import Working
from tests.models.app import Workflow, reducer
from tests.server.conftest import Client, served
from tests.server.test_gates import APPLIED, got, posted
from tests.server.test_live import taken, values
from tests.waiting import wait_for

import tidegate
from tidegate import App, Topic
from tidegate.config.config import Config, load_config
from tidegate.connect.connection import Connection
from tidegate.testing.broker import KafkaCluster


@pytest.fixture
def config(kafka: KafkaCluster, tmp_path: Path) -> Config:
    return load_config({"log": kafka.url, "partitions": 2}, environ={}, folder=tmp_path)


@pytest.fixture
def connection(config: Config) -> Iterator[Connection]:
    with tidegate.connect(config=config) as made:
        yield made


def test_two_servers_stream_the_same_events(config: Config, connection: Connection, tmp_path: Path) -> None:
    name = f"s{uuid.uuid4().hex[:8]}"
    events, passed = Topic(f"{name}-events", int), Topic(f"{name}-passed", int)

    def app() -> App:
        made = App(name)
        gated = made.stream(events).gate("door")
        gated.to(passed)
        gated.count("counted")
        return made

    with ExitStack() as stack:
        stack.enter_context(closing(Working(connection.log, tmp_path, app)))
        urls = [stack.enter_context(served(config)) for _ in range(2)]
        one, other = (stack.enter_context(Client(base_url=url, timeout=60)) for url in urls)
        connection.send(events, "ada", 1)
        wait_for(lambda: client_count(one, name) == 1)
        paused = posted(one, "/gates/door/keys/ada/pause", {"actor": "eve"}, app=name, **APPLIED)
        assert paused["applied"] is True
        connection.send(events, "ada", *range(2, 52))
        wait_for(lambda: got(other, "/gates/door/keys/ada", app=name)["waiting"] == 50)
        seen = got(other, "/gates/door/keys/ada", app=name, at_least=paused["position"])
        assert (seen["status"]["epoch"], seen["history"][0]["actor"]) == (paused["epoch"], "eve")
        resumed = posted(other, "/gates/door/keys/ada/resume", app=name, **APPLIED)
        assert resumed["epoch"] > paused["epoch"]
        wait_for(lambda: client_count(one, name) == 51)
        path = f"/live?topic={passed.name}&from=start&type=int"
        first = taken(one, path, 20)
        rest = taken(other, path, 51 - len(values(first)), first[-1]["id"])
        assert values(first + rest) == list(range(1, 52))
        records = got(one, f"/topics/{passed.name}/records", type="int", since="0", limit="1000")["records"]
        assert [record["value"] for record in records] == list(range(1, 52))
        assert got(other, "/tasks", app=name)["apps"][0]["lag"] <= 2, "the marks of transactions, at most"


def test_two_servers_write_to_a_model(config: Config, connection: Connection, tmp_path: Path) -> None:
    """One effect of one key, one winner of one expectation, and what one wrote is read at the other."""
    name = f"s{uuid.uuid4().hex[:8]}"

    def app() -> App:
        made = App(name)
        made.model("workflows", initial=Workflow)(reducer)
        return made

    with ExitStack() as stack:
        stack.enter_context(closing(Working(connection.log, tmp_path, app)))
        urls = [stack.enter_context(served(config)) for _ in range(2)]
        clients = [
            stack.enter_context(Client(base_url=url, timeout=60, params={"app": name})) for url in urls
        ]
        pool = stack.enter_context(ThreadPoolExecutor(2))
        once = {"Idempotency-Key": "once"}
        answers = list(pool.map(lambda one: one.post("/workflows", headers=once), clients))
        [(status, id, token)] = {(one.status_code, one.json()["id"], one.json()["token"]) for one in answers}
        assert (status, [one.get(f"/workflows/{id}").json()["token"] for one in clients]) == (
            201,
            [token] * 2,
        )
        path, expected = f"/workflows/{id}/diffs", {"If-Match": token}
        titles = [{"type": "started", "title": url} for url in urls]
        answers = list(
            pool.map(lambda one, diff: one.post(path, json=diff, headers=expected), clients, titles)
        )
        assert sorted(one.status_code for one in answers) == [200, 409]
        assert len({one.json()["token"] for one in answers}) == 1
        events = got(clients[0], f"/workflows/{id}/history")["events"]
        assert [event["sequence"] for event in events] == [1, 2]


def client_count(client: Client, app: str) -> int:
    answer = client.get("/stores/counted/ada", params={"app": app, "type": "int"})
    rows = answer.json()["rows"] if answer.status_code == 200 else []
    return int(rows[0]["value"]) if rows else 0
