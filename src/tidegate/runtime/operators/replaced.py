"""The row that a change of a store replaced, while the change is processed: see `self_join`."""

from __future__ import annotations

from collections.abc import Callable


class Replaced:
    """The row that the current change of a store replaced; the key is None between changes."""

    def __init__(self) -> None:
        self.key: bytes | None = None
        self.data: bytes | None = None
        self.time = -1
        self.number = 0
        """The number of the change; it rises."""

    def forward(self, key: bytes, data: bytes | None, time: int, change: Callable[[], None]) -> None:
        """Pass a change on while the replaced row is known."""
        self.key, self.data, self.time = key, data, time
        self.number += 1
        try:
            change()
        finally:
            self.key = self.data = None
