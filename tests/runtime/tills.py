"""Tills: an app with one event for each sale behind two internal topics, and a fleet that runs it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.runtime.fleet import Fleet

from tidegate import App, TableTopic, Topic
from tidegate.clock import SystemClock
from tidegate.log.protocol import Log
from tidegate.runtime.driver.drain import Drained, drain_run
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.runtime.topics.unread import offsets_of, task_positions, unread
from tidegate.topology.manifest import Manifest
from tidegate.types import TopicPartition

APP = "tills"
SALES = Topic("sales", int)
RATES = TableTopic("rates", int)
SOLD = Topic("sold", int)
SECONDS = 60.0


def tills(seconds_each: float = 0.0, before: Callable[[int], object] = lambda _: None) -> App:
    """Each sale passes two internal topics and becomes one event; the second one is joined with a source."""

    def look(sale: int) -> None:
        before(sale)

    def slow(_: int) -> None:
        if seconds_each:
            time.sleep(seconds_each)

    app = App(APP)
    by_till = app.stream(SALES).peek(look).select_key(lambda sale: f"till-{sale % 7}").repartition("by-till")
    by_rate = by_till.peek(slow).select_key(lambda sale: f"rate-{sale % 5}").repartition("by-rate")
    by_rate.left_join(app.table(RATES), lambda sale, _: sale).to(SOLD)
    return app


@dataclass
class Shop:
    """A fleet that runs the tills, and its sales."""

    fleet: Fleet
    sent: int = 0
    closing: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.fleet.connection.send(RATES, "rate-0", 1)
        self.sell(50)

    @property
    def log(self) -> Log:
        return self.fleet.log

    @property
    def manifest(self) -> Manifest:
        found = find_manifest(self.log, APP)
        assert found is not None
        return found

    def sell(self, count: int) -> None:
        keys = [f"k{number}" for number in range(5)]
        for sale in range(self.sent, self.sent + count):
            self.fleet.connection.send(SALES, keys[sale % 5], sale)
        self.sent += count

    @contextmanager
    def selling(self) -> Iterator[None]:
        """Sales, one after the other, all the time."""

        def sell() -> None:
            while not self.closing.wait(0.002):
                self.sell(1)

        thread = threading.Thread(target=sell)
        thread.start()
        try:
            yield
        finally:
            self.closing.set()
            thread.join()

    def drain(self, seconds: float = SECONDS) -> Drained:
        return drain_run(self.log, self.manifest, "test", SystemClock(), seconds)

    def sold(self) -> list[int]:
        return [record.value for record in self.fleet.connection.read(SOLD)]

    def taken(self) -> list[int]:
        """The sales below the positions of the tasks that read them."""
        below = dict(offsets_of(task_positions(self.log, self.manifest)))
        return [
            record.value
            for record in self.fleet.connection.read(SALES)
            if record.offset < below[TopicPartition(SALES.name, record.partition)]
        ]

    def still(self) -> bool:
        """Whether no task has anything to do, not even to send the time to others, once a second."""
        before = task_positions(self.log, self.manifest)
        time.sleep(1.2)
        return before == task_positions(self.log, self.manifest)

    def left(self) -> int:
        manifest = self.manifest
        found = unread(self.log, manifest, task_positions(self.log, manifest), manifest.internal.values())
        return sum(one.end - one.position for one in found)


def assert_each_sale_once(shop: Shop) -> None:
    """Of the sales that were taken, each one has its event; of the others none."""
    taken = shop.taken()
    assert sorted(shop.sold()) == sorted(taken)
    assert len(set(taken)) == len(taken)
    assert shop.left() == 0
