"""Starts the count on tidegate."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.environment import of_programs
from benchmarks.peers.peer import Programs
from tidegate.serde.plain import IntSerde
from tidegate.testing.broker.program import Program

Way = Literal["count", "aggregate", "process"]
WAYS: dict[Way, tuple[str, str]] = {
    "count": ("counting", "whole batches"),
    "aggregate": ("aggregating", "Python function"),
    "process": ("processing", "record by record"),
}


@dataclass(frozen=True, slots=True)
class Tidegate:
    """`spark` is what `tidegate run` does on local Spark; `plain` runs each slot in a process of its own."""

    way: Way = "count"
    place: Literal["spark", "plain"] = "spark"
    slots: int = 2

    @property
    def name(self) -> str:
        return f"tidegate, {WAYS[self.way][1]}, {self.slots} slots" + (
            " on Spark" if self.place == "spark" else ""
        )

    def prepare(self) -> None:
        """Everything is there."""

    def count_of(self, value: bytes) -> int:
        return IntSerde().decode(value)

    def start(
        self, bootstrap: str, source: str, output: str, app_id: str, folder: Path, commit_ms: int
    ) -> Programs:
        module = "benchmarks.peers.tidegate"
        arguments = [
            self.place,
            f"{module}.apps:{WAYS[self.way][0]}",
            bootstrap,
            source,
            output,
            app_id,
            folder,
            commit_ms,
            self.slots,
        ]
        command = [sys.executable, "-m", f"{module}.program", *(str(argument) for argument in arguments)]
        return Programs([Program("tidegate", command, folder, env=of_programs())])
