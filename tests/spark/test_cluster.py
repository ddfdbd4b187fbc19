"""Apps on a real standalone cluster, under load and under fire. `tidegate run` is a process of its own."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import msgspec
import pytest
from tests import waiting
from tests.spark.cluster import QUICK, Cluster, Node
from tests.spark.command import TIDEGATE, Command
from tests.spark.warm_daemon import CONF
from tests.waiting import HANG_SECONDS

import tidegate
from tidegate import TableTopic, Topic
from tidegate.config.config import Config, load_config
from tidegate.connect.connection import Connection
from tidegate.load import load_app
from tidegate.log import names
from tidegate.log.reads import read_between
from tidegate.log.topic import TopicSpec
from tidegate.runtime.slot.host import folders_here
from tidegate.runtime.topics.status import Landing, Numbers, Status
from tidegate.testing import Driver
from tidegate.types import TopicPartition

S = TypeVar("S")
LINES = Topic("lines", str)
COUNTS = TableTopic("word-counts", int)
EXAMPLE = Path(__file__).parents[2] / "examples" / "wordcount" / "wordcount.py"
KEPT_COUNTS = TopicSpec(COUNTS.name, 4, {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"})
"""Every count stays, so that one that was left out would show."""
ORDERS_EXAMPLE = Path(__file__).parents[2] / "examples" / "orders" / "orders.py"
ALL_WORDS = r'return re.findall(r"\w+", line.lower())'
SLOWLY_WITHOUT_ONE = """import time
    time.sleep(0.05)
    return [word for word in re.findall(r"\\w+", line.lower()) if word != "the"]"""
"""So slow that its recalculation takes seconds."""
TOML = """
app = "wordcount:app"
log = "sqlite:///log.db"
[spark]
master = "{master}"
[spark.conf]
"spark.driver.host" = "127.0.0.1"
"spark.driver.bindAddress" = "127.0.0.1"
"spark.executor.memory" = "1g"
"spark.executor.cores" = "2"
"spark.cores.max" = "4"
"spark.driver.extraJavaOptions" = "{quick}"
"spark.executor.extraJavaOptions" = "{quick}"
"spark.network.timeout" = "10s"
"spark.network.timeoutInterval" = "5s"
"spark.executor.heartbeatInterval" = "1s"
""" + "".join(f'"{name}" = "{value}"\n' for name, value in CONF.items())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


@pytest.fixture
def config(tmp_path: Path, cluster: Cluster) -> Config:
    for example in (EXAMPLE, ORDERS_EXAMPLE):
        shutil.copy(example, tmp_path)
    (tmp_path / "tidegate.toml").write_text(TOML.format(master=cluster.url, quick=QUICK))
    return load_config(environ={}, folder=tmp_path)


@pytest.fixture
def log(config: Config) -> Iterator[Connection]:
    with tidegate.connect(config=config) as opened:
        opened.send(LINES, "k", "the first")
        opened.log.create(KEPT_COUNTS)
        yield opened


Run = Callable[..., Command]


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


class Feeder:
    """Sends lines all the time, inside a `with`, and knows what it sent."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._ended = threading.Event()
        self._sent = ["the first"]
        self._thread = threading.Thread(target=self._feed)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def count(self) -> int:
        """How many lines were sent so far."""
        return len(self._sent)

    def expected(self) -> dict[str, int]:
        """What must come out."""
        return dict(Counter(word for line in self._sent for word in line.split()))

    def _feed(self) -> None:
        with tidegate.connect(config=self._config) as log:
            while not self._ended.is_set():
                line = f"the {len(self._sent) % 10} quick"
                log.send(LINES, f"k{len(self._sent) % 7}", line)
                self._sent.append(line)
                time.sleep(0.02)


wait_for = partial(waiting.wait_for, every=0.4)
"""To look costs time that the cluster could use."""


def stop_outside_of_a_write(victim: Node, feeder: Feeder) -> None:
    """Suspend a worker while it does not hold the write lock of the embedded log. A process that is suspended
    while it writes blocks all others (`log-busy`), and another test is about that."""
    for _ in range(20):
        victim.send(signal.SIGSTOP)
        before = feeder.count
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            if feeder.count > before + 1:
                return
            time.sleep(0.05)
        victim.send(signal.SIGCONT)
        time.sleep(0.3)
    raise AssertionError("the worker always holds the lock")


