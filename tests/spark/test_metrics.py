"""What a server shows of an app on real Spark when a worker is killed: the true lag, no slot that is gone."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Client, served
from tests.server.test_apps import samples
from tests.waiting import wait_for

from tidegate.config.config import Config, load_config
from tidegate.connect.connection import Connection
from tidegate.runtime.driver.coordinator import Patience
from tidegate.spark.running import Running
from tidegate.types import TopicPartition

EXAMPLE = Path(__file__).parents[2] / "examples" / "wordcount"
DOWN_SECONDS = 12.0
"""So long the killed slot is not started again."""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield load_config({"log": "sqlite:///log.db"}, environ={}, folder=tmp_path)
    sys.modules.pop("wordcount", None)


class Metrics:
    """`/metrics` and `/tasks` of one server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def tasks(self, state: str) -> float:
        found = samples(self._client.get("/metrics").text)
        return sum(value for name, value in found.items() if f'state="{state}"' in name)

    def of_slot(self, name: str, slot: int) -> float:
        return samples(self._client.get("/metrics").text)[f'{name}{{app="wordcount",slot="{slot}"}}']

    def lag(self) -> int:
        return int(self._app()["lag"])

    def planned(self, slot: int) -> list[str]:
        return next(list(one["tasks"]) for one in self._app()["slots"] if one["slot"] == slot)

    def reads(self, tasks: list[str], topic: str) -> list[TopicPartition]:
        """Which partitions of a topic these tasks read."""
        found = [one for one in self._app()["positions"] if one["task"] in tasks and one["topic"] == topic]
        return [TopicPartition(topic, one["partition"]) for one in found]

    def _app(self) -> Any:
        [app] = self._client.get("/tasks").json()["apps"]
        return app


def test_a_killed_slot_has_failed_within_seconds_and_its_lag_is_the_true_one(
    start: Callable[..., Running], config: Config, log: Connection
) -> None:
    module = importlib.import_module("wordcount")
    for number in range(50):
        log.send(module.LINES, f"k{number}", f"before {number}")
    patience = Patience(back_off_seconds=DOWN_SECONDS, longest_back_off_seconds=DOWN_SECONDS)
    run = start("wordcount:app", patience=patience)
    with served(config) as url, Client(base_url=url, timeout=30) as client:
        metrics = Metrics(client)
        wait_for(lambda: log.rows(module.COUNTS).get("before") == 50 and metrics.lag() == 0)
        wait_for(lambda: metrics.tasks("running") == 8)
        assert metrics.tasks("silent") == 0
        mine = metrics.planned(0)
        partitions = metrics.reads(mine, module.LINES.name)
        assert 0 < len(mine) < 8
        assert partitions
        before = sum(log.log.ends(partitions).values())

        os.kill(run.view.landings[0].pid, signal.SIGKILL)
        killed = time.monotonic()
        for number in range(100):
            log.send(module.LINES, f"k{number}", f"behind {number}")
            if number % 20 == 19:  # while it is down, the lag follows what is sent
                waiting = sum(log.log.ends(partitions).values()) - before
                shown = metrics.of_slot("tidegate_lag_records", 0)
                assert shown >= waiting > 0 or time.monotonic() - killed > DOWN_SECONDS
        wait_for(lambda: metrics.tasks("failed") == len(mine), DOWN_SECONDS)
        assert metrics.tasks("running") == 8 - len(mine)
        assert metrics.of_slot("tidegate_lag_records", 0) >= sum(log.log.ends(partitions).values()) - before
        assert metrics.of_slot("tidegate_records_per_second", 0) == 0

        wait_for(lambda: metrics.tasks("running") == 8 and metrics.lag() == 0)
        assert log.rows(module.COUNTS)["behind"] == 100
        assert metrics.of_slot("tidegate_slot_restarts_total", 0) == 1
        assert metrics.of_slot("tidegate_slot_restarts_total", 1) == 0
