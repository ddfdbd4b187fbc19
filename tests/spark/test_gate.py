"""The story of a gate on Spark, with either log: paused, held, resumed, and the order kept."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.waiting import wait_for

from tidegate import Topic
from tidegate.clock import SystemClock
from tidegate.config import Config, load_config
from tidegate.connection import Connection
from tidegate.gate.outside import Gate
from tidegate.runtime.coordinator import State
from tidegate.runtime.start import find_manifest
from tidegate.spark.running import Running
from tidegate.testing.broker import KafkaCluster

Start = Callable[..., Running]
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
    start: Start, log: Connection, name: str
) -> None:
    """The slot that holds them is killed on the way."""
    events, passed = Topic(f"{name}-events", int), Topic(f"{name}-passed", int)
    log.send(events, "bob", 0)
    run = start(f"{name}:app")
    wait_for(lambda: run.state is State.RUNNING)
    manifest = find_manifest(log.log, name)
    assert manifest is not None

    def gate() -> Gate:
        return Gate(log.log, manifest, "door", SystemClock())

    def out(key: str) -> list[int]:
        return [record.value for record in log.read(passed) if record.key == key]

    log.send(events, "ada", 1, 2, 3)
    wait_for(lambda: out("ada") == [1, 2, 3], every=0.2)
    marks = gate().marks()
    gate().wait_applied(b"ada", gate().commander.pause(b"ada", reason="a case"), marks, 60)
    log.send(events, "ada", *range(4, 504))
    log.send(events, "bob", 1)

    def waiting() -> int:
        buffered = gate().key(b"ada").buffered
        return 0 if buffered is None else buffered.count

    wait_for(lambda: waiting() == 500, every=0.2)
    wait_for(lambda: out("bob") == [0, 1], every=0.2)
    assert out("ada") == [1, 2, 3]
    for landing in run.view.landings.values():
        os.kill(landing.pid, signal.SIGKILL)
    gate().commander.resume(b"ada")
    log.send(events, "ada", 504, 505)
    wait_for(lambda: len(out("ada")) >= 505, every=0.2)
    assert out("ada") == list(range(1, 506))
    wait_for(lambda: any("door" in numbers.gates for numbers in run.view.numbers.values()))
    run.stop()
    assert run.wait(60)
    assert out("ada") == list(range(1, 506))
    assert [told.state for told in gate().history(b"ada")] == ["PAUSED", "ACTIVE"]
