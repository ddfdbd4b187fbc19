"""Starts the count on Quix Streams."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.peer import Programs
from benchmarks.peers.quix.environment import python
from tidegate.testing.broker.program import Program

PROGRAM = Path(__file__).with_name("program.py")


@dataclass(frozen=True, slots=True)
class Quix:
    """One process reads all partitions, as Quix does by default; more processes share them as one group."""

    processes: int = 1

    @property
    def name(self) -> str:
        return f"Quix Streams, {self.processes} {'process' if self.processes == 1 else 'processes'}"

    def prepare(self) -> None:
        python()

    def count_of(self, value: bytes) -> int:
        return int.from_bytes(value, "big", signed=True)

    def start(
        self, bootstrap: str, source: str, output: str, app_id: str, folder: Path, commit_ms: int
    ) -> Programs:
        # Nothing of our environment may be found before Quix's own.
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        programs = []
        for number in range(self.processes):
            state = folder / f"state-{number}"
            arguments = [bootstrap, source, output, app_id, state, commit_ms]
            command = [str(part) for part in (python(), PROGRAM, *arguments)]
            programs.append(Program(f"quix-{number}", command, folder, env=env))
        return Programs(programs)
