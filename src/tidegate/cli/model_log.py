"""A model as a command sees it: its rows and events, read from the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import msgspec

from tidegate.errors import ConfigError
from tidegate.gate.rows import FoldedRows
from tidegate.log.merged import follow
from tidegate.log.partitioner import partition_for
from tidegate.log.protocol import Log
from tidegate.models.answer import Frame, answer
from tidegate.models.formats import ModelEvent
from tidegate.models.row import NEVER, ModelRow, decode_row
from tidegate.runtime.topics.manifests import manifests
from tidegate.topology.manifest import ModelEntry
from tidegate.types import Offset, TopicPartition

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

    def history(self, id: str) -> Iterator[ModelEvent]:
        """Yield the versions of an id that the events topic still has, oldest first."""
        for value in self._rows.history(self.entry.events, id.encode()):
            yield _event.decode(value)

    def home(self, id: str) -> TopicPartition:
        """The partition of the changelog that has an id."""
        return TopicPartition(self.entry.changelog, partition_for(id.encode(), self.entry.partitions))


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
        raise ConfigError("no-such-id", f"{model.name} {id!r} {how}", f"tidegate models ls {model.name}")
    return row
