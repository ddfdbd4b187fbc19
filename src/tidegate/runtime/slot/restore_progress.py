"""The progress of a slot's restores, and the stores that had to be discarded."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.errors import StateError
from tidegate.state.protocol import QuietListener


class RestoreProgress(QuietListener):
    """Measures restores in offsets. Offsets may hold no record, so these are not exact record counts.

    Every store that was discarded, emptied or kept with a gap is counted, and passed to `warn` by name.
    """

    def __init__(self, warn: Callable[[StateError], None]) -> None:
        self.rebuilt = 0
        self.emptied = 0
        self.gaps = 0
        self._warn = warn
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

    def on_discard(self, store: str, partition: int, reason: str) -> None:
        self.rebuilt += 1
        self._warn(
            StateError(
                "store-rebuilt",
                f"store {store!r}, partition {partition}: its rows on disk were discarded ({reason})",
                "nothing is lost, they are rebuilt from the changelog; if it happens again, check the disk",
            )
        )

    def on_gap(self, store: str, partition: int, *, kept: bool) -> None:
        self.gaps += kept
        self.emptied += not kept
        what = f"store {store!r}, partition {partition}: it has no changelog and missed a commit"
        self._warn(
            StateError(
                "store-gap",
                f"{what}; it was kept as it is",
                "its rows may lack the newest changes; with a changelog they would not",
            )
            if kept
            else StateError(
                "store-emptied",
                f"{what}; it was emptied",
                "what it held is lost; with a changelog it would have been rebuilt",
            )
        )
