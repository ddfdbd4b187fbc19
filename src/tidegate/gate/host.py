"""The part of a task that gates use. The task implements it, so the gate does not import the task."""

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
    """The stores, time and outputs of a task, and its current record."""

    @property
    def partition(self) -> int: ...

    @property
    def stream_time(self) -> int: ...

    def now(self) -> int: ...

    def store(self, builder: StoreBuilder[Any]) -> Any: ...

    def begin(self, raw: RawRecord, stream_time: int = -1) -> None:
        """Make this the current record. Stream time advances to `stream_time` if it is behind."""
        ...

    def record(self) -> RawRecord:
        """Return the current record."""
        ...

    def origin(self) -> str:
        """Return the position that the current record comes from."""
        ...

    def emit(self, node: Node, key: bytes | None, value: bytes | None, record: Record[Any, Any]) -> None: ...

    def emit_held(self, node: Node, key: bytes, held: Held) -> None:
        """Send a held event with its original position as origin; a dead letter if it cannot be sent."""
        ...

    def dead_letter(self, raw: RawRecord, error: TidegateError) -> None: ...

    def refuse(self, raw: RawRecord, error: TidegateError) -> None:
        """Send an invalid command to the dead letters; the error names its position."""
        ...

    def damaged(self) -> None:
        """Mark the task's state as damaged: it is rebuilt from the changelogs when it is opened."""
        ...


class RecordScope(Protocol):
    """The effects of one record in a task: all of them are kept, or none."""

    def begin(self) -> None: ...

    def roll_back(self) -> None: ...

    def keep(self) -> None: ...

    def passed(self, raw: RawRecord) -> None:
        """Advance the position of the record's partition past it."""
        ...


class CommandBuffer(Protocol):
    """The buffered commands of a task, in order for each partition."""

    def command(self, partition: TopicPartition) -> RawRecord | None:
        """Return the next command of a partition; it stays until `take_command`."""
        ...

    def take_command(self, partition: TopicPartition) -> None: ...

    def read_to(self, partition: TopicPartition) -> int:
        """Return the offset up to which a partition was read."""
        ...


class PassingBatch(Protocol):
    """A batch whose records a task sends unchanged."""

    @property
    def stream_times(self) -> pa.Array[Any]:
        """The stream time at each record."""
        ...

    def send(self, rows: pa.Array[Any] | None, now: int) -> None:
        """Send these rows, all if None."""
        ...


OpenBatch = Callable[[TopicPartition, pa.RecordBatch, int], PassingBatch]
"""Opens a batch of a partition; the number is the stream time before it."""
