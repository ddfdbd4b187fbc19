"""Many streams: servers that are behind, clients that are slow, rows that change all the time."""

from __future__ import annotations

import itertools
import random
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.gate.working import Working
from tests.models.app import EVENTS, StepDone, workflows
from tests.server.conftest import Client, Serve
from tests.server.model_streams import (
    CHANGELOG,
    W1,
    Held,
    follow_until,
    following,
    one_frame,
    put_row,
    row_of,
)
from tests.waiting import HANG_SECONDS, wait_for

from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.log.sqlite.log import SqliteLog
from tidegate.server import model_hub
from tidegate.server import serve as serve_module
from tidegate.server.follower_pool import PoolSize
from tidegate.server.serve import Server, prepared
from tidegate.server.settings import server_settings
from tidegate.server.tokens import Scope, add_token, remove_token
from tidegate.testing import Driver, ModelView

IDS = ["a", "b", "c"]


@contextmanager
def running(config: Config, **settings: Any) -> Iterator[tuple[Server, Client]]:
    """A server whose parts a test can see, and its client."""
    started, urls = threading.Event(), []

    def started_at(url: str) -> None:
        urls.append(url)
        started.set()

    with prepared(config, server_settings({"port": 0, **settings}, {}), started_at) as server:
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            assert started.wait(HANG_SECONDS)
            with Client(base_url=urls[0], timeout=30) as client:
                yield server, client
        finally:
            server.should_exit = True
            thread.join()


def test_a_stream_goes_on_when_its_replica_is_evicted(
    config: Config, d: Driver, model: ModelView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_hub, "TICK_SECONDS", 0.05)  # a second otherwise
    held = Held()
    with running(config) as (server, client), following(client, W1) as frames:
        held.take(next(frames))
        replicas = server._serving.replicas
        evicted = replicas.replica_of(CHANGELOG, model_hub.KIND)
        replicas._pool._size = PoolSize(soft_limit=1, hard_limit=1)
        replicas.replica_of("workflow-events", model_hub.KIND)
        wait_for(lambda: not evicted._thread.is_alive())
        replicas._pool._size = PoolSize(soft_limit=9, hard_limit=9)
        d.send(EVENTS, "w1", StepDone("send", 2.0))
        d.run()
        held.take(next(frames))
    assert (held.kinds, held.token) == (["state", "patch"], model.token("w1"))


def test_a_frame_is_made_once_for_all_who_hold_the_same_version(config: Config, d: Driver) -> None:
    with running(config) as (server, client), ExitStack() as stack:
        streams = [stack.enter_context(following(client, W1)) for _ in range(20)]
        first = [next(frames) for frames in streams]
        assert all(frame == first[0] for frame in first)
        made = server._serving.hub.frames.made
        assert made == 1
        d.send(EVENTS, "w1", StepDone("send", 2.0))
        d.run()
        second = [next(frames) for frames in streams]
        assert all(frame == second[0] for frame in second)
        assert server._serving.hub.frames.made == made + 1


def test_the_first_change_comes_at_once_and_then_ten_a_second(
    client: Client, log: SqliteLog, model: ModelView
) -> None:
    assert model
    held, ended = Held(), threading.Event()

    def change() -> None:
        for number in itertools.count(10):
            put_row(log, "w1", row_of(number))
            if ended.is_set():
                return

    thread = threading.Thread(target=change)
    try:
        with following(client, W1) as frames:
            held.take(next(frames))
            thread.start()
            held.take(next(frames))
            first, began = held.state["number"], time.monotonic()
            for _ in range(5):
                held.take(next(frames))
            seconds = time.monotonic() - began
    finally:
        ended.set()
        thread.join()
    assert seconds >= 0.45
    assert held.state["number"] - first > 10, "frames compose what changed between them"


def keep_changing(connection: Connection, ended: threading.Event) -> None:
    for number in itertools.count():
        connection.send(EVENTS, IDS[number % 3], StepDone(f"s{number % 40}", float(number)))
        if ended.is_set():
            break
    for id in IDS:
        connection.send(EVENTS, id, StepDone("end", 1.0))


def come_and_go(clients: list[Client], seed: int, id: str, held: Held) -> None:
    """Follow an id until its end; now and then drop out, and come back at any server."""
    choice = random.Random(seed)

    def at_end(_: Held) -> bool:
        return held.state is not None and "end" in held.state["steps"]

    while not at_end(held):
        count = len(held.kinds) + choice.randrange(1, 4)
        follow_until(
            choice.choice(clients),
            f"/workflows/{id}/events",
            held,
            lambda _, count=count: at_end(_) or len(held.kinds) >= count,  # type: ignore[misc]
        )


def test_clients_that_come_and_go_miss_nothing(
    serve: Serve, log: SqliteLog, connection: Connection, tmp_path: Path
) -> None:
    """Under writes all the time, at two servers."""
    ended, held = threading.Event(), [(id, Held()) for id in IDS for _ in range(3)]
    with closing(Working(log, tmp_path, workflows)), ThreadPoolExecutor(len(held) + 1) as threads:
        clients = [serve(), serve()]
        running = [threads.submit(keep_changing, connection, ended)]
        wait_for(lambda: clients[0].get("/workflows/a").status_code == 200)
        running += [threads.submit(come_and_go, clients, number, *one) for number, one in enumerate(held)]
        time.sleep(1.5)  # so long they come and go
        ended.set()
        for one in running:
            one.result(HANG_SECONDS)
    for id, mine in held:
        frame = clients[0].get(f"/workflows/{id}").json()
        assert (mine.token, mine.state) == (frame["token"], frame["state"])
        assert len(mine.kinds) > 5
        begins = mine.kinds.index("state")
        assert set(mine.kinds[:begins]) <= {"gone"}, "until the server knows the id"
        assert set(mine.kinds[begins + 1 :]) == {"patch"}, "nobody is reset"


