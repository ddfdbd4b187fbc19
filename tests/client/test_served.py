"""The clients against real servers on one log: frames live, and old tokens at another server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.client.followers import KINDS, follow
from tests.client.node import CLIENT
from tests.gate.working import Working
from tests.models.app import EVENTS, Closed, Event, Started, StepDone, workflows
from tests.server.conftest import Serve, config, log, serve
from tests.server.written_models import without_source

from tidegate.client import ModelClient
from tidegate.client import follow as follow_id
from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing import Driver

__all__ = ["config", "log", "serve"]
every = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def d(log: SqliteLog) -> Iterator[Driver]:
    with Driver(workflows(), partitions=2, log=log) as made:
        made.send(EVENTS, "w/1", Started("Ship"), StepDone("pack", 1.5))
        made.run()
        yield made


@every
def test_old_tokens_are_good_at_another_server(kind: str, serve: Serve, d: Driver) -> None:
    """The client of server A comes back to server B, 100 diffs later, and gets one patch."""
    servers = [str(serve().base_url) for _ in range(2)]
    first = follow(kind, servers[0], 1, model="workflows").versions[0]
    assert (first.kind, first.state) == ("state", {"title": "Ship", "steps": {"pack": 1.5}})
    d.send(EVENTS, "w/1", *(StepDone(f"step-{number % 3}", float(number)) for number in range(100)))
    d.run()
    found = follow(kind, servers[1], 1, model="workflows", token=first.token, state=first.state)
    [second] = found.versions
    assert (second.kind, second.token) == ("patch", d.model("workflows").token("w/1"))
    assert second.state["steps"] == {"pack": 1.5, "step-0": 99.0, "step-1": 97.0, "step-2": 98.0}


def test_a_client_sees_what_happens_while_it_is_connected(serve: Serve, d: Driver) -> None:
    url = str(serve().base_url)
    with follow_id(url, "workflows", "w/1") as client, ThreadPoolExecutor() as threads:
        versions = client.subscribe()
        assert next(versions).state["title"] == "Ship"
        happening: list[tuple[Event, Any]] = [
            (StepDone("send", 2.0), {"title": "Ship", "steps": {"pack": 1.5, "send": 2.0}}),
            (Closed(), None),
            (Started("Again"), {"title": "Again", "steps": {}}),
        ]
        for event, expected in happening:
            following = threads.submit(next, versions)
            d.send(EVENTS, "w/1", event)
            d.run()
            version = following.result(30)
            assert (version.state, version.gone) == (expected, expected is None)
        assert client.token == d.model("workflows").token("w/1")


@every
def test_the_clients_write_through_real_servers(
    kind: str, serve: Serve, log: SqliteLog, tmp_path: Path
) -> None:
    started, step = {"type": "started", "title": "Ship"}, {"type": "step-done", "step": "a", "seconds": 1.5}
    calls = [
        ("create", started),
        ("create", started),
        ("append", step),
        ("append", step),
        ("append", step, "1-1-x-00000000"),
    ]
    with closing(Working(log, tmp_path, without_source)):
        found = follow(
            kind, str(serve().base_url), 1, model="workflows", calls=[*calls, ("delete",), ("delete",)]
        )
    created, again, first, second, expected, deleted, never = found.calls
    assert [one["outcome"] for one in (created, first, second, deleted)] == [
        "created",
        "appended",
        "unchanged",
        "deleted",
    ]
    assert (again["code"], again["status"], again["token"]) == ("id-exists", 409, created["token"])
    assert (expected["code"], expected["status"], expected["token"]) == ("other-version", 409, first["token"])
    assert (never["code"], never["status"]) == ("no-such-id", 404)


def test_a_client_may_wait_for_an_id_that_does_not_exist_yet(serve: Serve, d: Driver) -> None:
    with ModelClient(str(serve().base_url), "workflows", "later") as client:
        assert (client.state, client.gone) == (None, True)
        d.send(EVENTS, "later", Started("New"))
        d.run()
        assert next(state for state in client if state is not None)["title"] == "New"


@every
def test_what_does_not_exist_and_who_may_not_read(kind: str, serve: Serve, d: Driver) -> None:
    assert follow(kind, str(serve().base_url), 1, model="never").error == "no-such-model"


def test_the_script_is_public_and_cached_by_its_content(serve: Serve) -> None:
    client = serve()
    found = client.get("/client.js")
    assert (found.status_code, found.content) == (200, CLIENT.read_bytes())
    assert found.headers["content-type"] == "text/javascript; charset=utf-8"
    assert found.headers["cache-control"] == "public, no-cache"
    again = client.get("/client.js", headers={"If-None-Match": f'W/"x", {found.headers["etag"]}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", found.headers["etag"])
    assert client.get("/client.js", headers={"If-None-Match": '"x"'}).status_code == 200
    assert client.get("/client.js?x=1").status_code == 400
