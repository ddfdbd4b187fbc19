"""What gates need of the task that they run in: it implements this, so the gate imports nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from tidegate.errors import TidegateError
from tidegate.gate.formats import Held
from tidegate.log.records import RawRecord
from tidegate.record import Record
from tidegate.state.builder import StoreBuilder
from tidegate.topology.node import Node
from tidegate.types import TopicPartition


class GateHost(Protocol):
    """Stores, time and outputs of a task, and its record in work."""

    @property
    def partition(self) -> int: ...

    @property
    def stream_time(self) -> int: ...

    def now(self) -> int: ...

    def store(self, builder: StoreBuilder[Any]) -> Any: ...

    def begin(self, raw: RawRecord, stream_time: int = -1) -> None:
        """Make this the record in work. Stream time advances to `stream_time` if it is behind."""
        ...

    def record(self) -> RawRecord:
        """The record in work."""
        ...

    def place(self) -> str:
        """Where the record in work comes from."""
        ...

    def emit(self, node: Node, key: bytes | None, value: bytes | None, record: Record[Any, Any]) -> None: ...

    def emit_from(self, node: Node, key: bytes, held: Held) -> None:
        """Send an event as from where it came before it was held; a dead letter if it cannot be sent."""
        ...

    def dead_letter(self, raw: RawRecord, error: TidegateError) -> None: ...

    def refuse(self, raw: RawRecord, error: TidegateError) -> None:
        """Send a command that cannot be used to the dead letters; the error names its position."""
        ...

    def damaged(self) -> None:
        """Mark the task's state as damaged: it is rebuilt from the changelogs when it is opened."""
        ...


class RecordScope(Protocol):
    """The effects of one record in a task: all of them are kept, or none."""

    def begin(self) -> None: ...

    def take_back(self) -> None: ...

    def keep(self) -> None: ...

    def passed(self, raw: RawRecord) -> None:
        """The record is done: the position of its partition is behind it."""
        ...


class Commands(Protocol):
    """The partitions of commands that a task reads, each in its own order."""

    def command(self, partition: TopicPartition) -> RawRecord | None:
        """The next command of a partition; it stays until it is taken."""
        ...

    def take_command(self, partition: TopicPartition) -> None: ...

    def read_to(self, partition: TopicPartition) -> int:
        """How far a partition was read."""
        ...


class PassingBatch(Protocol):
    """A batch whose records leave the task as they were read."""

    @property
    def stream_times(self) -> pa.Array[Any]:
        """The stream time at each record."""
        ...

    def send(
        self, keys: list[bytes | None], numbers: pa.Array[Any], rows: pa.Array[Any] | None, now: int
    ) -> None:
        """Send these rows, all if None. `numbers` says which of the distinct `keys` each record has."""
        ...


OpenBatch = Callable[[TopicPartition, pa.RecordBatch, int], PassingBatch]
"""From a partition, a batch of it and the stream time before it."""
