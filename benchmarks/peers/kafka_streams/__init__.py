"""Kafka Streams, from the jars of the broker's own version."""

from __future__ import annotations

from benchmarks.peers.kafka_streams.driver import KafkaStreams

__all__ = ["KafkaStreams"]
