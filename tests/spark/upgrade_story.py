"""An app of `scenarios` on a log: its topics, the numbers that are sent to it, and what must hold."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

from pyspark.sql import SparkSession
from tests.spark.conftest import PATIENT, connected
from tests.spark.scenarios import Rows, Scenario
from tests.upgrade.upgraded import Seen, check_upgraded, seen
from tests.waiting import HANG_SECONDS, wait_for

from tidegate import App, TableTopic, Topic
from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.log import names
from tidegate.log.faultpoints import installed
from tidegate.log.protocol import Log
from tidegate.log.topic import TopicSpec
from tidegate.runtime.topics.control import read_control
from tidegate.runtime.topics.status import Landing, StatusFollower
from tidegate.runtime.topics.upgrades import UpgradeEntry, upgrade_of
from tidegate.spark.recalculating import upgrade_on_spark
from tidegate.topology.manifest import Manifest
from tidegate.upgrade.consent import Consent

PARTITIONS = 3
KEPT = {"min.compaction.lag.ms": "86400000"}
"""A reader sees every record of a table topic."""
AllSeen = dict[str, dict[int, Seen]]


class Story:
    """What was sent to an app in two versions, and what its consumers see."""

    def __init__(self, scenario: Scenario, prefix: str, config: Config, log: Connection) -> None:
        self.prefix, self.out, self.events = prefix, f"{prefix}-out", f"{prefix}-events"
        self._scenario, self._config, self._log = scenario, config, log
        self._sources = Topic(f"{prefix}-in", int), Topic(f"{prefix}-more", int)
        self.numbers: list[int] = []
        self.more: list[int] = []
        for topic in (*(source.name for source in self._sources), self.events):
            log.log.create(TopicSpec(topic, PARTITIONS))
        log.log.create(TopicSpec(self.out, PARTITIONS, {"cleanup.policy": "compact", **KEPT}))

    @property
    def consent(self) -> Consent:
        return Consent(removals=frozenset([self.out]))

    def version(self, number: int) -> str:
        return f"{self.prefix}_{number}:app"

    def send(self, count: int, log: Connection | None = None) -> None:
        """Send the next numbers. One in five goes to the second source."""
        numbers, more = self._sources
        for _ in range(count):
            next_one = len(self.numbers) + len(self.more)
            if next_one % 5 == 4:
                (log or self._log).send(more, f"k{next_one % 7}", -next_one)
                self.more.append(-next_one)
            else:
                (log or self._log).send(numbers, f"k{next_one % 7}", next_one)
                self.numbers.append(next_one)

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Send numbers all the time, over a connection of its own."""
        ended = threading.Event()

        def go_on() -> None:
            with connected(self._config) as log:
                while not ended.wait(0.05):
                    self.send(1, log)

        with ThreadPoolExecutor(1) as executor:
            sender = executor.submit(go_on)
            try:
                yield
            finally:
                ended.set()
                sender.result()

    def rows(self) -> Rows:
        return self._log.rows(TableTopic(self.out, int))

    def wait_for_rows(self, expected: Rows | None = None) -> None:
        """Wait for the rows of the new version over everything that was sent, or for others."""
        expected = self._scenario.rows(self.numbers, self.more) if expected is None else expected
        wait_for(lambda: self.rows() == expected, every=0.2)

    def wait_for_events(self) -> None:
        """Wait until each number that the first source has now was sent as an event."""
        expected = set(self.numbers)
        wait_for(lambda: self.sent_events().keys() >= expected, every=0.2)

    def sent_events(self) -> Counter[int]:
        return Counter(record.value for record in self._log.read(Topic(self.events, int)))

    def seen(self) -> AllSeen:
        """What a committed reader of each sink gets."""
        return {topic: seen(self._log.log, topic) for topic in (self.out, self.events)}

    def upgrade(self, app: App, spark: SparkSession, hook: Callable[[str], None]) -> UpgradeEntry:
        """Upgrade to the second version on Spark, with a hook at the fault points of this process."""
        with installed(hook):
            entry = upgrade_on_spark(
                app,
                spark,
                name=self.version(2),
                config=self._config,
                slots=2,
                patience=PATIENT,
                consent=self.consent,
            )
        assert entry is not None
        return entry

    def check_upgraded(
        self, app: App, entry: UpgradeEntry, before: AllSeen, known: Manifest | None
    ) -> AllSeen:
        """Check that no event was sent, and what was published. Returns what consumers see since."""
        published = self.seen()
        assert published[self.events] == before[self.events]
        check_upgraded(self._log.log, app, entry, {self.out: before[self.out]}, known)
        return published

    def entry(self) -> UpgradeEntry:
        found = upgrade_of(read_control(self._log.log, self.prefix))
        assert found is not None
        return found


class SlotKiller:
    """Kills the worker of one slot in each step of a recalculation, as soon as it has started."""

    def __init__(self, log: Log, app: str) -> None:
        self._log, self._app = log, names.upgrade(app)
        self._threads: list[threading.Thread] = []
        self.restarted: list[Landing] = []
        """The slots that were started again after their worker was killed."""

    def reached(self, point: str) -> None:
        """A step is about to start its slots."""
        if point == "recalculate.3":
            self._threads.append(
                threading.Thread(target=self._kill_next, args=(StatusFollower(self._log, self._app),))
            )
            self._threads[-1].start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(HANG_SECONDS)

    def _kill_next(self, follower: StatusFollower) -> None:
        with closing(follower):
            killed: Landing | None = None
            for landing in self._landings(follower):
                if killed is None:
                    os.kill(landing.pid, signal.SIGKILL)
                    killed = landing
                elif landing.slot == killed.slot and landing.attempt > killed.attempt:
                    self.restarted.append(landing)
                    return

    @staticmethod
    def _landings(follower: StatusFollower) -> Iterator[Landing]:
        deadline = time.monotonic() + HANG_SECONDS
        while time.monotonic() < deadline:
            yield from (one for one in follower.poll(0.1) if isinstance(one, Landing))
