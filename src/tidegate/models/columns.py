"""The row of an id as columns of a database table, and back: what a sink writes, and a user's API reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.models.row import ModelRow

COLUMNS = ("life", "sequence", "hash", "gone", "floor", "state", "stamps")
"""Beside `id`. The outcomes of requests stay in the log: the task decides on requests, never a reader."""


def to_columns(row: ModelRow) -> dict[str, Any]:
    """Return the columns of a row; `state` is JSON text, None for an id that is gone."""
    return {
        "life": row.life,
        "sequence": row.sequence,
        "hash": row.hash,
        "gone": row.gone,
        "floor": row.floor,
        "state": None if row.gone else row.state.decode(),
        "stamps": row.stamps,
    }


def from_columns(columns: Mapping[str, Any]) -> ModelRow:
    """Return the row of a mapping with these columns; others are ignored. It has no outcomes.

    row = connection.execute(text("SELECT * FROM workflows WHERE id = :id"), {"id": id}).mappings().one()
    frame = answer(id, from_columns(row), token)
    """
    return ModelRow(
        life=columns["life"],
        sequence=columns["sequence"],
        hash=columns["hash"],
        gone=bool(columns["gone"]),
        floor=columns["floor"],
        state=(columns["state"] or "").encode(),
        stamps=bytes(columns["stamps"]),
    )
