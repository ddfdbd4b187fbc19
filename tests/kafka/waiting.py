"""Waiting for what a broker does by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

WAIT_SECONDS = 60.0


def wait_for(condition: Callable[[], bool], otherwise: str, seconds: float = WAIT_SECONDS) -> None:
    """Until it comes true; an AssertionError that says `otherwise` if it does not."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)
