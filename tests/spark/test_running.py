"""Apps on real Spark: the same committed output as in the driver of `tidegate.testing`, kills or no kills."""

from __future__ import annotations

import gc
import importlib
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.repetitions import repeated
from tests.spark.processes import python_workers
from tests.waiting import HANG_SECONDS, wait_for

import tidegate
from tidegate.config.config import Config, load_config
from tidegate.connect.connection import Connection
from tidegate.errors import ConfigError, TidegateError
from tidegate.load import load_app
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.coordinator import DriverState, Patience
from tidegate.runtime.topics.status import Landing
from tidegate.spark.running import Running
from tidegate.testing import Driver

EXAMPLES = Path(__file__).parents[2] / "examples"
CYCLES = repeated(10, soak=50)
SPARE = {"files": 2, "threads": 2, "workers": 1, "folders": 0}
SETTLE_SECONDS = 20.0
"""For what is about to end. Idle Python workers live for a minute."""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    for example in ("wordcount", "orders"):
        monkeypatch.syspath_prepend(str(EXAMPLES / example))
    yield load_config({"log": "sqlite:///log.db"}, environ={}, folder=tmp_path)
    for example in ("wordcount", "orders"):
        sys.modules.pop(example, None)


Start = Callable[..., Running]


def finished(run: Running, seconds: float = HANG_SECONDS) -> None:
    assert run.wait(seconds), "it did not end in time"
    assert run.state is DriverState.STOPPED


def lines(count: int) -> list[tuple[str, str]]:
    return [(f"k{number % 7}", f"the {number % 10} quick {number % 3} foxes") for number in range(count)]


def counted(sent: list[tuple[str, str]]) -> dict[str, int]:
    return dict(Counter(word for _, line in sent for word in line.split()))


def landed_again(run: Running, before: Landing) -> bool:
    return run.view.landings[before.slot].attempt > before.attempt


def test_word_count_has_the_results_of_the_test_driver(start: Start, log: Connection) -> None:
    module = importlib.import_module("wordcount")
    sent = lines(500)
    for key, line in sent:
        log.send(module.LINES, key, line)
    finished(start("wordcount:app", until_caught_up=True))
    with Driver(module.app, partitions=4) as driver:
        for key, line in sent:
            driver.send(module.LINES, key, line)
        driver.run()
        assert log.rows(module.COUNTS) == driver.rows(module.COUNTS) == counted(sent)


def test_orders_with_settings_have_the_results_of_the_test_driver(start: Start, log: Connection) -> None:
    module = importlib.import_module("orders")
    rng = random.Random(3)
    sent = [(f"c{rng.randrange(9)}", module.Order(number, rng.randrange(2000))) for number in range(300)]
    for key, order in sent:
        log.send(module.ORDERS, key, order)
    finished(start("orders:app", until_caught_up=True))
    with Driver(load_app("orders:app"), partitions=4) as driver:
        for key, order in sent:
            driver.send(module.ORDERS, key, order)
        driver.run()
        assert log.rows(module.TOTALS) == driver.rows(module.TOTALS) == totals(module, sent)


def totals(module: Any, sent: list[tuple[str, Any]]) -> dict[str, Any]:
    """In plain Python, so that two empty results are no success."""
    cents: dict[str, list[int]] = {}
    for key, order in sent:
        cents.setdefault(key, []).append(order.cents)
    return {key: module.Totals(len(all_of), sum(all_of)) for key, all_of in cents.items()}


