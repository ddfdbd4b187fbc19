"""Latency: from when a record was due to be sent to the sight of its count by a read_committed consumer.

The time at which it was due is the record's timestamp, which every engine hands on to the count. Producer and
consumer are processes of their own. All engines commit every 100 ms. Those that are compared are measured in
turns, in several rounds; the others once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.crew import Crew, Turn
from benchmarks.peers.bench import Bench
from benchmarks.peers.peer import Peer
from benchmarks.peers.records import (
    KEYS,
    PARTITIONS,
    VALUE,
    append,
    first_of_each_partition,
    key_of,
    partition_of,
)
from benchmarks.peers.watch import partitions
from benchmarks.report import percentile
from tidegate.log.topic import TopicSpec

RATE, TICK_SECONDS = 5_000, 0.01
QUIET_SECONDS = 2.0
IN_ROUNDS = ("tidegate", "streams-tuned", "streams")
ONCE = ("tidegate-process", "tidegate-plain", "quix")
SHARES = (50.0, 99.0, 99.9)


class Seen(NamedTuple):
    """What one round of one engine gave."""

    latencies: list[float]
    """In ms, of all outputs after the warm-up."""
    late: float
    """By how many seconds the producer was late at most."""


def measure(bench: Bench) -> None:
    """Each engine in turn, on a source of its own."""
    warm, seconds = (3.0, 10.0) if bench.quick else (10.0, 40.0)
    found: dict[str, list[Seen]] = {}
    for number in range(bench.rounds):
        for name, peer in bench.of(*IN_ROUNDS, *(() if number else ONCE)).items():
            bench.report.progress(f"{peer.name}: latency at {RATE:,} records/s for {seconds:.0f} s")
            found.setdefault(name, []).append(_of(bench, f"{name}-{number}", peer, warm, seconds))
    for name, rounds in found.items():
        _show(bench, bench.chosen[name].name, rounds, seconds)
    for ours in bench.of("tidegate"):
        for theirs in bench.of("streams", "streams-tuned"):
            for share in SHARES[:2]:
                mine, other = (_percentiles(found[one], share) for one in (ours, theirs))
                name = f"latency p{share:g}, {bench.chosen[ours].name}, times {bench.chosen[theirs].name}"
                ratios = [one / beside for one, beside in zip(mine, other, strict=True)]
                bench.report.at_most(name, ratios, "x", 1.0)


def _show(bench: Bench, name: str, rounds: Sequence[Seen], seconds: float) -> None:
    what, report = f"{name}: latency", bench.report
    report.measured(f"{what}, outputs seen", [len(one.latencies) / seconds for one in rounds], "records/s")
    late = [one.late * 1000 for one in rounds]
    report.measured(f"{what}, the producer was late by at most", late, "ms")
    for share in SHARES:
        report.measured(f"{what}, p{share:g}", _percentiles(rounds, share), "ms")
    report.measured(f"{what}, max", [max(one.latencies) for one in rounds], "ms")


def _percentiles(rounds: Sequence[Seen], share: float) -> list[float]:
    return [percentile(one.latencies, share) for one in rounds]


def _of(bench: Bench, name: str, peer: Peer, warm: float, seconds: float) -> Seen:
    app, source = f"latency-{name}", f"latency-{name}-source"
    bench.log.create(TopicSpec(source, PARTITIONS, {}))
    output = bench.output(f"latency-{name}-output")
    keys = list(first_of_each_partition())
    append(bench.log, source, keys)
    with bench.running(peer, source, output, app, bench.folder / app) as run:

        def moved() -> bool:
            return all(end > 0 for end in bench.log.ends(partitions(output)).values())

        bench.wait(moved, run, f"{peer.name}: first output")
        bootstrap = bench.kafka.bootstrap
        with Crew(2) as crew:
            late, arrived = crew.play(
                [(feed, (bootstrap, source, warm, seconds)), (look, (bootstrap, output, warm + seconds))]
            )
        bench.wait_done(run, app, source)
        run.stop()
    sent = int(RATE * (warm + seconds))
    bench.check(peer, output, sent + len(keys), min(KEYS, sent))
    first = min(at for _, at in arrived) + warm * 1000
    return Seen([seen - at for seen, at in arrived if at >= first], late)


def feed(turn: Turn, bootstrap: str, topic: str, warm: float, seconds: float) -> float:
    """Some records every 10 ms; by how much the sending of one began late at most, after the warm-up."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
    producer.list_topics(topic, timeout=10)
    count, sent, worst = int(RATE * TICK_SECONDS), 0, 0.0
    turn.wait()
    begun = time.time() + 0.5  # the consumer looks by then
    while (due := sent / RATE) < warm + seconds:
        wait = begun + due - time.time()
        if wait > 0:
            time.sleep(wait)
        elif due > warm:
            worst = max(worst, -wait)
        at = int((begun + due) * 1000)
        for number in range(sent, sent + count):
            key = key_of(number)
            producer.produce(topic, VALUE, key, partition_of(key), timestamp=at)
        producer.poll(0)
        sent += count
    assert producer.flush(30) == 0
    turn.finish()
    return worst


def look(turn: Turn, bootstrap: str, topic: str, seconds: float) -> list[tuple[float, int]]:
    """When each output was seen, and when its record was due, both in ms."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "outside",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": 10,
    }
    consumer = Consumer(settings)
    parts = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    consumer.assign(
        [TopicPartition(topic, one.partition, consumer.get_watermark_offsets(one, 10)[1]) for one in parts]
    )
    found: list[tuple[float, int]] = []
    turn.wait()
    end = time.monotonic() + seconds
    quiet = time.monotonic()
    while time.monotonic() < max(end, quiet + QUIET_SECONDS):
        messages = consumer.consume(10_000, 0.01)
        now = time.time() * 1000
        found += [(now, message.timestamp()[1]) for message in messages if message.error() is None]
        if messages:
            quiet = time.monotonic()
    consumer.close()
    turn.finish()
    return found
