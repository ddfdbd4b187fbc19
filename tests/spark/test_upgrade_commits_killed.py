"""Workers of slots are killed at each step of a commit while Spark recalculates an app: the upgrade ends with
the rows of a fresh run, and publishes each row that differs once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.repetitions import SOAK
from tests.spark.scenarios import SCENARIOS
from tests.spark.two_versions import SQLITE, written_versions
from tests.spark.upgrade_story import PARTITIONS, Story
from tests.waiting import HANG_SECONDS

from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.load import load_app
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.spark.running import Running

Start = Callable[..., Running]
SCENARIO = SCENARIOS["removed source"]
BEFORE_COMMIT = [*(f"commit.{step}" for step in range(1, 6)), "log.commit.7"]
POINTS = [[*BEFORE_COMMIT, "commit.6", "commit.7"], [*BEFORE_COMMIT, "log.commit.8", "commit.7"]]
"""Of the first subtopology, and of the one behind its internal topic. A slot that is killed when the log has
committed has nothing to commit again, so one such step is enough for each."""
FEW_POINTS = [["commit.6"], ["commit.5"]]
"""In each run: restarts of workers take CPU."""
KILLS = '''

import os
import signal
import sys
from pathlib import Path

from tidegate.log import faultpoints

FOLDER = Path("{folder}")


def kill_once(point: str) -> None:
    """Kill this worker at each point that is requested, the first time that any worker reaches it."""
    try:
        (FOLDER / point).rename(FOLDER / f"{{point}}.reached")
    except OSError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


if "pyspark.worker" in sys.modules:
    faultpoints._hook = kill_once
'''
"""The end of the new version's module, which workers import. A point is requested by a file of its name."""


@pytest.fixture
def prefix() -> str:
    return f"u{uuid.uuid4().hex[:8]}"


@pytest.fixture
def requested(tmp_path: Path) -> Path:
    folder = tmp_path / "kills"
    folder.mkdir()
    return folder


@pytest.fixture
def config(
    kind: str,
    prefix: str,
    requested: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Config]:
    url = request.getfixturevalue("kafka").url if kind == "kafka" else SQLITE
    old, new = SCENARIO.texts(prefix)
    texts = [old, new + KILLS.format(folder=requested)]
    with written_versions(texts, prefix, tmp_path, monkeypatch, log=url, partitions=PARTITIONS) as found:
        yield found


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("kafka", marks=pytest.mark.soak(only="takes 14 s of CPU")),
        pytest.param("sqlite", marks=pytest.mark.soak),
    ],
)
def test_a_slot_that_is_killed_at_any_step_of_a_commit_goes_on(
    start: Start, spark: SparkSession, config: Config, log: Connection, prefix: str, requested: Path
) -> None:
    story = Story(SCENARIO, prefix, config, log)
    story.send(150)
    old = start(story.version(1))
    story.wait_for_events()
    old.stop()
    assert old.wait(HANG_SECONDS)
    known, before = find_manifest(log.log, prefix), story.seen()
    points = POINTS if SOAK else FEW_POINTS
    steps = iter(points)

    def request_kills(point: str) -> None:
        if point == "recalculate.3":
            for one in next(steps):
                (requested / one).touch()

    app = load_app(story.version(2))
    entry = story.upgrade(app, spark, request_kills)
    reached = {f"{point}.reached" for of_step in points for point in of_step}
    assert {path.name for path in requested.iterdir()} == reached
    story.check_upgraded(app, entry, before, known)
