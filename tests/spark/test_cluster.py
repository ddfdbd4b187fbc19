"""Apps on a real standalone cluster, under load and under fire. `tidegate run` is a process of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
from tests.spark.cluster import Cluster

import tidegate
from tidegate import TableTopic, Topic
from tidegate.config import Config, load_config
from tidegate.connection import Connection

LINES = Topic("lines", str)
COUNTS = TableTopic("word-counts", int)
EXAMPLE = Path(__file__).parents[2] / "examples" / "wordcount" / "wordcount.py"
TOML = """
app = "wordcount:app"
log = "sqlite:///log.db"
[spark]
master = "{master}"
[spark.conf]
"spark.driver.host" = "127.0.0.1"
"spark.driver.bindAddress" = "127.0.0.1"
"spark.executor.memory" = "1g"
"spark.executor.cores" = "1"
"spark.network.timeout" = "10s"
"spark.network.timeoutInterval" = "5s"
"spark.executor.heartbeatInterval" = "1s"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


@pytest.fixture
def config(tmp_path: Path, cluster: Cluster) -> Config:
    shutil.copy(EXAMPLE, tmp_path)
    (tmp_path / "tidegate.toml").write_text(TOML.format(master=cluster.url))
    return load_config(environ={}, folder=tmp_path)


@pytest.fixture
def log(config: Config) -> Iterator[Connection]:
    with tidegate.connect(config=config) as opened:
        opened.send(LINES, "k", "the first")
        yield opened


Run = Callable[..., "Command"]


@pytest.fixture
def command(config: Config) -> Iterator[Run]:
    """Runs `tidegate run ...`, and ends at last what a failed test left."""
    started: list[Command] = []

    def command(*arguments: str) -> Command:
        started.append(Command(config, *arguments))
        return started[-1]

    yield command
    for one in started:
        one.close()


class Command:
    """`tidegate run`, its words on stderr kept."""

    def __init__(self, config: Config, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidegate", "run", *arguments],
            cwd=config.folder,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")},
        )
        assert self.process.stderr is not None
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True)
        self._reader.start()

    def wait_until(self, text: str, seconds: float = 90) -> None:
        wait_for(lambda: any(text in line for line in self.said), seconds)

    def end(self, number: signal.Signals, seconds: float) -> int:
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def kill(self) -> None:
        """The whole driver at once: Python and Java."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        self._reader.join()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self.said.append(line.decode(errors="replace"))


class Feeder:
    """Sends lines all the time, and knows what it sent."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._ended = threading.Event()
        self.sent = ["the first"]
        self._thread = threading.Thread(target=self._feed)
        self._thread.start()

    def close(self) -> dict[str, int]:
        """What must come out."""
        self._ended.set()
        self._thread.join()
        return dict(Counter(word for line in self.sent for word in line.split()))

    def _feed(self) -> None:
        with tidegate.connect(config=self._config) as log:
            while not self._ended.is_set():
                line = f"the {len(self.sent) % 10} quick"
                log.send(LINES, f"k{len(self.sent) % 7}", line)
                self.sent.append(line)
                time.sleep(0.02)


def wait_for(condition: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.1)


def rises_by_one(log: Connection) -> bool:
    """Each count of each word once, in order: nothing lost, nothing twice (I1, I2, I4)."""
    seen: dict[str, list[int | None]] = {}
    for record in log.read(COUNTS):
        seen.setdefault(record.key, []).append(record.value)
    return all(values == list(range(1, len(values) + 1)) for values in seen.values())


def progress(log: Connection) -> int:
    return log.rows(COUNTS).get("the", 0)


def test_a_lost_worker_and_a_lost_driver_cost_nothing(
    config: Config, log: Connection, cluster: Cluster, command: Run
) -> None:
    feeder = Feeder(config)
    try:
        run = command("--slots", "2")
        run.wait_until("running, 2 slots")
        wait_for(lambda: progress(log) > 50)
        cluster.workers[0].close()
        before = progress(log)
        wait_for(lambda: progress(log) > before + 100)
        assert rises_by_one(log)
        run.kill()
        cluster.workers[0] = cluster.start_worker(1)
        again = command("--slots", "2")
        again.wait_until("running, 2 slots")
        before = progress(log)
        wait_for(lambda: progress(log) > before + 100)
    finally:
        expected = feeder.close()
    wait_for(lambda: log.rows(COUNTS) == expected)
    assert again.end(signal.SIGTERM, 30) == 0
    assert log.rows(COUNTS) == expected
    assert rises_by_one(log)
