"""The story of a gate on Spark, with either log: paused, held, resumed, and the order kept."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Client, served
from tests.server.test_gates import got, posted
from tests.waiting import HANG_SECONDS, wait_for

from tidegate import Topic
from tidegate.config.config import Config, load_config
from tidegate.connect.connection import Connection
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.spark.running import Running
from tidegate.testing.broker import KafkaCluster

Start = Callable[..., Running]
OF: dict[str, Any] = {"wait": "applied", "seconds": "60"}
APP = '''
"""Events through a gate, under names of one test's own."""

from tidegate import App, Topic

EVENTS = Topic("{name}-events", int)
PASSED = Topic("{name}-passed", int)
app = App("{name}")
app.stream(EVENTS).gate("door", drain_chunk=100).to(PASSED)
'''


@pytest.fixture
def name() -> str:
    return f"g{uuid.uuid4().hex[:8]}"


@pytest.fixture(params=["sqlite", "kafka"])
def config(
    request: pytest.FixtureRequest, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Config:
    (tmp_path / f"{name}.py").write_text(APP.format(name=name))
    monkeypatch.syspath_prepend(str(tmp_path))
    url = f"sqlite:///{tmp_path}/log.db"
    if request.param == "kafka":
        kafka: KafkaCluster = request.getfixturevalue("kafka")
        url = kafka.url
    return load_config({"log": url, "partitions": 4}, environ={}, folder=tmp_path)


def test_three_pass_five_hundred_wait_and_all_come_out_in_their_order(
    start: Start, log: Connection, config: Config, name: str
) -> None:
    """Told by HTTP. The slots that hold them are killed on the way."""
    events, passed = Topic(f"{name}-events", int), Topic(f"{name}-passed", int)
    log.send(events, "bob", 0)
    run = start(f"{name}:app")
    wait_for(lambda: run.state is DriverState.RUNNING)

    def out(key: str) -> list[int]:
        return [record.value for record in log.read(passed) if record.key == key]

    log.send(events, "ada", 1, 2, 3)
    wait_for(lambda: out("ada") == [1, 2, 3], every=0.2)
    with served(config) as url, Client(base_url=url, timeout=60) as client:
        paused = posted(client, "/gates/door/keys/ada/pause", {"reason": "a case"}, **OF, app=name)
        assert paused["applied"] is True
        log.send(events, "ada", *range(4, 504))
        log.send(events, "bob", 1)
        wait_for(lambda: got(client, "/gates/door/keys/ada", app=name)["waiting"] == 500, every=0.2)
        wait_for(lambda: out("bob") == [0, 1], every=0.2)
        assert out("ada") == [1, 2, 3]
        for landing in run.view.landings.values():
            os.kill(landing.pid, signal.SIGKILL)
        assert got(client, "/gates/door/keys/ada", app=name)["waiting"] == 500
        posted(client, "/gates/door/keys/ada/resume", app=name)
        log.send(events, "ada", 504, 505)
        wait_for(lambda: len(out("ada")) >= 505, every=0.2)
        assert out("ada") == list(range(1, 506))
        wait_for(lambda: _metric(client, name, "drained_total") >= 1, every=0.5)
        [tasks] = got(client, "/tasks", app=name)["apps"]
        assert sum(len(slot["tasks"]) for slot in tasks["slots"]) == 8
        run.stop()
        assert run.wait(HANG_SECONDS)
        assert out("ada") == list(range(1, 506))
        history = got(client, "/gates/door/keys/ada", app=name)["history"]
        assert [(one["state"], one["reason"]) for one in history] == [("PAUSED", "a case"), ("ACTIVE", "")]


def _metric(client: Client, app: str, metric: str) -> float:
    wanted = f'tidegate_gate_{metric}{{app="{app}",gate="door"}} '
    lines = client.get("/metrics").text.splitlines()
    return next((float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted)), 0.0)
