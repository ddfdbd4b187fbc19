"""Count the records that aggregates and joins ignored because they have no value."""

from __future__ import annotations

from tidegate.runtime.tally import Tally


class NullValues(Tally):
    """The count of one task since it started. A record that fails is not counted."""
