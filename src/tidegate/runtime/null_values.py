"""How many records aggregates and joins ignored because they have no value."""

from __future__ import annotations


class NullValues:
    """Of one task, since it began. What a record that failed added is taken back with it."""

    def __init__(self) -> None:
        self.count = 0
        self._before = 0

    def begin_record(self) -> None:
        """From here on what is counted can be taken back."""
        self._before = self.count

    def take_back(self) -> None:
        self.count = self._before
