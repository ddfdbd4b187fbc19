"""How far the restores of a slot are."""

from __future__ import annotations

from tidegate.state.protocol import QuietListener


class Progress(QuietListener):
    """Counts what is to be restored and what is. Offsets may hold nothing, so it is a measure, no count."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], tuple[int, int]] = {}
        self._at: dict[tuple[str, int], int] = {}

    @property
    def wanted(self) -> int:
        return sum(end - start for start, end in self._ends.values())

    @property
    def done(self) -> int:
        return sum(self._at[key] - start for key, (start, _) in self._ends.items())

    def on_start(self, store: str, partition: int, start: int, end: int) -> None:
        self._ends[store, partition] = start, end
        self._at[store, partition] = start

    def on_batch(self, store: str, partition: int, end: int, count: int) -> None:  # noqa: ARG002
        self._at[store, partition] = end

    def on_end(self, store: str, partition: int, total: int) -> None:  # noqa: ARG002
        if (store, partition) in self._ends:
            self._at[store, partition] = self._ends[store, partition][1]
