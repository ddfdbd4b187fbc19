"""What is in the log of a model: its rows and its events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from tidegate.log import names
from tidegate.log.protocol import Log
from tidegate.log.reads import fold
from tidegate.log.route import partitions_of
from tidegate.models.formats import ModelEvent
from tidegate.models.patch import apply
from tidegate.models.row import NEVER, ModelRow, decode_row
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.testing.views import all_records

_event = msgspec.json.Decoder(ModelEvent)


@dataclass(frozen=True, slots=True)
class ModelSeen:
    """The rows of a model, and its events by id."""

    rows: dict[str, ModelRow]
    events: dict[str, list[ModelEvent]]

    def states(self) -> dict[str, Any]:
        """The states of the ids that exist."""
        return {id: row.document() for id, row in self.rows.items() if not row.gone}

    def check_states(self, expected: dict[str, dict[str, int]]) -> None:
        assert self.states() == expected

    def check_fold(self) -> None:
        """Each row is the fold of the patches in the events topic."""
        for id, row in self.rows.items():
            state: Any = None
            for event in self.events.get(id, []):
                state = None if event.kind == "gone" else apply(state, event.patch)
            assert row.document() == state, id


def read_model(log: Log, app: str, name: str) -> ModelSeen:
    """Return a model as it is in the log, also one that the app does not have any more."""
    manifest = find_manifest(log, app)
    model = None if manifest is None else manifest.models.get(name)
    changelog = names.changelog(app, name) if model is None else model.changelog
    events = names.model(app, name, "events")
    existing = set(log.names())
    rows: dict[str, ModelRow] = {}
    for at in partitions_of(log.describe(changelog)) if changelog in existing else ():
        rows |= {key.decode(): decode_row(value) for key, (value, _) in fold(log, at).items()}
    by_id: dict[str, list[ModelEvent]] = {}
    for record in all_records(log, events) if events in existing else ():
        if record.value is not None:
            event = _event.decode(record.value)
            by_id.setdefault(event.id, []).append(event)
    return ModelSeen(rows, by_id)


def check_versions(before: ModelSeen, after: ModelSeen, expected: dict[str, dict[str, int]]) -> None:
    """Each id whose state differs has one more version and one more event, and all others are as before."""
    after.check_states(expected)
    after.check_fold()
    old = before.states()
    for id in before.rows.keys() | after.rows.keys():
        was, row = before.rows.get(id, NEVER), after.rows.get(id, NEVER)
        differs = old.get(id) != expected.get(id)
        assert len(after.events.get(id, [])) - len(before.events.get(id, [])) == differs, id
        if not differs:
            assert row == was, id
        elif not was.gone:
            assert (row.life, row.sequence) == (was.life, was.sequence + 1), id
        else:
            assert row.life == was.life + 1, id
