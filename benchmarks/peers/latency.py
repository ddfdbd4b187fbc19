"""Latency: from when a record was due to be sent to the sight of its count by a read_committed consumer.

The time at which it was due is the record's timestamp, which every engine hands on to the count. Producer and
consumer are processes of their own. All engines commit every 100 ms.
"""

from __future__ import annotations

import time
from typing import Any

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
ENGINES = ("tidegate", "tidegate-process", "tidegate-plain", "streams", "streams-tuned", "quix")
SHARES = (50.0, 99.0, 99.9)


def measure(bench: Bench) -> None:
    """Each engine in turn, on a source of its own."""
    warm, seconds = (3.0, 10.0) if bench.quick else (15.0, 120.0)
    found: dict[str, list[float]] = {}
    for name, peer in bench.of(*ENGINES).items():
        bench.report.progress(f"{peer.name}: latency at {RATE:,} records/s for {seconds:.0f} s")
        found[name], late = _of(bench, name, peer, warm, seconds)
        what = f"{peer.name}: latency"
        bench.report.measured(f"{what}, outputs seen", len(found[name]) / seconds, "records/s")
        bench.report.measured(f"{what}, the producer was late by at most", late * 1000, "ms")
        for share in SHARES:
            bench.report.measured(f"{what}, p{share:g}", percentile(found[name], share), "ms")
        bench.report.measured(f"{what}, max", max(found[name]), "ms")
    for ours in bench.of("tidegate"):
        for theirs in bench.of("streams", "streams-tuned"):
            for share in SHARES[:2]:
                mine, other = (percentile(found[one], share) for one in (ours, theirs))
                name = f"latency p{share:g}, {bench.chosen[ours].name}, times {bench.chosen[theirs].name}"
                bench.report.at_most(name, mine / other, "x", 1.0)


def _of(bench: Bench, name: str, peer: Peer, warm: float, seconds: float) -> tuple[list[float], float]:
    """Latencies in ms, and by how many seconds the producer was late at most."""
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
    return [seen - at for seen, at in arrived if at >= first], late


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
