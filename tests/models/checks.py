"""What must hold for a model after any fault."""

from __future__ import annotations

from typing import Any

from tidegate.models.patch import apply
from tidegate.testing import ModelView


def assert_rows_are_the_fold(model: ModelView) -> None:
    """Each row is the fold of the patches in the events topic."""
    for id in model.rows():
        state: Any = None
        for event in model.events(id):
            state = None if event.kind == "gone" else apply(state, event.patch)
        assert model.row(id).document() == state, id
