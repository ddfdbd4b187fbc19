"""A number of records that goes back with a record that failed."""

from __future__ import annotations


class Tally:
    """Of one task, since it began."""

    def __init__(self) -> None:
        self.count = 0
        self._before = 0

    def begin_record(self) -> None:
        """From here on what is counted can be taken back."""
        self._before = self.count

    def take_back(self) -> None:
        self.count = self._before
