"""Rows that an upgrade would publish, as responses show them: each side as its version of the app declared
it, long values cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.runtime.topics.upgrades import Published
from tidegate.server.errors import RequestError
from tidegate.server.parameters import from_cursor, shown_key, to_cursor
from tidegate.server.record_view import key_fields, whole_characters
from tidegate.server.topic_formats import TopicFormat, topic_formats
from tidegate.text.declared_format import shown_value
from tidegate.topology.manifest import Manifest
from tidegate.upgrade.differing_rows import DifferingRow, Place, SideOfRow


@dataclass(frozen=True, slots=True)
class RowView:
    """How the two versions of an app declared a table topic; None for a model, whose states are JSON."""

    topic: str
    old: TopicFormat | None
    new: TopicFormat | None

    def row(self, row: DifferingRow) -> dict[str, Any]:
        """Return a row for JSON. `before` and `after` are null where there is no row. A value that is too
        long has `cut` in place of `value`. `path` is that of the live record."""
        partition, key = row.place
        before = _side(row.before, self.old)
        if self.old is not None and before is not None:
            before["path"] = f"/topics/{self.topic}/records/{partition}/{row.offset}"
        return {
            "partition": partition,
            **key_fields(key, None, self.old or self.new),
            "kind": row.kind,
            "before": before,
            "after": _side(row.after, self.new),
        }


def row_view(published: Published, old: Manifest, new: Manifest) -> RowView:
    """Return the view of a table topic or model that both versions may have declared."""
    if published.kind == "model":
        return RowView(published.live, None, None)
    before, after = (topic_formats([one]).get(published.name) for one in (old, new))
    return RowView(published.live, before, after)


def cursor_of(place: Place) -> str:
    return to_cursor(b"%d/" % place.partition + place.key)


def place_of(cursor: str | None) -> Place | None:
    """Return the place of a cursor. Raises RequestError `bad-cursor`."""
    data = from_cursor(cursor)
    if data is None:
        return None
    partition, _, key = data.partition(b"/")
    if not partition.isdigit() or len(partition) > 9:
        raise RequestError("bad-cursor", "this is not a cursor of a page", "send `next` of the previous page")
    return Place(int(partition), key)


def _side(side: SideOfRow | None, declared: TopicFormat | None) -> dict[str, Any] | None:
    if side is None:
        return None
    if not side.is_whole:
        return {"cut": {"preview": shown_key(whole_characters(side.start), None), "bytes": side.size}}
    value, name = shown_value(side.start, None if declared is None else declared.value)
    return {"value": value, **({"format": name} if name else {})}
