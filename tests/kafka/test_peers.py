"""The peers of the benchmark count right, go on after a clean end, and restore in another folder."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from benchmarks.peers.kafka_streams import KafkaStreams
from benchmarks.peers.peer import Peer, Run
from benchmarks.peers.quix import Quix
from benchmarks.peers.tidegate import Tidegate
from tests.kafka.clients import Pair, consume, create, produce

from tidegate.testing.broker import KafkaCluster

pytestmark = pytest.mark.soak(only="installs and starts other engines")
RECORDS: list[Pair] = [(b"key-%d" % (n % 7), b"v" * 100) for n in range(700)]
PEERS: dict[str, Peer] = {
    "streams-default": KafkaStreams("default"),
    "streams-tuned": KafkaStreams("tuned"),
    "quix": Quix(),
    "tidegate-count": Tidegate("count", "plain"),
    "tidegate-aggregate": Tidegate("aggregate", "plain"),
    "tidegate-process": Tidegate("process", "plain"),
}


def counted(kafka: KafkaCluster, peer: Peer, output: str, run: Run, times: int) -> bool:
    """Whether all keys reach this count, in time and with the engine alive."""
    end = time.monotonic() + 90
    while run.pids and time.monotonic() < end:
        last = dict(consume(kafka.bootstrap, output))
        if [peer.count_of(value or b"") for value in last.values()] == [times] * 7:
            return True
        time.sleep(0.2)
    return False


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_counts_and_goes_on_in_another_folder(kafka: KafkaCluster, tmp_path: Path, name: str) -> None:
    peer = PEERS[name]
    peer.prepare()
    source, output = f"peer-{name}-in", f"peer-{name}-out"
    for topic in (source, output):
        create(kafka.bootstrap, topic, 4, cleanup_policy="compact" if topic == output else "delete")
    for life in (1, 2):
        produce(kafka.bootstrap, source, RECORDS)
        run = peer.start(kafka.bootstrap, source, output, f"peer-{name}", tmp_path / str(life), 100)
        try:
            assert counted(kafka, peer, output, run, 100 * life)
            run.stop()
        finally:
            run.kill()
        assert [event["state"] for event in run.events() if event["event"] == "state"][-1] == "NOT_RUNNING"
        assert max(event["records"] for event in run.events() if event["event"] == "processed") == 700