@pytest.mark.soak
def test_killed_slots_lose_nothing_and_repeat_nothing(start: Start, config: Config, log: Connection) -> None:
    """I1, I2, I4: watched by a reader outside while it runs: counts of a word rise one by one."""
    module = importlib.import_module("wordcount")
    kills, rng = repeated(3, soak=50), random.Random(5)
    kept = {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}
    log.log.create(TopicSpec(module.COUNTS.name, 4, kept))  # one that was left out must show
    log.send(module.LINES, "first", "the first")
    sent = [("first", "the first")]
    ended = threading.Event()

    def feed() -> None:
        with tidegate.connect(config=config) as mine:
            while not ended.is_set():
                key, line = f"k{len(sent) % 7}", f"the {len(sent) % 10} quick"
                mine.send(module.LINES, key, line)
                sent.append((key, line))
                time.sleep(0.01)

    feeder = threading.Thread(target=feed)
    run = start("wordcount:app")
    try:
        wait_for(lambda: run.state is DriverState.RUNNING)
        feeder.start()
        for _ in range(kills):
            time.sleep(rng.uniform(0.3, 1.5))
            victim = run.view.landings[rng.randrange(2)]
            os.kill(victim.pid, signal.SIGKILL)
            wait_for(partial(landed_again, run, victim))
    finally:
        ended.set()
        if feeder.ident is not None:
            feeder.join()
    wait_for(lambda: log.rows(module.COUNTS) == counted(sent))
    run.stop()
    finished(run)
    assert log.rows(module.COUNTS) == counted(sent)
    seen: dict[str, list[int | None]] = {}
    for record in log.read(module.COUNTS):
        seen.setdefault(record.key, []).append(record.value)
    assert all(values == list(range(1, len(values) + 1)) for values in seen.values())


def test_a_stop_is_committed_and_gone_within_ten_seconds(start: Start, log: Connection) -> None:
    module = importlib.import_module("wordcount")
    sent = lines(200)
    for key, line in sent:
        log.send(module.LINES, key, line)

    def seconds_of_a_stop() -> float:
        run = start("wordcount:app")
        wait_for(lambda: log.rows(module.COUNTS) == counted(sent) and run.state is DriverState.RUNNING)
        began = time.monotonic()
        run.stop()
        finished(run)
        return time.monotonic() - began

    assert any(seconds_of_a_stop() < 10 for _ in range(3)), "a busy machine may spoil one of them"
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tidegate-slot")]


