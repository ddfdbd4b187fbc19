"""The engines by their names."""

from __future__ import annotations

from benchmarks.peers.kafka_streams import KafkaStreams
from benchmarks.peers.peer import Peer
from benchmarks.peers.quix import Quix
from benchmarks.peers.tidegate import Tidegate

ENGINES: dict[str, Peer] = {
    "tidegate": Tidegate("count"),
    "tidegate-process": Tidegate("process"),
    "tidegate-aggregate": Tidegate("aggregate"),
    "tidegate-plain": Tidegate("count", "plain"),
    "tidegate-process-plain": Tidegate("process", "plain"),
    "streams": KafkaStreams("default"),
    "streams-tuned": KafkaStreams("tuned"),
    "quix": Quix(),
}
OURS = ("tidegate", "tidegate-plain")
"""Those that count whole batches, as one would run them for latency and restore."""
