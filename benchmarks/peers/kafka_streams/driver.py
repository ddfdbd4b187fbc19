"""Starts the count on Kafka Streams."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.peers.peer import Programs
from tidegate.testing.broker.java import compiled, run_java

NAMES = ("CountPeer", "PeerSettings", "PeerRocksDb", "PeerEvents")
SOURCES = [Path(__file__).with_name(f"{name}.java") for name in NAMES]
JVM = ("-Xms1g", "-Xmx1g")
"""The JVM chooses compiler and collector itself; the heap is fixed, so that its growth is not measured."""


@dataclass(frozen=True, slots=True)
class KafkaStreams:
    """One process; `default` changes only what the task needs; what `tuned` sets, and why, is in
    PeerSettings.java."""

    mode: Literal["default", "tuned"] = "default"
    threads: int = 2
    version: int = 1
    """The second one leaves out values that end with 00."""

    @property
    def name(self) -> str:
        return f"Kafka Streams, {self.mode}, {self.threads} threads"

    def prepare(self) -> None:
        compiled(SOURCES)

    def count_of(self, value: bytes) -> int:
        return int.from_bytes(value, "big", signed=True)

    def start(
        self, bootstrap: str, source: str, output: str, app_id: str, folder: Path, commit_ms: int
    ) -> Programs:
        state = folder / "state"
        arguments: list[object] = [
            bootstrap,
            source,
            output,
            app_id,
            state,
            self.threads,
            commit_ms,
            self.mode,
        ]
        if self.version > 1:
            arguments.append(self.version)
        return Programs([run_java(SOURCES, [str(argument) for argument in arguments], folder, jvm=JVM)])