@pytest.mark.soak
def test_starts_and_stops_leak_nothing(
    start: Start, log: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I15: threads, files and Python workers after many are those after a few."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # others on this machine make folders, too
    module = importlib.import_module("wordcount")

    def cycle(number: int) -> None:
        log.send(module.LINES, "k", f"word{number}")
        run = start("wordcount:app")
        wait_for(lambda: f"word{number}" in log.rows(module.COUNTS))
        run.stop()
        finished(run)

    for number in range(4):
        cycle(number)
    before = held()
    for number in range(4, CYCLES):
        cycle(number)
    most = {name: count + SPARE[name] for name, count in before.items()}
    with suppress(AssertionError):
        wait_for(lambda: all(count <= most[name] for name, count in held().items()), SETTLE_SECONDS)
    after = held()
    assert {name: count for name, count in after.items() if count > most[name]} == {}
    assert len(log.rows(module.COUNTS)) == CYCLES


def held() -> dict[str, int]:
    """What this process and its Spark hold."""
    gc.collect()
    made = [path for path in Path(tempfile.gettempdir()).glob("tidegate-*") if path.is_dir()]
    return {
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "workers": len(python_workers()),
        "folders": len(made),
    }


def test_jobs_are_described_by_app_slot_and_tasks(start: Start, spark: SparkSession, log: Connection) -> None:
    module = importlib.import_module("wordcount")
    log.send(module.LINES, "k", "a b")
    run = start("wordcount:app")
    wait_for(lambda: log.rows(module.COUNTS) == {"a": 1, "b": 1})
    os.kill(run.view.landings[0].pid, signal.SIGKILL)
    store: Any = spark.sparkContext._jsc

    def groups() -> list[tuple[str, str]]:
        jobs = [job for job in jobs_of(store.sc().statusStore()) if job.jobGroup().isDefined()]
        pairs = [(job.jobGroup().get(), job.description().get()) for job in jobs]
        return [pair for pair in pairs if "attempt 2" in pair[1]]

    wait_for(lambda: bool(groups()))  # Spark's listeners hear of a job after it has begun
    group, description = groups()[0]
    assert group == "tidegate-wordcount-slot-0"
    assert description.startswith("tidegate wordcount: slot 0, epoch 1, attempt 2, tasks: by-word.g1/")
    run.stop()
    finished(run)


def jobs_of(store: Any) -> list[Any]:
    jobs = store.jobsList(None)
    return [jobs.apply(number) for number in range(jobs.size())]


def test_a_user_error_stops_the_app_with_its_cause(start: Start, config: Config, log: Connection) -> None:
    folder = config.folder / "apps"
    folder.mkdir()
    (folder / "unlucky_app.py").write_text(
        "from tidegate import App, Topic\n"
        "app = App('unlucky')\n"
        "def fail(value: str) -> str:\n"
        "    raise ValueError('unlucky')\n"
        "app.stream(Topic('lines', str)).map(fail).to(Topic('out', str))\n"
    )
    sys.path.insert(0, str(folder))
    try:
        log.send(importlib.import_module("wordcount").LINES, "k", "v")
        run = start("unlucky_app:app", patience=Patience(failures=1, back_off_seconds=0.1))
        with pytest.raises(TidegateError, match=r"ValueError: unlucky at unlucky_app.py:4"):
            run.wait(HANG_SECONDS)
        assert run.state is DriverState.FAILED
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("unlucky_app", None)


def test_an_app_that_executors_cannot_import_ends_with_the_cause_at_once(
    start: Start, config: Config, log: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = config.folder / "apps"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    (folder / "driver_only.py").write_text(
        "import sys\n"
        "from tidegate import App, Topic\n"
        "if 'pyspark.worker' in sys.modules:\n"
        "    raise OSError('no licence on this host')\n"
        "app = App('driver-only')\n"
        "app.stream(Topic('lines', str)).to(Topic('out', str))\n"
    )
    log.send(importlib.import_module("wordcount").LINES, "k", "v")
    try:
        run = start("driver_only:app")
        with pytest.raises(
            ConfigError, match=r"OSError: no licence on this host at driver_only.py:4"
        ) as caught:
            run.wait(HANG_SECONDS)
        assert caught.value.code == "broken-app"
        assert max(one.attempt for _, one in run.view.failures) < 10, "far below the patience of 100 failures"
    finally:
        sys.modules.pop("driver_only", None)


def test_each_run_in_a_session_has_the_code_that_it_was_started_with(
    start: Start, config: Config, log: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session still has the other file, and its Python processes the other modules."""
    folder = config.folder / "apps"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two versions have the same time
    copied = tidegate.Topic("copied", str, partitions=1)
    for number, version in enumerate(["old", "new", "old"]):
        (folder / "edited_app.py").write_text(
            "from tidegate import App, Topic\n"
            f"app = App('edited-{number}')\n"
            "def name(value: str) -> str:\n"
            f"    return value + ' by {version}'\n"
            f"app.stream(Topic('lines-{number}', str, partitions=1)).map(name).to(Topic('copied', str))\n"
        )
        monkeypatch.delitem(sys.modules, "edited_app", raising=False)
        importlib.invalidate_caches()
        log.send(tidegate.Topic(f"lines-{number}", str, partitions=1), "k", "made")
        finished(start("edited_app:app", until_caught_up=True, slots=1))
    assert [record.value for record in log.read(copied)] == ["made by old", "made by new", "made by old"]


def test_speculation_is_refused(start: Start, spark: SparkSession, log: Connection) -> None:
    log.send(importlib.import_module("wordcount").LINES, "k", "v")
    spark.sparkContext._conf.set("spark.speculation", "true")
    try:
        with pytest.raises(ConfigError) as error:
            start("wordcount:app")
        assert error.value.code == "speculation"
        assert not any(name.startswith("wordcount") for name in log.log.names())
    finally:
        spark.sparkContext._conf.set("spark.speculation", "false")
