"""What the table of peers needs of an engine: start it, watch it, end it.

The task is the same for all: records of a source topic (4 partitions, values of about 100 bytes), counted per
key in a store with a changelog, each new count to an output topic of as many partitions; exactly once. Source
and output exist before the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tidegate.testing.broker.program import Program


class Run(Protocol):
    """An engine at work."""

    @property
    def pids(self) -> Sequence[int]:
        """Its processes that still run, to measure CPU and memory."""
        ...

    def events(self) -> list[dict[str, Any]]:
        """What its processes reported so far, by time: `{"event": ..., "ms": epoch, "pid": ..., ...}`.

        `state` (`state`: RUNNING, ...), `restore_start` and `restore_end` (`partition`, `records`) where the
        engine reports them, and about once a second `processed` (`records` of this process so far).
        """
        ...

    def stop(self) -> None:
        """End it cleanly: what it has processed is committed."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...


class Peer(Protocol):
    """An engine, set up in one way."""

    @property
    def name(self) -> str:
        """As the table shows it."""
        ...

    def prepare(self) -> None:
        """Fetch, compile or install what it needs, so that `start` is quick. May be called again."""
        ...

    def count_of(self, value: bytes) -> int:
        """The count that an output record holds: engines write numbers in different ways."""
        ...

    def start(
        self, bootstrap: str, source: str, output: str, app_id: str, folder: Path, commit_ms: int
    ) -> Run:
        """Start counting. The same id and folder go on where they stood; another folder restores."""
        ...


@dataclass(frozen=True, slots=True)
class Programs:
    """A run of one or more programs."""

    programs: Sequence[Program]

    @property
    def pids(self) -> list[int]:
        return [program.pid for program in self.programs if program.running]

    def events(self) -> list[dict[str, Any]]:
        found = [{**event, "pid": program.pid} for program in self.programs for event in program.events()]
        return sorted(found, key=lambda event: int(event["ms"]))

    def stop(self) -> None:
        for program in self.programs:
            program.stop()

    def kill(self) -> None:
        for program in self.programs:
            program.kill()
