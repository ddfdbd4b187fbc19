"""What the live runs of an app decided on requests that name the version which they must find.

The `expect` of a request is a token of the live history. A replay counts versions from 1 again, with other
hashes, so there the token names another version or none: compared with it, requests that were accepted would
be refused, and what they wrote would be lost. So a replay does not decide again: such a request is accepted
if it was accepted then. One that changed the state has an event, which names the position of the record that
caused it. One that was accepted and changed nothing has its outcome in the row of the id, as long as it is
among the last ones; after that it counts as refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from tidegate.log.ensure import find_topic
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.log.route import partitions_of
from tidegate.models.row import decode_row
from tidegate.topology.entries import ModelEntry
from tidegate.types import TopicPartition


class _Caused(msgspec.Struct, frozen=True):
    """What is read of an event."""

    origin: str


_event = msgspec.json.Decoder(_Caused)
UNCHANGED = "unchanged"
"""The outcome of an accepted request that changed nothing: see `models/fold`."""


@dataclass(slots=True)
class _Accepted:
    """The offsets of the requests in one partition that have an event, as far as events were read."""

    read: dict[TopicPartition, int]
    """The next offset of each partition with events of these requests."""
    is_cut: bool
    """Whether the first events were deleted."""
    offsets: set[int] = field(default_factory=set)
    first: int | None = None
    """The lowest of them."""

    def add(self, offsets: set[int]) -> None:
        self.offsets |= offsets
        self.first = min(offsets, default=self.first) if self.first is None else self.first


@dataclass(slots=True)
class _Unchanged:
    """The requests that were accepted and changed nothing, by id and request, as far as rows were read."""

    changelog: TopicPartition
    read: int
    """The next offset."""
    requests: set[tuple[str, str]] = field(default_factory=set)


class DecidedRequests:
    """Reads the events and rows of models when they are first needed, and later only what was added."""

    def __init__(
        self, log: Log, models: Mapping[str, ModelEntry], live: Mapping[str, ModelEntry] | None = None
    ) -> None:
        """`live` are the models of the live app, whose rows hold the outcomes."""
        self._log = log
        self._models = models
        self._live = live or {}
        self._known: dict[tuple[str, int], _Accepted] = {}
        self._unchanged: dict[tuple[str, int], _Unchanged | None] = {}

    def accepted(self, model: str, partition: int, offset: int, id: str, request: str) -> bool | None:
        """Return whether a request was accepted when it was live; None if it is older than the events that
        still exist."""
        found = self._known.get((model, partition)) or self._opened(model, partition)
        if offset not in found.offsets:
            self._read_on(self._models[model].requests, partition, found)
        if offset in found.offsets or self._changed_nothing(model, partition, id, request):
            return True
        return None if found.is_cut and (found.first is None or offset < found.first) else False

    def _changed_nothing(self, model: str, partition: int, id: str, request: str) -> bool:
        """Return whether the row of the id has the outcome of an accepted request without effect."""
        if (model, partition) not in self._unchanged:
            self._unchanged[model, partition] = self._rows_of(model, partition)
        found = self._unchanged[model, partition]
        if found is None:
            return False
        if (id, request) not in found.requests:
            end = int(self._log.ends([found.changelog], committed=False)[found.changelog])
            for batch in read_between(self._log, found.changelog, found.read, end):
                keys, values = (batch.column(name).to_pylist() for name in ("key", "value"))
                for key, value in zip(keys, values, strict=True):
                    outcomes = decode_row(value).outcomes
                    found.requests |= {
                        (key.decode(), one.request) for one in outcomes if one.code == UNCHANGED
                    }
            found.read = end
        return (id, request) in found.requests

    def _rows_of(self, model: str, partition: int) -> _Unchanged | None:
        live = self._live.get(model)
        info = None if live is None else find_topic(self._log, live.changelog)
        if info is None or partition >= info.partitions:
            return None
        return _Unchanged(TopicPartition(info.name, partition), int(info.starts[partition]))

    def _opened(self, model: str, partition: int) -> _Accepted:
        entry = self._models[model]
        info = find_topic(self._log, entry.events)
        if info is None:
            return _Accepted({}, is_cut=True)
        together = info.partitions == entry.partitions
        partitions = [TopicPartition(info.name, partition)] if together else partitions_of(info)
        starts = {one: int(info.starts[one.partition]) for one in partitions}
        found = self._known[model, partition] = _Accepted(starts, is_cut=any(starts.values()))
        return found

    def _read_on(self, requests: str, partition: int, found: _Accepted) -> None:
        ends = self._log.ends(found.read, committed=False)
        prefix = f"{TopicPartition(requests, partition)}/"
        for one, start in found.read.items():
            found.add(set(self._caused(one, start, int(ends[one]), prefix)))
        found.read = {one: int(end) for one, end in ends.items()}

    def _caused(self, events: TopicPartition, start: int, end: int, prefix: str) -> Iterator[int]:
        for batch in read_between(self._log, events, start, end):
            for value in batch.column("value").to_pylist():
                origin = "" if value is None else _event.decode(value).origin
                if origin.startswith(prefix):
                    yield int(origin.removeprefix(prefix))
