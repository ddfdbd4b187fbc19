"""The tiny app that is simulated: each input is one operation on one store, and gives one output.

Every value is `<tag>.<offset>`: the tag names the incarnation of the slot that wrote it, the offset the
input. What an aborted transaction or a fenced slot left behind therefore shows by its tag.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import msgspec

from tidegate import names, stores
from tidegate.state.builder import StoreBuilder
from tidegate.state.manager import StateManager
from tidegate.testing.simulator.own_store import FileStore

APP = "sim"
INPUT = "in"
OUTPUT = "out"
TAG = "tag"
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


class Op(msgspec.Struct, frozen=True, array_like=True):
    """One input. `fail` writes and then fails: nothing of it may stay. `start` is that of a window."""

    store: str
    key: str
    action: Action
    start: int = 0


class Poison(Exception):  # noqa: N818 - it is meant to be there
    """Raised by the operation that fails."""


def changelog(store: str) -> str:
    """The changelog topic of a store."""
    return names.changelog(APP, store)


def value_of(tag: int, offset: int) -> str:
    """What an incarnation writes for an input."""
    return f"{tag}.{offset}"


def tag_and_offset(value: str) -> tuple[int, int]:
    """Who wrote a value, for which input."""
    tag, _, offset = value.partition(".")
    return int(tag), int(offset)


def perform(op: Op, state: StateManager, value: str) -> None:
    """Do what an input asks for. Raises Poison half-way if it is to fail."""
    store = state.store(BUILDERS[op.store])
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
