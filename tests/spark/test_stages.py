"""DataFrame stages on real Spark: exactly once and in order, with kills and without."""

from __future__ import annotations

import importlib
import math
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.repetitions import repeated
from tests.spark.processes import python_workers
from tests.waiting import HANG_SECONDS, wait_for

from tidegate import App, TableTopic, Topic
from tidegate.config.config import Config, load_config
from tidegate.connect.connection import Connection
from tidegate.errors import ConfigError, TidegateError
from tidegate.load import load_app
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.spark.running import Running
from tidegate.testing import Driver

EXAMPLE = Path(__file__).parents[2] / "examples" / "regions"
CUSTOMERS = {"ada": "north", "bob": "south", "cem": "north"}
PLAIN = Topic("plain", str)
OUT, COUNTS = Topic("out", str), TableTopic("counts", int)
KILLS = repeated(6, soak=20)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Iterator[Config]:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    table = str(tmp_path / "regions.parquet")
    spark.createDataFrame(list(CUSTOMERS.items()), "customer string, region string").write.parquet(table)
    settings = {"log": "sqlite:///log.db", "settings": {"regions": table}}
    yield load_config(settings, environ={}, folder=tmp_path)
    sys.modules.pop("regions", None)


def orders(module: Any, count: int, first: int = 0) -> list[tuple[str, Any]]:
    people = [*CUSTOMERS, "nobody"]
    return [(people[n % 4], module.Order(n, 10 * n)) for n in range(first, first + count)]


def expected(sent: list[tuple[str, Any]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, order in sent:
        region = CUSTOMERS.get(key, "unknown")
        found[region] = found.get(region, 0) + order.cents
    return found


def check_placed(records: list[Any], sent: list[tuple[str, Any]]) -> None:
    """Every order once, each customer's in order, numbered by the step before the stage."""
    seen: dict[str, list[tuple[int, int, str]]] = {}
    for record in records:
        seen.setdefault(record.key, []).append((record.value.id, record.value.number, record.value.region))
    for key in {key for key, _ in sent}:
        ids = [order.id for sender, order in sent if sender == key]
        region = CUSTOMERS.get(key, "unknown")
        assert seen[key] == [(one, number, region) for number, one in enumerate(ids, 1)]


def test_a_stage_joins_with_parquet_between_two_keyed_steps_in_the_driver_of_testing(
    spark: SparkSession, config: Config
) -> None:
    module = importlib.import_module("regions")
    sent = orders(module, 40)
    with Driver(load_app("regions:app", config.settings), partitions=3, spark=spark) as d:
        for key, order in sent[:20]:
            d.send(module.ORDERS, key, order)
        d.run()
        d.move()
        for key, order in sent[20:]:
            d.send(module.ORDERS, key, order)
        d.crash("commit.6")
        d.run()
        check_placed(d.records(module.PLACED), sent)
        assert d.rows(module.SALES) == expected(sent)
        d.assert_stores_match_changelogs()


def test_a_stage_on_slots_reads_its_topics_to_their_ends(
    start: Callable[..., Running], log: Connection
) -> None:
    module = importlib.import_module("regions")
    sent = orders(module, 200)
    for key, order in sent:
        log.send(module.ORDERS, key, order)
    run = start("regions:app", slots=1, until_caught_up=True)
    assert run.wait(HANG_SECONDS)
    assert run.state is DriverState.STOPPED
    check_placed(list(log.read(module.PLACED)), sent)
    assert log.rows(module.SALES) == expected(sent)


@pytest.mark.soak
def test_kills_at_random_times_lose_nothing_and_repeat_nothing(
    start: Callable[..., Running], log: Connection
) -> None:
    """Workers of slots and of the stage are killed while it runs; in the middle a new driver takes over from
    one that still runs. There is no checkpoint: nothing but the log survives that. It goes on until a kill
    has met the stage, whose workers may be idle, and the slot."""
    module = importlib.import_module("regions")
    sent: list[tuple[str, Any]] = []
    rng, ended = random.Random(11), threading.Event()

    def feed() -> None:
        while not ended.is_set():
            [(key, order)] = orders(module, 1, first=len(sent))
            log.send(module.ORDERS, key, order)
            sent.append((key, order))
            time.sleep(0.008)

    feeder = threading.Thread(target=feed)
    log.send(module.ORDERS, "first", module.Order(0, 0))
    runs = [start("regions:app", slots=1)]
    wait_for(lambda: len(log.rows(module.SALES)) > 0)
    python_workers()  # Spark may replace a daemon; its workers are found even then if they are known
    feeder.start()

    def hit() -> set[int]:
        return {failure.slot for one in runs for failure in one.view.recent_failures(math.inf)}

    try:
        kills, deadline = 0, time.monotonic() + HANG_SECONDS
        while kills < KILLS or hit() != {0, -1}:
            assert time.monotonic() < deadline, f"the kills met {hit()} only"
            # Later ones must leave the slot time to send something to the stage.
            time.sleep(rng.uniform(0.2, 1.6) if kills < KILLS else rng.uniform(1.0, 8.0))
            if kills == KILLS // 2:
                runs.append(start("regions:app", slots=1))
                kills += 1
                continue
            workers = python_workers()
            for worker in workers if kills % 2 else rng.sample(workers, min(1, len(workers))):
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
            kills += bool(workers)
    finally:
        ended.set()
        feeder.join()
    total = expected(sent)
    wait_for(lambda: log.rows(module.SALES) == total)
    runs[-1].stop()
    assert runs[-1].wait(HANG_SECONDS)
    placed = [record for record in log.read(module.PLACED) if record.key != "first"]
    check_placed(placed, sent)
    assert log.rows(module.SALES) == total


def staged(function: Callable[[DataFrame], Any], **types: Any) -> App:
    app = App("staged")
    app.stream(PLAIN).frame("stage", function, **types).to(OUT)
    return app


def doubled(frame: DataFrame) -> DataFrame:
    return frame.unionAll(frame)


def without_place(frame: DataFrame) -> DataFrame:
    return frame.select("key", f.upper("value").alias("value"))


def nothing(frame: DataFrame) -> DataFrame:
    return frame.where("false")


def counted(frame: DataFrame) -> DataFrame:
    """Not possible on a stream without watermark and state: each batch is a frame like any other."""
    return frame.groupBy("key").agg(f.max("value").alias("value"), f.max("timestamp").alias("timestamp"))


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (doubled, ["a", "a", "b", "b", "c", "c"]),
        (without_place, ["A", "B", "C"]),
        (nothing, []),
        (counted, ["a", "b", "c"]),
    ],
)
def test_a_function_may_return_more_rows_fewer_or_none(
    spark: SparkSession, function: Callable[[DataFrame], DataFrame], values: list[str]
) -> None:
    with Driver(staged(function), partitions=2, spark=spark) as d:
        for value in "abc":
            d.send(PLAIN, f"k{value}", value, timestamp=1_000)
        d.run()
        assert sorted(d.values(OUT)) == values
        d.run()
        assert sorted(d.values(OUT)) == values


