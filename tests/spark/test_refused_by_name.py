"""What only Spark can get wrong has a code of its own: those that no other test is about."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.waiting import HANG_SECONDS

from tidegate import Topic
from tidegate.config.config import Config, load_config
from tidegate.connect.connect import connect
from tidegate.connect.connection import Connection
from tidegate.errors import ConfigError, TidegateError
from tidegate.runtime.driver.coordinator import Patience
from tidegate.spark.running import Running
from tidegate.spark.write import write_topic

WORDS = Topic("words", str)

LATE = """
from pyspark.sql import functions as f
from tidegate import App, Topic

def failing_late(frame):
    return frame.withColumn("value", f.raise_error(f.lit("out of luck")).cast("string"))

app = App("late")
app.stream(Topic("words", str)).frame("late", failing_late).to(Topic("out", str))
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    (tmp_path / "late.py").write_text(LATE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return load_config({"log": "sqlite:///log.db"}, environ={}, folder=tmp_path)


def test_a_stage_that_fails_inside_of_spark_is_reported_in_one_line(
    start: Callable[..., Running], log: Connection
) -> None:
    """Its function is done long before Spark computes."""
    log.send(WORDS, "k", "v")
    run = start("late:app", slots=1, until_caught_up=True, patience=Patience(failures=1))
    with pytest.raises(TidegateError, match=r"stage 'late': .*out of luck") as caught:
        run.wait(HANG_SECONDS)
    assert caught.value.code == "stage-failed"
    assert "\n" not in caught.value.message
    assert list(log.read(Topic("out", str))) == []


def test_a_batch_is_written_without_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    frame = spark.createDataFrame([("k", "v")], "key string, value string")
    with pytest.raises(ConfigError) as caught:
        write_topic(frame, WORDS, log=url, checkpoint=str(tmp_path / "checkpoint"))
    assert caught.value.code == "not-streaming"
    with connect(url) as log:
        assert list(log.read(WORDS)) == []


SHIPPED = """
import msgspec
from tidegate import Topic
from tidegate.errors import ConfigError
from tidegate.spark.spark_types import pickled

class Tree(msgspec.Struct):
    below: "list[Tree]" = []

try:
    pickled(Topic("trees", Tree))
except ConfigError as error:
    print(error.code)
"""


def test_a_type_that_cannot_be_sent_to_executors_is_refused() -> None:
    """One that lies in no module and names itself: there is no end to what would have to be sent."""
    ran = subprocess.run([sys.executable, "-c", SHIPPED], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "cannot-ship"
