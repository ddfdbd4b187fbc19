"""A record count that is rolled back with a record that fails."""

from __future__ import annotations


class Tally:
    """The count of one task since it started."""

    def __init__(self) -> None:
        self.count = 0
        self._before = 0

    def begin_record(self) -> None:
        """Mark the count that `roll_back` returns to."""
        self._before = self.count

    def roll_back(self) -> None:
        self.count = self._before
