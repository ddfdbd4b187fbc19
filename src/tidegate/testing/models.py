"""A model in a test: send requests to it, and see its states, versions and events."""

from __future__ import annotations

from typing import Any

import msgspec

from tidegate.clock import Clock
from tidegate.connect.model_requests import ModelRequester
from tidegate.errors import ConfigError
from tidegate.log.partitioner import partition_for
from tidegate.log.protocol import Log
from tidegate.log.reads import fold
from tidegate.log.records import Row, to_batch
from tidegate.models.answer import Frame, answer
from tidegate.models.formats import ModelEvent
from tidegate.models.row import ModelRow, Outcome, decode_row
from tidegate.runtime.driver.run import Run
from tidegate.testing.views import all_records
from tidegate.topology.manifest import ModelEntry
from tidegate.topology.node import NodeKind
from tidegate.types import TopicPartition

_event = msgspec.json.Decoder(ModelEvent)


class ModelView:
    """One model of an app in a driver, as of the last commit."""

    def __init__(self, name: str, run: Run, log: Log, clock: Clock) -> None:
        if name not in run.manifest.models:
            hint = f"it has: {', '.join(sorted(run.manifest.models)) or 'none'}"
            raise ConfigError("no-such-model", f"app {run.manifest.app!r} has no model {name!r}", hint)
        self._entry: ModelEntry = run.manifest.models[name]
        self._log = log
        self._clock = clock
        nodes = run.context.topology.nodes.values()
        [node] = [node for node in nodes if node.kind is NodeKind.MODEL and node.name == name]
        self._state = msgspec.json.Decoder(node.options["state_type"]).decode
        self._requester = ModelRequester(log, self._entry.requests, self._entry.partitions, clock)

    def state(self, id: str) -> Any:
        """The state of an id, as the model's type; None if it does not exist."""
        row = self.row(id)
        return None if row.gone else self._state(row.state)

    def token(self, id: str) -> str:
        return self.row(id).token(id)

    def since(self, id: str, token: str | None = None) -> Frame:
        """What a client that holds this token gets."""
        found = answer(id, self.row(id), token, at_end=True)
        assert found is not None  # noqa: S101 - it is at the end
        return found

    def events(self, id: str) -> list[ModelEvent]:
        """The versions of an id, from the events topic."""
        records = all_records(self._log, self._entry.events)
        found = [_event.decode(record.value) for record in records if record.value is not None]
        return [event for event in found if event.id == id]

    def row(self, id: str) -> ModelRow:
        """The row of an id, from the changelog."""
        return decode_row(self.rows().get(id))

    def rows(self) -> dict[str, bytes]:
        """All rows as they are kept."""
        partitions = [
            TopicPartition(self._entry.changelog, number) for number in range(self._entry.partitions)
        ]
        rows = (fold(self._log, partition).items() for partition in partitions)
        return {key.decode(): value for each in rows for key, (value, _) in each}

    def create(self, id: str, diff: Any = None, *, request: str | None = None) -> str:
        """Request that an id is created, as over HTTP; the next run decides. Returns the request's id."""
        return self._requester.create(id, diff, request=request)

    def append(self, id: str, diff: Any, *, expect: str | None = None, request: str | None = None) -> str:
        return self._requester.append(id, diff, expect=expect, request=request)

    def delete(self, id: str, *, expect: str | None = None, request: str | None = None) -> str:
        return self._requester.delete(id, expect=expect, request=request)

    def outcome(self, id: str, request: str) -> Outcome | None:
        """What became of a request."""
        return self.row(id).outcome(request)

    def write(self, id: str, value: bytes | None) -> None:
        """Append a raw record to the requests topic."""
        key = id.encode()
        partition = TopicPartition(self._entry.requests, partition_for(key, self._entry.partitions))
        self._log.append(partition, to_batch([Row(key, value, self._clock.now())]))
