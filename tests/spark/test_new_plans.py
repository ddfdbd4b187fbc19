"""A driver on a cluster that loses a worker and gets it back: it plans anew, by itself."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.cluster import Cluster
from tests.spark.test_cluster import (
    COUNTS,
    EXAMPLE,
    LINES,
    TOML,
    Command,
    Feeder,
    goes_on,
    rises_by_one,
    told,
    wait_for,
)

import tidegate
from tidegate.config import Config, load_config
from tidegate.runtime.control import read_control
from tidegate.runtime.status import Landing, Numbers
from tidegate.runtime.takeover import ROLE
from tidegate.types import TopicPartition

HASTY = """
import signal, sys
from tidegate.config import load_config
from tidegate.runtime.coordinator import Patience
from tidegate.runtime.load import load_app
from tidegate.spark.running import Running
from tidegate.spark.session import start_session

config = load_config()
session, slots = start_session("wordcount", config.spark)
patience = Patience(gone_seconds=5, between_plans_seconds=3, failures=100)
run = Running(load_app("wordcount:app"), "wordcount:app", session, config, slots=slots, patience=patience)
signal.signal(signal.SIGTERM, lambda *_: run.stop())
while not run.wait(0.2):
    print(f"plan {run.view.plans}, {len(run.view.landings)} slots", file=sys.stderr, flush=True)
session.stop()
"""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("plans"))
    yield made
    made.close()


def test_tasks_of_a_lost_worker_move_and_come_back_with_it(tmp_path: Path, cluster: Cluster) -> None:
    shutil.copy(EXAMPLE, tmp_path)
    (tmp_path / "tidegate.toml").write_text(TOML.format(master=cluster.url))
    (tmp_path / "hasty.py").write_text(HASTY)
    config: Config = load_config(environ={}, folder=tmp_path)
    with tidegate.connect(config=config) as log:
        log.send(LINES, "k", "the first")
        feeder = Feeder(config)
        run = Command(config, program=[sys.executable, "hasty.py"])
        try:
            run.wait_until("plan 1, 3 slots")
            goes_on(log)
            cluster.workers[0].close()
            run.wait_until("plan 2, 1 slots", 120)
            goes_on(log)
            before = sum(landing.attempt == 1 for landing in told(log, Landing))
            cluster.workers[0] = cluster.start_worker(1)
            run.wait_until("plan 3, 3 slots", 120)
            goes_on(log)
            assert rises_by_one(log)
        finally:
            expected = feeder.close()
            wait_for(lambda: log.rows(COUNTS) == expected)
            code = run.end(signal.SIGTERM, 20)
            run.close()
        assert code == 0
        assert rises_by_one(log)
        assert before < sum(landing.attempt == 1 for landing in told(log, Landing))
        plan = read_control(log.log, "wordcount").plan(ROLE)
        hosts = {str(task): slot.host for slot in plan.slots for task in slot.tasks}
        newest = max(landing.epoch for landing in told(log, Landing))
        held = {
            task: landing.host
            for landing in told(log, Landing)
            if landing.epoch == newest and landing.host == "worker-1"
            for task in landing.folders
        }
        assert held, "the state of the lost worker was found again"
        assert any(hosts[task] == host for task, host in held.items()), "a task returned to its state"
        restored = {one.slot: one.to_restore for one in told(log, Numbers) if one.epoch == newest}
        changelog = [TopicPartition("wordcount-counts-changelog", number) for number in range(4)]
        assert sum(restored.values()) < sum(log.log.ends(changelog).values())
