"""The `server.properties` of a broker: loopback only, small, and quick where a test would wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.testing.broker.ports import LOOPBACK

SMALL_JVM = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options for a JVM that lives for seconds: a small heap, quick start, no second thread of a collector."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where one node listens, as broker and as controller."""

    node: int
    broker: int
    controller: int


def properties(
    own: Address, quorum: Sequence[Address], data: Path, more: Mapping[str, str]
) -> dict[str, str]:
    """All settings of one node; `more` wins."""
    copies = str(min(3, len(quorum)))
    in_sync = str(min(2, len(quorum)))
    return {
        "process.roles": "broker,controller",
        "node.id": str(own.node),
        "controller.quorum.voters": ",".join(f"{a.node}@{LOOPBACK}:{a.controller}" for a in quorum),
        "listeners": f"BROKER://{LOOPBACK}:{own.broker},CONTROLLER://{LOOPBACK}:{own.controller}",
        "advertised.listeners": f"BROKER://{LOOPBACK}:{own.broker}",
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "BROKER",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(data),
        # A killed broker is readmitted only when its previous session has expired (else 9 s).
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "500",
        "auto.create.topics.enable": "false",
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        "log.initial.task.delay.ms": "100",
        # With this, what Kafka keeps for 7 days is gone in a second if its timestamp is older than that.
        "log.retention.check.interval.ms": "1000",
        "log.cleaner.backoff.ms": "500",
        "log.cleaner.dedupe.buffer.size": str(16 << 20),
        "num.network.threads": "2",
        "num.io.threads": "4",
        **more,
    }


def text(settings: Mapping[str, str]) -> str:
    """As Java reads it."""
    return "".join(f"{name}={value}\n" for name, value in settings.items())
