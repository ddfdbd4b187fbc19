"""Waiting for what must come true: as long as a slow and busy machine needs, and no longer than it takes."""

from __future__ import annotations

import time
from collections.abc import Callable

HANG_SECONDS = 120.0
"""Only what hangs takes so long."""


def wait_for(condition: Callable[[], bool], seconds: float = HANG_SECONDS, *, every: float = 0.05) -> None:
    """Return once it is true. `every` is for conditions that cost something to look at."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(every)
