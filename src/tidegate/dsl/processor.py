"""The interface of user code in a `process` step."""

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
    """A timer that can be cancelled."""

    def cancel(self) -> None: ...


class Context(Protocol, Generic[K, V]):
    """What a step can use of its stream task. It forwards records of key K and value V."""

    def store(self, builder: StoreBuilder[S]) -> S:
        """Return the store of a builder that the step declared."""
        ...

    def forward(self, record: Record[K, V], to: str | None = None) -> None:
        """Pass a record on to all steps after this one, or to the one of that name."""
        ...

    def schedule(self, every: int, call: Callable[[int], None], *, by: TimeKind = "stream") -> Cancellable:
        """Call `call(now)` every `every` milliseconds, of stream time or of wall-clock time."""
        ...

    def now(self) -> int:
        """Return wall-clock time in milliseconds; stream time while replaying."""
        ...

    @property
    def stream_time(self) -> int:
        """The highest timestamp that the task has processed; -1 before the first record."""
        ...

    @property
    def replaying(self) -> bool:
        """Whether history is being recalculated: skip effects on other systems then."""
        ...

    @property
    def partition(self) -> int: ...


class Processor(Protocol):
    """A step as a class: created once per stream task without arguments, then `init`, `process` for each
    record, `close`. Its attributes do not survive a crash; what must survive belongs in a store."""

    def init(self, ctx: Context[Any, Any]) -> None: ...

    def process(self, record: Record[Any, Any], ctx: Context[Any, Any]) -> None: ...

    def close(self) -> None: ...


class TimedProcessor(Processor, Protocol):
    """A step that declares `stores.timers(...)`: `on_timer` is called for each key whose timer is due."""

    def on_timer(self, key: Any, at: int, ctx: Context[Any, Any]) -> None:
        """Handle the timer of `key`, which was due at `at`. It is already removed; set it again for another
        call. The removal and the effects of the call are committed together."""
        ...
