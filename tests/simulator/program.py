"""The tiny app that is simulated: each input is one operation on one store, and gives one output. In some
worlds a gate stands in front of it.

Every value is `<tag>.<number>`: the tag names the incarnation of the slot that wrote it, the number the
input. What an aborted transaction or a fenced slot left behind therefore shows by its tag.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import count, islice
from typing import Any, Literal

import msgspec
from tests.simulator.own_store import FileStore

from tidegate import stores
from tidegate.app import App
from tidegate.dsl.processor import Context
from tidegate.log import names
from tidegate.log.partitioner import partition_for
from tidegate.record import Record
from tidegate.state.builder import StoreBuilder
from tidegate.state.manager import StateManager
from tidegate.topics import Topic

APP = "sim"
INPUT = "in"
OUTPUT = "out"
GATE = "door"
STATUS = names.gate(APP, GATE, "status")
ADMITTED = names.gate(APP, GATE, "admitted")
WINDOW_MS = 10
WINDOW_RETENTION_MS = 25
LRU_CAPACITY = 2
DELETE_RETENTION_MS = 10_000

_CONFIG = {"delete.retention.ms": str(DELETE_RETENTION_MS)}

BUILDERS: dict[str, StoreBuilder[Any]] = {
    builder.name: replace(builder, config=_CONFIG)  # less than with_changelog takes, so that it is seen
    for builder in (
        stores.key_value("plain", str),
        stores.timestamped("stamped", str),
        stores.window("windows", str, size=WINDOW_MS, retention=WINDOW_RETENTION_MS),
        stores.in_memory("memory", str),
        stores.lru("few", str, capacity=LRU_CAPACITY),
        stores.key_value("own", str).backed_by(FileStore),
    )
}
KINDS = tuple(BUILDERS)

Action = Literal["put", "delete", "fail"]


class Op(msgspec.Struct, frozen=True):
    """One input. `fail` writes and then fails: nothing of it may stay. `start` is that of a window."""

    store: str
    key: str
    action: Action
    start: int = 0
    number: int = -1
    """Which input it is; given when it is produced."""


class Poison(Exception):  # noqa: N818 - it is meant to be there
    """Raised by the operation that fails."""


class _Current:
    """The world that runs in this process. The step is not given it: a fingerprint would then reach all that
    a world refers to, and be computed again for each."""

    tag: Callable[[], int]
    partitions: int


_current = _Current()


class Step:
    """Performs operations, as one incarnation."""

    def __init__(self) -> None:
        self._tag = _current.tag()

    def init(self, ctx: Context[str, str]) -> None:
        """Nothing to schedule."""

    def process(self, record: Record[str, Op], ctx: Context[str, str]) -> None:
        op = record.value
        value = value_of(self._tag, op.number)
        ctx.forward(Record(keys_in(ctx.partition, _current.partitions)[0], value, record.timestamp))
        perform(op, ctx.store(BUILDERS[op.store]), value)

    def close(self) -> None:
        """Nothing to give back."""


def make_app(kinds: tuple[str, ...], partitions: int, tag: Callable[[], int], *, gate: bool) -> App:
    """The app. `tag` names the task that is being opened."""
    _current.tag, _current.partitions = tag, partitions
    builders = [BUILDERS[kind] for kind in kinds]
    app = App(APP)
    events = app.stream(Topic(INPUT, Op, partitions=partitions), on_error="skip")
    if gate:
        events = events.gate(GATE, drain_chunk=2)
    events.process("step", Step, stores=builders).to(Topic(OUTPUT, str, partitions=partitions))
    return app


@cache
def keys_in(partition: int, partitions: int) -> tuple[str, ...]:
    """Four keys that belong to a partition."""
    fitting = (f"k{n}" for n in count() if partition_for(f"k{n}".encode(), partitions) == partition)
    return tuple(islice(fitting, 4))


def value_of(tag: int, number: int) -> str:
    """What an incarnation writes for an input."""
    return f"{tag}.{number}"


def tag_and_number(value: str) -> tuple[int, int]:
    """Who wrote a value, for which input."""
    tag, _, number = value.partition(".")
    return int(tag), int(number)


def perform(op: Op, store: Any, value: str) -> None:
    """Do what an input asks for. Raises Poison half-way if it is to fail."""
    place = (op.key, op.start) if op.store == "windows" else (op.key,)
    if op.action == "delete":
        store.delete(*place)
        return
    store.put(*place, value)
    if op.action == "fail":
        raise Poison


def visible_rows(store: str, state: StateManager) -> dict[Any, Any]:
    """What user code would read from a store, in the shape of `Expected`."""
    typed = state.store(BUILDERS[store])
    if store == "windows":
        return {(key, start): value for key, start, value in typed.all()}
    return dict(typed.all())
