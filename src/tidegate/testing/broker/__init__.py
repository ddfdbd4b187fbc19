"""A real Kafka for tests and benchmarks: brokers (KRaft) on loopback, from Maven's jars.

    with KafkaCluster(folder, brokers=3) as kafka:
        kafka.bootstrap           "127.0.0.1:21034,127.0.0.1:21876,127.0.0.1:30021"
        kafka.brokers[0].kill()   SIGKILL; .start() brings it back on the same folder and port

Needs Java 17+ and Maven; the jars are fetched at the first use and checked against `jars.sha256`.
"""

from __future__ import annotations

from tidegate.testing.broker.cluster import KafkaCluster
from tidegate.testing.broker.node import Broker

__all__ = ["Broker", "KafkaCluster"]