def open_raw(client: Client, path: str) -> socket.socket:
    """A client that reads nothing."""
    place = urlsplit(str(client.base_url))
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.connect((place.hostname, place.port))
    wire.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return wire


def test_clients_that_read_nothing_cost_little_and_disturb_nobody(
    config: Config, log: SqliteLog, model: ModelView
) -> None:
    assert model
    with running(config) as (server, client), ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(closing(open_raw(client, W1)))
        wait_for(lambda: server._serving.hub.count == 100)
        held, slowest = Held(), 0.0
        with following(client, W1) as frames:
            held.take(next(frames))
            for number in range(10, 30):
                began = time.monotonic()
                put_row(log, "w1", row_of(number, 300_000))
                while held.state.get("number") != number:
                    held.take(next(frames))
                slowest = max(slowest, time.monotonic() - began)
            connections = list(server.server_state.connections)
            sizes = [one.transport.get_write_buffer_size() for one in connections]
            assert server._serving.hub.count == 101
        stuck = [size for size in sizes if size > 0]
        assert len(stuck) == 100
        assert max(stuck) <= 192 << 10
        assert slowest < 5


def test_a_client_that_takes_nothing_is_disconnected(
    config: Config, log: SqliteLog, model: ModelView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_hub, "STALLED_SECONDS", 0.5)  # 60 otherwise
    monkeypatch.setattr(model_hub, "TICK_SECONDS", 0.05)
    assert model
    with running(config) as (server, client), closing(open_raw(client, W1)):
        hub, connections = server._serving.hub, server.server_state.connections
        wait_for(lambda: hub.count == 1)
        number = 10
        while hub.count == 1:
            put_row(log, "w1", row_of(number, 50_000))
            number += 1
            time.sleep(0.02)
        assert number > 12
        wait_for(lambda: all(one.transport.get_write_buffer_size() == 0 for one in list(connections)))
        assert one_frame(client, W1)["state"]["number"] == number - 1


def test_a_server_does_not_wait_for_a_client_that_takes_nothing(
    config: Config, log: SqliteLog, model: ModelView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve_module, "SHUTDOWN_SECONDS", 60)  # 3 otherwise
    assert model
    with ExitStack() as stack:
        with running(config) as (server, client):
            stack.enter_context(closing(open_raw(client, W1)))
            wait_for(lambda: server._serving.hub.count == 1)
            [stream] = server._serving.hub._streams
            for number in itertools.count(10):
                put_row(log, "w1", row_of(number, 300_000))
                time.sleep(0.05)
                since = stream.writing_since
                if since is not None and time.monotonic() - since > 0.5:
                    break
            began = time.monotonic()
        assert time.monotonic() - began < 30


def test_a_removed_token_ends_its_streams(
    config: Config, serve: Serve, model: ModelView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_hub, "TICK_SECONDS", 0.05)  # a second otherwise
    monkeypatch.setattr(model_hub, "ALLOWED_SECONDS", 0.1)  # five otherwise
    assert model
    file = config.folder / "tokens.json"
    tokens = [add_token(file, name, Scope.READ) for name in ("kept", "removed")]
    kept, removed = (serve(token, tokens="tokens.json") for token in tokens)
    with following(kept, W1) as staying, following(removed, W1) as ending:
        assert next(staying)["event"] == next(ending)["event"] == "state"
        remove_token(file, "removed")
        assert [frame["error"]["code"] for frame in ending] == ["no-token"]
        assert one_frame(kept, W1)["event"] == "state"
    with following(kept, W1) as staying:
        assert next(staying)["event"] == "state"


def test_a_grant_opens_its_id_until_it_ends(
    config: Config, serve: Serve, model: ModelView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_hub, "TICK_SECONDS", 0.05)  # a second otherwise
    assert model
    token = add_token(config.folder / "tokens.json", "backend", Scope.OPERATE)
    client = serve(token, tokens="tokens.json")

    def grant(seconds: int) -> str:
        body = {"model": "workflows", "id": "w1", "seconds": seconds}
        return f"Bearer {client.post('/grants', json=body).json()['grant']}"

    long, short = grant(600), grant(5)
    client.headers["Authorization"] = short
    with following(client, W1) as frames:
        assert next(frames)["event"] == "state"
        assert [frame["error"]["code"] for frame in frames] == ["grant-ended"]
    assert client.get("/workflows/w1").json()["error"]["code"] == "grant-ended"
    client.headers["Authorization"] = long
    assert client.get("/workflows/w1").status_code == 200
    assert client.get("/workflows/w1/history").status_code == 200
    for path in ("/workflows", "/workflows/w2", "/workflows/w2/events", "/workflows/w2/history", "/topics"):
        assert client.get(path).json()["error"]["code"] == "not-granted"
    for id, code in (("w1", 200), ("w2", 403)):
        body = [{"model": "workflows", "id": id}]
        assert client.post("/streams?live=false", json=body).status_code == code
