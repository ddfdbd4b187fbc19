"""A driver on a cluster that loses a worker and gets it back: it makes a new plan by itself."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.cluster import QUICK, Cluster
from tests.spark.command import Command
from tests.spark.test_cluster import (
    EXAMPLE,
    KEPT_COUNTS,
    LINES,
    TOML,
    Feeder,
    ends_right,
    goes_on,
    published,
    rises_by_one,
    wait_for,
)

import tidegate
from tidegate.config.config import Config, load_config
from tidegate.runtime.topics.control import ROLE, read_control
from tidegate.runtime.topics.status import Landing, Numbers
from tidegate.state.manager import Limits
from tidegate.types import TopicPartition

HASTY = """
import signal, sys
from tidegate.config.config import load_config
from tidegate.runtime.driver.coordinator import Patience
from tidegate.load import load_app
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


def last_line_has(run: Command, what: str) -> bool:
    return bool(run.lines) and what in run.lines[-1]


@pytest.mark.soak(only="takes a minute and a half")
def test_tasks_of_a_lost_worker_go_to_the_other_and_are_spread_again_when_it_is_back(
    tmp_path: Path, cluster: Cluster
) -> None:
    shutil.copy(EXAMPLE, tmp_path)
    all_cores = TOML.replace('"spark.cores.max" = "3"', "")
    (tmp_path / "tidegate.toml").write_text(all_cores.format(master=cluster.url, quick=QUICK))
    (tmp_path / "hasty.py").write_text(HASTY)
    config: Config = load_config(environ={}, folder=tmp_path)
    with tidegate.connect(config=config) as log:
        log.send(LINES, "k", "the first")
        log.log.create(KEPT_COUNTS)
        run = Command(config, program=[sys.executable, "hasty.py"])
        try:
            with Feeder(config) as feeder:
                wait_for(lambda: last_line_has(run, "3 slots"))
                goes_on(log)
                time.sleep(2 * Limits().commit_seconds)  # so that there is state to come back to
                cluster.workers[0].close()
                wait_for(lambda: last_line_has(run, "1 slots"))
                goes_on(log)
                cluster.workers[0] = cluster.start_worker(1)
                wait_for(lambda: last_line_has(run, "3 slots"))
                goes_on(log)
                assert rises_by_one(log)
            ends_right(log, run, signal.SIGTERM, feeder)
        finally:
            run.close()
        plan = read_control(log.log, "wordcount").plan(ROLE)
        landings = [landing for landing in published(log, Landing) if landing.epoch == plan.epoch]
        assert {"worker-1", "worker-2"} == {landing.host for landing in landings}
        for slot in plan.slots:
            for task in map(str, slot.tasks):
                most = max(landing.folders.get(task, 0) for landing in landings)
                here = next(landing for landing in landings if landing.slot == slot.slot)
                assert here.folders.get(task, 0) > 0 or most == 0, "each task is where some of its state lies"
        restored = {one.slot: one.to_restore for one in published(log, Numbers) if one.epoch == plan.epoch}
        changelog = [TopicPartition("wordcount-counts-changelog", number) for number in range(4)]
        assert sum(restored.values()) < sum(log.log.ends(changelog).values()) / 2
