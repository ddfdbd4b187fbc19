"""What a change of a store replaced, for as long as the change is in work: see `self_join`."""

from __future__ import annotations

from collections.abc import Callable


class Replaced:
    """The row of a store that the change in work replaced; no key between changes."""

    def __init__(self) -> None:
        self.key: bytes | None = None
        self.data: bytes | None = None
        self.time = -1
        self.number = 0
        """Of the change; it rises."""

    def forward(self, key: bytes, data: bytes | None, time: int, change: Callable[[], None]) -> None:
        """Pass a change on while what it replaced is known."""
        self.key, self.data, self.time = key, data, time
        self.number += 1
        try:
            change()
        finally:
            self.key = self.data = None