def rises_by_one(log: Connection) -> bool:
    """Each count of each word once, in order: nothing lost, nothing twice (I1, I2, I4)."""
    seen: dict[str, list[int | None]] = {}
    for record in log.read(COUNTS):
        seen.setdefault(record.key, []).append(record.value)
    return all(values == list(range(1, len(values) + 1)) for values in seen.values())


def published(log: Connection, kind: type[S], app: str = "wordcount") -> list[S]:
    """What slots published about themselves, in order; nothing while the app has no topic for it."""
    partition = TopicPartition(names.status(app), 0)
    if partition.topic not in log.log.names():
        return []
    values = [
        value
        for batch in read_between(log.log, partition, 0, log.log.ends([partition])[partition])
        for value in batch.column(3).to_pylist()
    ]
    decoded = [msgspec.json.decode(value, type=Status) for value in values]
    return [one for one in decoded if isinstance(one, kind)]


def busy_worker(log: Connection) -> int:
    """The index of a worker that runs a slot: Spark may have put both on one."""
    return int(published(log, Landing)[-1].host.removeprefix("worker-")) - 1


def is_on_disk(cluster: Cluster, worker: int) -> None:
    """Wait until a worker's state is there for the next worker: stores commit every few seconds only."""
    wait_for(lambda: bool(folders_here(cluster.state_dir(worker + 1), "wordcount")))


def at_work(run: Command, log: Connection, slots: int = 2) -> Command:
    """Wait until its slots count, and return it."""
    run.wait_until(f"running, {slots} slots")
    goes_on(log)
    return run


def goes_on(log: Connection) -> None:
    """Wait until a hundred more lines are counted."""
    before = progress(log)
    wait_for(lambda: progress(log) > before + 100)


def progress(log: Connection) -> int:
    return log.rows(COUNTS).get("the", 0)


def ends_right(log: Connection, run: Command, number: signal.Signals, feeder: Feeder) -> None:
    """All that was sent is counted; on a stop it ends in order; and every count is there once."""
    expected = feeder.expected()
    wait_for(lambda: log.rows(COUNTS) == expected)
    assert run.end(number) == 0
    assert log.rows(COUNTS) == expected
    assert rises_by_one(log)


def test_a_lost_worker_and_a_lost_driver_cost_nothing(
    config: Config, log: Connection, cluster: Cluster, command: Run
) -> None:
    with Feeder(config) as feeder:
        run = at_work(command("--slots", "2"), log)
        lost = busy_worker(log)
        is_on_disk(cluster, lost)
        cluster.workers[lost].close()
        goes_on(log)
        assert rises_by_one(log)
        is_on_disk(cluster, 1 - lost)
        run.kill()
        cluster.workers[lost] = cluster.start_worker(lost + 1)
        again = at_work(command("--slots", "2"), log)
    ends_right(log, again, signal.SIGTERM, feeder)
    landings = published(log, Landing)
    newest = landings[-1].epoch
    assert any(one.folders for one in landings if one.epoch == newest), "state was found where it lay"
    restored = {one.slot: one.to_restore for one in published(log, Numbers) if one.epoch == newest}
    changelog = [TopicPartition("wordcount-counts-changelog", number) for number in range(4)]
    assert sum(restored.values()) < sum(log.log.ends(changelog).values())


def test_a_worker_that_stands_still_is_replaced_and_its_zombie_writes_nothing(
    config: Config, log: Connection, cluster: Cluster, command: Run
) -> None:
    with Feeder(config) as feeder:
        run = at_work(command("--slots", "2"), log)
        before = len(published(log, Landing))
        victim = cluster.workers[busy_worker(log)]
        stop_outside_of_a_write(victim, feeder)
        try:
            wait_for(lambda: len(published(log, Landing)) > before)
            goes_on(log)
        finally:
            victim.send(signal.SIGCONT)
        goes_on(log)
    ends_right(log, run, signal.SIGINT, feeder)


