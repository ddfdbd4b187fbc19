"""A model as a command sees it: its rows and events, read from the log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import msgspec

from tidegate.clock import SystemClock
from tidegate.connect.model_requests import ModelRequester
from tidegate.errors import ConfigError, LogError, StateError
from tidegate.gate.rows import FoldedRows
from tidegate.log.merged import follow
from tidegate.log.partitioner import partition_for
from tidegate.log.protocol import Log
from tidegate.models.answer import Frame, answer
from tidegate.models.formats import ModelEvent, ModelRequest
from tidegate.models.row import NEVER, ModelRow, Outcome, decode_row
from tidegate.runtime.topics.manifests import manifests
from tidegate.topology.manifest import ModelEntry
from tidegate.types import Offset, TopicPartition

DONE = ("created", "appended", "deleted", "unchanged")
"""The outcomes of requests that the model accepted."""
_event = msgspec.json.Decoder(ModelEvent)


class ModelOnLog:
    """One model of an app."""

    def __init__(self, log: Log, app: str, name: str, entry: ModelEntry) -> None:
        self.app = app
        self.name = name
        self.entry = entry
        self._log = log
        self._rows = FoldedRows(log)

    def ids(self) -> Iterator[tuple[str, ModelRow]]:
        """Yield the ids that exist, by partition."""
        for number in range(self.entry.partitions):
            for key, value in self._rows.scan(self.entry.changelog, number, None):
                row = decode_row(value)
                if not row.gone:
                    yield key.decode(errors="replace"), row

    def row(self, id: str) -> ModelRow:
        """Return the row of an id; NEVER if there is none."""
        home = self.home(id)
        return decode_row(self._rows.get(home.topic, home.partition, id.encode()))

    def frames(self, id: str, token: str | None, timeout: float | None) -> Iterator[Frame]:
        """Yield what changed since a token, as one frame, and then each change as it comes."""
        home, key = self.home(id), id.encode()
        end = self._log.ends([home])[home]
        found = answer(id, self.row(id), token, at_end=True)
        assert found is not None  # noqa: S101 - at the end
        yield found
        with closing(follow(self._log, {home: Offset(end)}, timeout)) as records:
            for located in records:
                if located is not None and located[1].key == key:
                    changed = answer(id, decode_row(located[1].value), found.token)  # None: it is older
                    if changed is not None and changed.token != found.token:
                        found = changed
                        yield found

    def request(self, id: str, request: ModelRequest, seconds: float) -> Outcome:
        """Write a request and wait for its outcome. Raises LogError `not-decided` if there is none in time,
        and StateError with the code of the outcome if the model refused it."""
        home, key, entry = self.home(id), id.encode(), self.entry
        if not entry.appendable:
            message = f"the diffs of {self.name!r} are derived from another stream"
            raise ConfigError("not-appendable", message, "write to the source of that stream")
        known = self.row(id).outcome(request.request)
        end = self._log.ends([home])[home]
        ModelRequester(self._log, entry.requests, entry.partitions, SystemClock()).write(id, request)
        if known is not None:
            return _done(known, request)
        deadline = time.monotonic() + seconds
        with closing(follow(self._log, {home: Offset(end)}, seconds)) as records:
            for located in records:
                if located is not None and located[1].key == key:
                    outcome = decode_row(located[1].value).outcome(request.request)
                    if outcome is not None:
                        return _done(outcome, request)
                if time.monotonic() > deadline:
                    break
        raise LogError(
            "not-decided",
            f"the model did not decide within {seconds:g} s; the request is written, and will be decided",
            f"check that the app runs: tidegate status {self.app}",
            retryable=True,
        )

    def history(self, id: str) -> Iterator[ModelEvent]:
        """Yield the versions of an id that the events topic still has, oldest first."""
        for value in self._rows.history(self.entry.events, id.encode()):
            yield _event.decode(value)

    def home(self, id: str) -> TopicPartition:
        """The partition of the changelog that has an id."""
        return TopicPartition(self.entry.changelog, partition_for(id.encode(), self.entry.partitions))


def _done(outcome: Outcome, request: ModelRequest) -> Outcome:
    """Return the outcome of a request that was not refused."""
    if outcome.body != request.body:
        message = f"the request {request.request!r} was sent before with another content"
        raise ConfigError("idempotency-mismatch", message, "use another id for it")
    if outcome.code not in DONE:
        raise StateError(outcome.code, outcome.message, f"the version is {outcome.token}")
    return outcome


def models_on(log: Log) -> list[ModelOnLog]:
    """Return the models of all apps."""
    return [
        ModelOnLog(log, manifest.app, name, entry)
        for manifest in manifests(log)
        for name, entry in manifest.models.items()
    ]


def find_model(log: Log, model: str) -> ModelOnLog:
    """Return the model called MODEL or APP/MODEL; raises if there is none, or more than one."""
    models = models_on(log)
    fitting = [one for one in models if model in (one.name, f"{one.app}/{one.name}")]
    known = ", ".join(f"{one.app}/{one.name}" for one in fitting or models) or "none"
    if not fitting:
        raise ConfigError("no-such-model", f"no model on this log is called {model!r}", f"there is: {known}")
    if len(fitting) > 1:
        raise ConfigError("which-app", f"more than one app has a model {model!r}", f"name one of: {known}")
    return fitting[0]


def existing(model: ModelOnLog, id: str) -> ModelRow:
    """Return the row of an id; raises if the id does not exist."""
    row = model.row(id)
    if row.gone:
        how = "never existed" if row.life == NEVER.life else "was removed"
        raise StateError("no-such-id", f"{model.name} {id!r} {how}", f"tidegate models ls {model.name}")
    return row