def test_headers_and_timestamps_go_through(spark: SparkSession) -> None:
    with Driver(staged(lambda frame: frame), spark=spark) as d:
        d.send(PLAIN, "k", "v", timestamp=123, headers=(("mine", b"x"), ("none", None)))
        d.run()
        [record] = d.records(OUT)
        own = [pair for pair in record.headers if not pair[0].startswith("tidegate.")]
        assert (record.timestamp, own) == (123, [("mine", b"x"), ("none", None)])


def no_frame(frame: DataFrame) -> int:
    return 3


def no_value(frame: DataFrame) -> DataFrame:
    return frame.select("key")


def no_key(frame: DataFrame) -> DataFrame:
    return frame.withColumn("key", f.lit(None).cast("string"))


def raising(frame: DataFrame) -> DataFrame:
    raise ValueError("unlucky")


def other_type(frame: DataFrame) -> DataFrame:
    return frame.withColumn("value", f.lit(1.5))


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (no_frame, "user-code"),
        (no_value, "bad-frame"),
        (no_key, "null-key"),
        (raising, "user-code"),
        (other_type, "bad-frame"),
    ],
)
def test_what_a_function_does_wrong_is_reported_and_nothing_is_lost(
    spark: SparkSession, function: Callable[[DataFrame], Any], code: str
) -> None:
    with Driver(staged(function), spark=spark) as d:
        d.send(PLAIN, "k", "v")
        with pytest.raises(TidegateError) as error:
            d.run()
        assert error.value.code == code
        assert d.values(OUT) == []


def test_a_driver_of_testing_needs_a_session_for_stages() -> None:
    with pytest.raises(ConfigError) as error:
        Driver(staged(lambda frame: frame))
    assert error.value.code == "no-session"
