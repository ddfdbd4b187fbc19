"""`python -m benchmarks.gate [--parts hold,pass,...]`: what a gate costs; embedded log, no Spark.

hold      bytes and time for holding 1k, 10k and 100k events of one key: linear, bytes per event within 10 %
pass      throughput with a gate and nothing paused, at least 0.85 times that without: of orders to totals,
          and of a bare copy, beside it the same through an internal topic, since a gate is one; the
          sides take turns after each commit
drain     rate; latency of other keys while 100,000 events are let out, p99 at most 2 times that without
open      of a task with 1M held events
pause     from the call to applied, p50 and p99
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa

from benchmarks.report import Report, median, percentile, run_parts
from tidegate import App, TableTopic, Topic
from tidegate.clock import SystemClock
from tidegate.dsl.stream import Stream
from tidegate.gate.query import GateQuery
from tidegate.log.reads import read_between
from tidegate.log.records import columns_to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.run import Run
from tidegate.runtime.slot.slot import Slot
from tidegate.types import TopicPartition

EVENTS = Topic("events", bytes)
PASSED = Topic("passed", bytes)
VALUE = b"x" * 100
STEP = 10_000


def gated(*, chunk: int = 1000) -> App:
    app = App("gated")
    app.stream(EVENTS).gate("door", drain_chunk=chunk).to(PASSED)
    return app


def plain() -> App:
    """The same without the gate."""
    app = App("plain")
    app.stream(EVENTS).to(PASSED)
    return app


def through_a_topic() -> App:
    """Without the gate, and through an internal topic as with one."""
    app = App("plain")
    app.stream(EVENTS).repartition("between").to(PASSED)
    return app


class Order(msgspec.Struct, frozen=True):
    id: int
    cents: int


class Totals(msgspec.Struct, frozen=True):
    orders: int = 0
    cents: int = 0


ORDERS = Topic("orders", Order)
TOTALS = TableTopic("customer-totals", Totals)


def add(total: Totals, order: Order) -> Totals:
    return Totals(total.orders + 1, total.cents + order.cents)


def orders_gated() -> App:
    """The job of examples/orders."""
    app = App("gated")
    _totals(app.stream(ORDERS).gate("door"))
    return app


def orders_plain() -> App:
    """The same without the gate."""
    app = App("plain")
    _totals(app.stream(ORDERS))
    return app


def _totals(orders: Stream[str, Order]) -> None:
    orders.filter(lambda order: order.cents >= 0).aggregate("totals", Totals, add).to(TOTALS)


class Bench:
    """One app on one log, with one slot in this process."""

    def __init__(self, app: App, folder: Path) -> None:
        self.folder = folder
        self.clock = SystemClock()
        self.log = SqliteLog(folder / "log.db")
        self.run: Run = prepare(app.build(), self.log, self.clock, partitions=1)
        self.slot: Slot | None = None

    @property
    def gate(self) -> GateQuery:
        return GateQuery(self.log, self.run.manifest, "door", self.clock)

    def open(self) -> Slot:
        [self.slot] = self.run.slots(self.folder / "state", 1)
        while not self.slot.tasks or self.slot.restoring:
            self.slot.step()
        return self.slot

    def send(
        self, keys: Sequence[bytes], topic: str = EVENTS.name, values: Sequence[bytes] | None = None
    ) -> None:
        for begin in range(0, len(keys), STEP):
            part = keys[begin : begin + STEP]
            held = [VALUE] * len(part) if values is None else list(values[begin : begin + STEP])
            batch = columns_to_batch([self.clock.now()] * len(part), list(part), held)
            self.log.append(TopicPartition(topic, 0), batch)

    def work(self, until: Callable[[], bool], each: Callable[[], None] = lambda: None) -> float:
        """Turns with a commit every 100 ms, until it is so. The seconds."""
        assert self.slot is not None
        began, due = time.monotonic(), time.monotonic() + 0.1
        while True:
            self.slot.step(0.002, until=due)
            if time.monotonic() >= due:
                self.slot.commit()
                each()
                if until():
                    return time.monotonic() - began
                due = time.monotonic() + 0.1

    def drained(self) -> bool:
        assert self.slot is not None
        return self.slot.drained()

    def lets_out(self) -> bool:
        assert self.slot is not None
        return any(task.gates.busy() for task in self.slot.tasks)

    def end_of(self, topic: str) -> int:
        return int(next(iter(self.log.ends([TopicPartition(topic, 0)]).values())))

    def close(self) -> None:
        if self.slot is not None:
            self.slot.close()
        self.log.close()


@contextmanager
def bench(app: App, folder: Path, name: str) -> Iterator[Bench]:
    (folder / name).mkdir()
    with closing(Bench(app, folder / name)) as made:
        yield made
    shutil.rmtree(folder / name)


def holding(report: Report, folder: Path, *, quick: bool) -> None:
    each: list[float] = []
    for count in (1_000, 10_000) if quick else (1_000, 10_000, 100_000):
        report.progress(f"holding {count:,} events of one key")
        with bench(gated(), folder, f"hold-{count}") as one:
            one.open()
            one.gate.commander.pause(b"ada")
            one.send([b"ada"] * count)
            seconds = one.work(one.drained)
            size = sum(
                batch.nbytes for name in ("door-held", "door-index") for batch in _changelog(one, name)
            )
            each.append(size / count)
            report.measured(f"holding {count:,} events: time", seconds, "s")
            report.measured(f"holding {count:,} events: changelog bytes per event", each[-1], "bytes")
    report.at_most("bytes per event, the most to the least", max(each) / min(each), "x", 1.1)


def _changelog(one: Bench, store: str) -> Iterator[pa.RecordBatch]:
    topic = one.run.manifest.stores[store].changelog or ""
    yield from read_between(one.log, TopicPartition(topic, 0), 0, one.end_of(topic))


def passing(report: Report, folder: Path, *, quick: bool) -> None:
    """Nothing is paused. The job of examples/orders, and a bare copy, which has least beside the gate."""
    count = 50_000 if quick else 500_000
    turns = 1 if quick else 5
    keys = [b"k%d" % (number % 10_000) for number in range(count)]
    orders = [msgspec.json.encode(Order(number, number % 1000)) for number in range(count)]
    for job, topic, values, makers in (
        ("orders to totals", ORDERS, orders, {"with the gate": orders_gated, "without": orders_plain}),
        (
            "a copy",
            EVENTS,
            None,
            {"with the gate": gated, "without": plain, "through a topic": through_a_topic},
        ),
    ):
        rates: dict[str, list[float]] = {name: [] for name in makers}
        for turn in range(turns):
            report.progress(f"{job}, {count:,} events, turn {turn + 1}")
            with ExitStack() as opened:
                sides = {
                    name: opened.enter_context(bench(make(), folder, f"pass-{turn}-{number}"))
                    for number, (name, make) in enumerate(makers.items())
                }
                for side in sides.values():
                    side.open()
                    side.send(keys, topic.name, values)
                for name, seconds in _alternately(sides).items():
                    rates[name].append(count / seconds)
        for name, found in rates.items():
            report.measured(f"{job}, {name}", median(found), "records/s")
        for name in makers:
            if name != "with the gate":
                pairs = zip(rates["with the gate"], rates[name], strict=True)
                ratios, what = [with_it / other for with_it, other in pairs], f"{job}, gate to {name}"
                if name == "without":
                    report.at_least(what, ratios, "x", 0.85)
                else:
                    report.measured(what, median(ratios), "x")


def _alternately(sides: Mapping[str, Bench]) -> dict[str, float]:
    """Let each side work until it has nothing left: one commit of one, one of the next, so that all meet the
    same noise of the machine. The seconds of each. The upkeep of one side's log may run while another side
    works."""
    seconds = dict.fromkeys(sides, 0.0)
    left = dict(sides)
    while left:
        for name, side in list(left.items()):
            seconds[name] += side.work(lambda: True)
            if side.drained():
                del left[name]
    return seconds


def draining(report: Report, folder: Path, *, quick: bool) -> None:
    count, rate = (10_000 if quick else 100_000), 1_000
    with bench(gated(), folder, "drain") as one:
        one.open()
        report.progress("latency of other keys with nothing to let out")
        alone = _latencies(one, rate, 5.0)
        one.gate.commander.pause(b"ada")
        one.send([b"ada"] * count)
        one.work(one.drained)
        report.progress(f"letting out {count:,} events of one key while others come")
        before = one.end_of("gated-door-admitted")
        one.gate.commander.resume(b"ada")
        began = time.monotonic()
        beside = _latencies(one, rate, 2.0, more=one.lets_out)
        out = one.end_of("gated-door-admitted") - before
        report.measured("letting out: rate, with the others", out / (time.monotonic() - began), "records/s")
        for name, found in (("alone", alone), ("beside a drain", beside)):
            report.measured(f"latency of other keys {name}, p50", percentile(found, 50), "ms")
            report.measured(f"latency of other keys {name}, p99", percentile(found, 99), "ms")
        ratio = percentile(beside, 99) / percentile(alone, 99)
        report.at_most("p99 of other keys, beside a drain to alone", ratio, "x", 2.0)


def _latencies(
    one: Bench, rate: int, seconds: float, more: Callable[[], bool] = lambda: False
) -> list[float]:
    """From the time that a record was due to that of the commit that let it pass, in ms."""
    found: list[float] = []
    admitted = TopicPartition("gated-door-admitted", 0)
    sent = 0
    with closing(one.log.reader({admitted: one.log.ends([admitted])[admitted]})) as reader:
        began = time.monotonic()

        def look() -> None:
            nonlocal sent
            for fetched in reader.poll(0):
                now = one.clock.now()
                keys, times = fetched.batch.column(2).to_pylist(), fetched.batch.column(1).to_pylist()
                found.extend(now - at for key, at in zip(keys, times, strict=True) if key != b"ada")
            due = int((time.monotonic() - began) * rate)
            if due > sent:
                one.send([b"k%d" % number for number in range(sent, due)])
                sent = due

        one.work(lambda: time.monotonic() - began > seconds and not more(), look)
    return found


def opening(report: Report, folder: Path, *, quick: bool) -> None:
    count = 100_000 if quick else 1_000_000
    with bench(gated(), folder, "open") as one:
        one.open()
        one.gate.commander.pause_all()
        report.progress(f"holding {count:,} events of 10,000 keys")
        one.send([b"k%d" % (number % 10_000) for number in range(count)])
        one.work(one.drained)
        assert one.slot is not None
        one.slot.close()
        one.slot = None
        began = time.monotonic()
        one.open()
        report.measured(f"opening a task with {count:,} held events", time.monotonic() - began, "s")


def pausing(report: Report, folder: Path, *, quick: bool) -> None:
    report.progress("pause calls until they are applied")
    found: list[float] = []
    with bench(gated(), folder, "pause") as one:
        slot = one.open()
        for number in range(20 if quick else 200):
            key = b"k%d" % number
            began = time.monotonic()
            one.gate.commander.pause(key)
            while one.gate.key(key).status is None:
                slot.step(0.002)
                slot.commit()
            found.append((time.monotonic() - began) * 1000)
    report.measured("pause to applied, commits at once: p50", percentile(found, 50), "ms")
    report.measured("pause to applied, commits at once: p99", percentile(found, 99), "ms")


PARTS = {"hold": holding, "pass": passing, "drain": draining, "open": opening, "pause": pausing}


def main(arguments: Sequence[str] | None = None) -> None:
    with tempfile.TemporaryDirectory(prefix=".benchmark-", dir=Path.cwd()) as folder:
        parts = {name: partial(_measured, part, Path(folder)) for name, part in PARTS.items()}
        run_parts("gate", parts, arguments)


def _measured(part: Callable[..., None], folder: Path, report: Report, quick: bool) -> None:
    part(report, folder, quick=quick)


if __name__ == "__main__":
    main()
