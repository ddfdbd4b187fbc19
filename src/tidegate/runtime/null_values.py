"""How many records aggregates and joins ignored because they have no value."""

from __future__ import annotations

from tidegate.runtime.tally import Tally


class NullValues(Tally):
    """Of one task, since it began. What a record that failed added is taken back with it."""
