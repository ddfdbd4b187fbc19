"""What user code inside of a `process` step sees and may do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from tidegate.record import Record
from tidegate.state.builder import StoreBuilder, TimeKind

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")

__all__ = ["Cancellable", "Context", "Processor", "TimeKind", "TimedProcessor"]


class Cancellable(Protocol):
    """A timer that can be stopped."""

    def cancel(self) -> None: ...


class Context(Protocol, Generic[K, V]):
    """The step's view of its stream task. It forwards records of key K and value V."""

    def store(self, builder: StoreBuilder[S]) -> S:
        """The store of a builder that the step declared."""
        ...

    def forward(self, record: Record[K, V], to: str | None = None) -> None:
        """Pass a record on: to all steps behind this one, or to the one of that name."""
        ...

    def schedule(self, every: int, call: Callable[[int], None], *, by: TimeKind = "stream") -> Cancellable:
        """Call `call(now)` every `every` milliseconds, of stream time or of wall-clock time."""
        ...

    def now(self) -> int:
        """Wall-clock time in milliseconds; stream time while replaying."""
        ...

    @property
    def stream_time(self) -> int:
        """The highest timestamp that the task has seen; -1 before the first record."""
        ...

    @property
    def replaying(self) -> bool:
        """Whether history is being recalculated: effects on other systems belong behind `if not`."""
        ...

    @property
    def partition(self) -> int: ...


class Processor(Protocol):
    """A step as a class: made once per stream task with no arguments, then `init`, `process` for each record,
    `close`. Nothing in its fields survives a crash; what must survive goes into a store."""

    def init(self, ctx: Context[Any, Any]) -> None: ...

    def process(self, record: Record[Any, Any], ctx: Context[Any, Any]) -> None: ...

    def close(self) -> None: ...


class TimedProcessor(Processor, Protocol):
    """A step that declares `stores.timers(...)`: it is called for each key whose time has come."""

    def on_timer(self, key: Any, at: int, ctx: Context[Any, Any]) -> None:
        """The timer that was set for `key` at `at` is due. It is gone already; set it again for another call.
        What the call does and that the timer is gone are committed together."""
        ...
