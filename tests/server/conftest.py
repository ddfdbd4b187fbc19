"""Real servers on loopback, in threads of this process, beside an app that is at work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.gate.working import Working
from tests.models.app import EVENTS, Started, StepDone, workflows
from tests.waiting import HANG_SECONDS

from tidegate.clock import SystemClock
from tidegate.config.config import Config, load_config
from tidegate.connect.connection import Connection
from tidegate.log.sqlite.log import SqliteLog
from tidegate.server.serve import prepared
from tidegate.server.settings import server_settings
from tidegate.testing import Driver, ModelView

Client = httpx2.Client
Serve = Callable[..., Client]


@contextmanager
def served(config: Config, **settings: Any) -> Iterator[str]:
    """A server, and its URL."""
    started, urls = threading.Event(), []

    def started_at(url: str) -> None:
        urls.append(url)
        started.set()

    with prepared(config, server_settings({"port": 0, **settings}, {}), started_at) as server:
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            assert started.wait(HANG_SECONDS)
            yield urls[0]
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return load_config({"log": "sqlite:///log.db"}, environ={}, folder=tmp_path)


@pytest.fixture
def log(config: Config) -> Iterator[SqliteLog]:
    with closing(SqliteLog(config.folder / "log.db")) as made:
        yield made


@pytest.fixture
def connection(log: SqliteLog) -> Connection:
    return Connection(log, partitions=2, clock=SystemClock(), owned=False)


@pytest.fixture
def working(log: SqliteLog, tmp_path: Path) -> Iterator[Working]:
    with closing(Working(log, tmp_path)) as made:
        yield made


@pytest.fixture
def serve(config: Config, log: SqliteLog) -> Iterator[Serve]:
    """Starts one more server on the log; a client that calls it."""
    assert log
    with ExitStack() as stack:

        def start(token: str | None = None, **settings: Any) -> Client:
            url = stack.enter_context(served(config, **settings))
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            return stack.enter_context(Client(base_url=url, timeout=30, headers=headers))

        yield start


@pytest.fixture
def client(serve: Serve) -> Client:
    return serve()


@pytest.fixture
def d(log: SqliteLog) -> Iterator[Driver]:
    """The app of workflows, with one of them."""
    with Driver(workflows(), partitions=2, log=log) as made:
        made.send(EVENTS, "w1", Started("Ship"), StepDone("pack", 1.5))
        made.run()
        yield made


@pytest.fixture
def model(d: Driver) -> ModelView:
    return d.model("workflows")