@pytest.mark.parametrize(
    ("first", "second", "later"),
    [
        pytest.param(3, 1, [], id="three-then-one"),
        pytest.param(
            2, 3, [1], id="two-then-three-then-one", marks=pytest.mark.soak(only="starts nine JVMs more")
        ),
    ],
)
def test_of_two_drivers_the_newer_goes_on_with_any_number_of_slots(
    config: Config, log: Connection, command: Run, first: int, second: int, later: list[int]
) -> None:
    """Those that start later are started after an orderly stop."""
    with Feeder(config) as feeder:
        older = at_work(command("--slots", f"{first}"), log, slots=first)
        run = command("--slots", f"{second}")
        assert older.process.wait(HANG_SECONDS) == 1
        assert any("[fenced]" in line for line in older.lines)
        at_work(run, log, slots=second)
        assert rises_by_one(log)
        for slots in later:
            assert run.end(signal.SIGTERM) == 0
            run = at_work(command("--slots", f"{slots}"), log, slots=slots)
    ends_right(log, run, signal.SIGTERM, feeder)


@pytest.mark.soak(only="starts eight JVMs; test_upgrade_scenarios.py kills the Python workers of one machine")
def test_an_upgrade_whose_executor_is_killed_goes_on_with_another(
    config: Config, log: Connection, cluster: Cluster, command: Run
) -> None:
    """The first version counted "the", the second one leaves it out: one tombstone, nothing else."""
    for number in range(200):
        log.send(LINES, f"k{number % 7}", f"the quick {number % 10}")
    assert command("--slots", "2", "--until-caught-up").process.wait(HANG_SECONDS) == 0
    before, end = log.rows(COUNTS), sum(log.log.ends(partitions(COUNTS)).values())
    assert before["the"] == 201
    code = config.folder / EXAMPLE.name
    code.write_text(code.read_text().replace(ALL_WORDS, SLOWLY_WITHOUT_ONE))
    consent = ("--yes", "--allow-removals", COUNTS.name)
    upgrade = Command(config, "upgrade", *consent, program=TIDEGATE)
    landed = partial(published, log, Landing, names.upgrade("wordcount"))
    with closing(upgrade):
        wait_for(lambda: bool(landed()))
        first = landed()[0]
        os.kill(executor_of(first.pid), signal.SIGKILL)
        wait_for(lambda: any(one.attempt > first.attempt and one.pid != first.pid for one in landed()))
        assert upgrade.process.wait(HANG_SECONDS) == 0, upgrade.lines
    del before["the"]
    assert log.rows(COUNTS) == before
    assert sum(log.log.ends(partitions(COUNTS)).values()) == end + 1
    with Feeder(config) as feeder:
        run = command("--slots", "2")
        wait_for(lambda: log.rows(COUNTS)["quick"] > before["quick"] + 50)
    expected = {word: count for word, count in feeder.expected().items() if word not in {"the", "first"}}
    wait_for(lambda: all(log.rows(COUNTS)[word] == before[word] + expected[word] for word in expected))
    assert run.end(signal.SIGTERM) == 0


def partitions(topic: TableTopic[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for number in range(4)]


def executor_of(worker: int) -> int:
    """The JVM that started a Python worker."""
    pid = worker
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


@pytest.mark.soak(only="test_running.py compares orders with the driver of testing on one machine")
def test_orders_have_on_the_cluster_the_results_of_the_test_driver(
    config: Config, log: Connection, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ORDERS_EXAMPLE.parent))
    module = importlib.import_module("orders")
    sent = {f"c{key}": [module.Order(number, 7 * number + key) for number in range(60)] for key in range(9)}
    for key, orders in sent.items():
        log.send(module.ORDERS, key, *orders)
    with Driver(load_app("orders:app"), partitions=4) as driver:
        for key, orders in sent.items():
            driver.send(module.ORDERS, key, *orders)
        driver.run()
        assert command("orders:app", "--slots", "2", "--until-caught-up").process.wait(HANG_SECONDS) == 0
        there = [(record.key, record.value) for record in log.read(module.TOTALS)]
        expected = {
            key: [
                module.Totals(count, sum(order.cents for order in orders[:count]))
                for count in range(1, len(orders) + 1)
            ]
            for key, orders in sent.items()
        }
        assert by_key([(r.key, r.value) for r in driver.records(module.TOTALS)]) == expected
        assert by_key(there) == expected
    sys.modules.pop("orders")


def by_key(records: list[tuple[str, S]]) -> dict[str, list[S]]:
    found: dict[str, list[S]] = {}
    for key, value in records:
        found.setdefault(key, []).append(value)
    return found
